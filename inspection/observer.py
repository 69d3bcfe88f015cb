"""A running topology: the statistics of its processes, from `{topology}.stats`, and its lags, as they come."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Final

from inspection.dead_letters import DeadLetterCount, read_dead_letters
from inspection.errors import NoStatisticsError
from inspection.health.findings import Finding
from inspection.health.lags import LagReadings
from inspection.health.observation import Observation, OpenMessage
from inspection.health.verdict import judge
from inspection.open_messages import OpenMessages
from inspection.statistics import StatisticsReader, local_ms
from inspection.topology_status import ClusterStatus, lags_of
from inspection.unfinished_messages import Unfinished, UnfinishedMessages
from inspection.view import Snapshot, TopologyView
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import BrokerError, TopicsError
from kafka_clients.repeated_lines import get_logger
from tuple_tree.control import ControlState
from tuple_tree.manifest import Manifest
from tuple_tree.names import stats_topic
from tuple_tree.timing import Interval

logger = get_logger(__name__)

_BACK_SECONDS: Final = 60.0  # enough for the rates of processes that were stopped for a while
_LAGS_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.2
_CLOCK_SECONDS: Final = 2.0
_CONTROL_SECONDS: Final = 10.0


class Observer:
    """A topology that is followed; not for several threads. `problem` is why lags are not known; empty if they are.

    It begins with the statistics of the last `back_s` seconds, which are those from `since_ms` on. Raises a
    `BrokerError` if they cannot be read.
    """

    def __init__(self, kafka: KafkaSettings, manifest: Manifest, back_s: float = _BACK_SECONDS) -> None:
        self.view = TopologyView(manifest)
        self.problem = ""
        self._manifest = manifest
        self._status = ClusterStatus(kafka)
        topic = stats_topic(manifest.topology)
        if topic not in self._status.catalogue.topics():
            raise TopicsError(
                topic,
                f"does not exist, or this user has no DESCRIBE ACL for it, so there are no statistics of "
                f"{manifest.topology}. Create it with acker topics create MODULE:TOPOLOGY; running processes find it "
                "by themselves",
            )
        self.since_ms = local_ms() - int(back_s * 1000)
        self._statistics = StatisticsReader(kafka, [self.view])
        self._dead_letters = DeadLetterCount(partial(read_dead_letters, kafka, manifest.topology))
        self._lags_due = Interval(_LAGS_SECONDS, time.monotonic)
        self._lags = LagReadings()
        self._messages = OpenMessages(kafka)
        self._unfinished = UnfinishedMessages(self._status, manifest)
        self._open: tuple[OpenMessage, ...] = ()
        self._control: ControlState = "running"
        self._control_due = Interval(_CONTROL_SECONDS, time.monotonic)

    def open(self) -> None:
        """Reads to the end of the statistics, and the lags."""
        self.read_statistics()
        self.read_lags()

    def read_statistics(self) -> None:
        """Reads to their end; `follow` continues there. Raises `BrokerUnreachableError` if no record comes."""
        self._statistics.read(self.since_ms)

    def follow(self, seconds: float, stopping: Callable[[], bool] = lambda: False) -> None:
        """Reads for `seconds`, or until `stopping`; raises `TopicsError` or `AccessError` if that is not allowed."""
        deadline = time.monotonic() + seconds
        while not stopping() and (left := deadline - time.monotonic()) > 0:
            self._statistics.poll(min(_POLL_SECONDS, left))
        if not stopping() and self._lags_due.due():
            self.read_lags()

    def compare_clocks(self, seconds: float) -> None:
        """Waits for a new record, which tells the brokers' time, for some seconds at most: a process sends one each."""
        deadline = time.monotonic() + seconds
        while not self._statistics.knows_broker_time and time.monotonic() < deadline:
            self._statistics.poll(_POLL_SECONDS)

    def await_processes(self, seconds: float) -> None:
        """Waits until a process reports; raises `NoStatisticsError` if none does within `seconds`."""
        deadline = time.monotonic() + seconds
        while not has_processes(self.snapshot()):
            if time.monotonic() > deadline:
                raise NoStatisticsError(self.no_statistics)
            self._statistics.poll(_POLL_SECONDS)

    def snapshot(self) -> Snapshot:
        snapshot = self.view.snapshot(self._statistics.read_to_ms)
        # Without a process of a spout, the record has it.
        snapshot["control"] = snapshot["control"] or self._control
        return snapshot

    def findings(self, snapshot: Snapshot) -> list[Finding]:
        """The health of the topology, by a snapshot and the lags of the last seconds."""
        return judge(
            Observation(
                *(self._manifest, snapshot, self._lags.lag_changes(), self._open),
                control=self._control,
                problem=self.problem,
            )
        )

    @property
    def no_statistics(self) -> str:
        newest = self.view.newest_ms
        last = (
            "" if newest is None else f", the last one {max(0, self._statistics.read_to_ms - newest) / 1000:.0f} s ago"
        )
        return (
            f"no process of {self._manifest.topology} reports statistics{last}: start its components with acker run, "
            "and acker worker; processes of an earlier version report none"
        )

    def close(self) -> None:
        self._statistics.close()

    def read_lags(self) -> None:
        """Requests the lags, as `ClusterStatus.lags` does; `problem` is why they are not known."""
        try:
            self._read_control()
            lags = self._status.lags(self._manifest, self.view.sources())
            letters = lags.dead_letters
            dead_letters = None if letters is None else self._dead_letters.between(*letters)
            self.view.feed_lags(lags.lags, dead_letters, lags.task_lags, lags.done_ahead)
            self._lags.add(time.monotonic(), lags_of(self._manifest, (*lags.own, *lags.sources)))
            self._open = self._messages.of(lags.sources)
            self.problem = ""
        except BrokerError as error:
            # The rest is still of use, and brokers come back.
            self.problem = str(error)
            self.view.feed_lags({}, None)
            self._lags.forget()

    def read_unfinished(self) -> Unfinished:
        """The messages of sources that are emitted and not committed as done; `problem` is why they are not known."""
        try:
            self.problem = ""
            components = self.snapshot()["components"]
            return self._unfinished.read({each["name"] for each in components if each["processes"]})
        except BrokerError as error:
            self.problem = str(error)
            return {}

    def _read_control(self) -> None:
        """Reads the requested state now and then, and at once if a component has no process: it may be stopped."""
        components = self.snapshot()["components"]
        if self._control_due.due() or not all(each["processes"] for each in components):
            control = self._status.catalogue.controls().get(self._manifest.topology)
            self._control = "running" if control is None else control.state


def latest(kafka: KafkaSettings, manifest: Manifest, back_s: float) -> Snapshot:
    """The figures of the last seconds, without lags; those of no process where their topic may not be read."""
    try:
        with closing(Observer(kafka, manifest, back_s)) as observer:
            observer.read_statistics()
            observer.compare_clocks(_CLOCK_SECONDS)
            return observer.snapshot()
    except TopicsError:
        return TopologyView(manifest).snapshot(0)


def has_processes(snapshot: Snapshot) -> bool:
    """Whether any process of the topology reports."""
    return bool(snapshot["workers"]) or any(component["processes"] for component in snapshot["components"])
