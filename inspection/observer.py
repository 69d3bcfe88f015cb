"""A running topology: statistics of its processes, and lags, as they come."""

import time
from collections.abc import Callable
from typing import Final

from inspection.errors import SilenceError
from inspection.moments import BrokerClock
from inspection.stats_log import StatsLog
from inspection.topology_status import Lags
from inspection.view import Snapshot, TopologyView
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import ClusterError
from tuple_tree.manifest import Manifest
from tuple_tree.timing import Interval

BACK_S: Final = 60.0  # how far back it begins to read: enough for the rates of processes that were stopped for a while
_LAGS_S: Final = 2.0
_POLL_S: Final = 0.2


class Observer:
    """A topology that is followed; not for several threads. `problem` is why lags are not known; empty if they are."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self.view = TopologyView(manifest)
        self.problem = ""
        self._topology = manifest.topology
        self._log = StatsLog(kafka, manifest.topology)
        self._lags = Lags(kafka, manifest)
        self._broker_clock = BrokerClock()
        self._lags_due = Interval(_LAGS_S, time.monotonic)

    def open(self, back_s: float = BACK_S) -> None:
        """Reads the statistics of the last `back_s` seconds; raises a `ClusterError` if that is not possible."""
        self._log.open(back_s)
        self.view.feed(self._log.catch_up())
        self._read_lags()

    def follow(self, seconds: float, stopping: Callable[[], bool] = lambda: False) -> None:
        """Reads for so long, or until `stopping`; raises `TopicError` or `AccessError` if that is not allowed."""
        deadline = time.monotonic() + seconds
        while not stopping() and (left := deadline - time.monotonic()) > 0:
            self._poll(min(_POLL_S, left))
        if not stopping() and self._lags_due.due():
            self._read_lags()

    def await_processes(self, seconds: float) -> None:
        """Waits until a process reports; raises `SilenceError` if none does within so many seconds."""
        deadline = time.monotonic() + seconds
        while not has_processes(self.snapshot()):
            if time.monotonic() > deadline:
                raise SilenceError(self.silence)
            self._poll(_POLL_S)

    def snapshot(self) -> Snapshot:
        return self.view.snapshot(self._broker_clock.now_ms(_local_ms()))

    @property
    def silence(self) -> str:
        newest = self.view.newest_ms
        ago = 0 if newest is None else max(0, self._broker_clock.now_ms(_local_ms()) - newest)
        last = "" if newest is None else f", the last one {ago / 1000:.0f} s ago"
        return (
            f"no process of {self._topology} reports statistics{last}: start its components with acker run, and acker "
            "worker; processes of an earlier version report none"
        )

    def close(self) -> None:
        self._log.close()

    def _poll(self, seconds: float) -> None:
        records = self._log.poll(seconds)
        for record in records:
            self._broker_clock.observe(record.at_ms, _local_ms())
        self.view.feed(records)

    def _read_lags(self) -> None:
        try:
            self.view.feed_lags(*self._lags.read(self.view.sources()))
            self.problem = ""
        except ClusterError as error:
            # The rest is still of use, and brokers come back.
            self.problem = str(error)
            self.view.feed_lags({}, None)


def _local_ms() -> int:
    return int(time.time() * 1000)


def has_processes(snapshot: Snapshot) -> bool:
    """Whether any process of the topology reports."""
    return bool(snapshot["workers"]) or any(component["processes"] for component in snapshot["components"])
