"""A running topology: the statistics of its processes, from `{topology}.stats`, and its lags, as they come."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, Self

from confluent_kafka import Message

from inspection.errors import SilenceError
from inspection.topology_status import ClusterStatus
from inspection.view import Snapshot, TopologyView
from kafka_clients.catalogue import CONTACT_S, Catalogue, KafkaSettings
from kafka_clients.errors import GONE, BrokerUnreachableError, ClusterError, TopicError
from kafka_clients.log_reader import LogReader
from tuple_tree.errors import StatsRecordError
from tuple_tree.manifest import Manifest
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import StatsRecord
from tuple_tree.timing import Interval

_log = logging.getLogger(__name__)

_BACK_S: Final = 60.0  # enough for the rates of processes that were stopped for a while
_LAGS_S: Final = 2.0
_POLL_S: Final = 0.2


class StatsLog:
    """The topic `{topology}.stats`, from the records of `back_s` seconds ago on; not for several threads.

    `unreadable` counts records in another format. Raises a `ClusterError` if it cannot be read.
    """

    def __init__(self, kafka: KafkaSettings, topology: str, back_s: float) -> None:
        self._topic = stats_topic(topology)
        self.unreadable = 0
        if self._topic not in Catalogue(kafka).topics():
            raise TopicError(
                self._topic,
                f"does not exist, or this user has no DESCRIBE ACL for it, so there are no "
                f"statistics of {topology}. Create it with acker topics create MODULE:TOPOLOGY; running "
                "processes find it by themselves",
            )
        place = (self._topic, 0)
        self._reader = LogReader(kafka)
        try:
            since_ms = int((time.time() - back_s) * 1000)
            self._reader.assign({place: self._reader.stretches([place], since_ms)[place].start})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def poll(self, timeout_s: float) -> list[StatsRecord]:
        """The records since the last call, in order; raises a `TopicError` or `AccessError` if they may not be read."""
        messages = self._reader.poll(timeout_s, ignoring=GONE)
        return [record for message in messages if (record := self._decoded(message)) is not None]

    def catch_up(self) -> Iterator[StatsRecord]:
        """Reads to the end; raises `BrokerUnreachableError` if no record comes for `CONTACT_S`."""
        deadline = time.monotonic() + CONTACT_S
        while not self._reader.ended:
            if records := self.poll(_POLL_S):
                yield from records
                deadline = time.monotonic() + CONTACT_S
            elif time.monotonic() > deadline:
                raise BrokerUnreachableError(f"{self._topic} could not be read for {CONTACT_S:g} s: check the brokers")

    def _decoded(self, message: Message) -> StatsRecord | None:
        try:
            return StatsRecord.of(message.key(), message.value(), message.timestamp()[1])
        except StatsRecordError as error:
            if not self.unreadable:
                _log.warning("%s offset %s is skipped: %s", self._topic, message.offset(), error)
            self.unreadable += 1
            return None


class BrokerClock:
    """The brokers' clock by this machine's, from records that are read as they are written.

    A record is read after the broker appended it, so the largest difference is the closest.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None

    def observe(self, appended_ms: int, local_ms: int) -> None:
        ahead_ms = appended_ms - local_ms
        self._ahead_ms = ahead_ms if self._ahead_ms is None else max(self._ahead_ms, ahead_ms)

    def now_ms(self, local_ms: int) -> int:
        """The brokers' time; this machine's before the first record."""
        return local_ms + (self._ahead_ms or 0)


class Observer:
    """A topology that is followed; not for several threads. `problem` is why lags are not known; empty if they are.

    It begins with the statistics of the last `back_s` seconds. Raises a `ClusterError` if they cannot be read.
    """

    def __init__(self, kafka: KafkaSettings, manifest: Manifest, back_s: float = _BACK_S) -> None:
        self.view = TopologyView(manifest)
        self.problem = ""
        self._manifest = manifest
        self._log = StatsLog(kafka, manifest.topology, back_s)
        self._status = ClusterStatus(kafka)
        self._broker_clock = BrokerClock()
        self._lags_due = Interval(_LAGS_S, time.monotonic)

    def open(self) -> None:
        """Reads to the end of the statistics, and the lags."""
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
        return self.view.snapshot(self._now_ms())

    @property
    def silence(self) -> str:
        newest = self.view.newest_ms
        last = "" if newest is None else f", the last one {max(0, self._now_ms() - newest) / 1000:.0f} s ago"
        return (
            f"no process of {self._manifest.topology} reports statistics{last}: start its components with acker run, "
            "and acker worker; processes of an earlier version report none"
        )

    def close(self) -> None:
        self._log.close()

    def _now_ms(self) -> int:
        return self._broker_clock.now_ms(_local_ms())

    def _poll(self, seconds: float) -> None:
        records = self._log.poll(seconds)
        for record in records:
            self._broker_clock.observe(record.at_ms, _local_ms())
        self.view.feed(records)

    def _read_lags(self) -> None:
        try:
            self.view.feed_lags(*self._status.waiting(self._manifest, self.view.sources()))
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
