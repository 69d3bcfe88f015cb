"""A topology on the simulated cluster whose health is judged every second, as `acker top` and the dashboard do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from inspection.health.findings import Finding
from inspection.health.lags import LagReadings
from inspection.health.messages import is_noteworthy
from inspection.health.observation import Observation, OpenMessage
from inspection.health.verdict import judge
from inspection.topic_status import PartitionStatus, TopicStatus
from inspection.topology_status import lags_of
from inspection.view import TopologyView
from kafka_clients.loop_runner import NOT_STALLED, describe_error
from spout_sdk import Topology
from spout_sdk.runtime.execute_watch import ExecuteWatch, Limits
from spout_sdk.testing import NotIdleError, SimulatedCluster
from spout_sdk.testing.cluster import LARGEST_TURN
from tuple_tree.control import ControlState
from tuple_tree.names import acker_group, acks_topic, component_group, tuples_topic
from tuple_tree.process_stats import StatsRecord

HOST: Final = "host"
SOURCE: Final = "orders"
_STEP_MS: Final = 250  # inside of a call
_IDLE_MS: Final = 1000  # where nothing is left to do
_OLD_MS: Final = 60_000  # the age of the processes at the beginning


@dataclass
class Watched:
    """Lets a topology work that reads `SOURCE`, and judges it.

    Args:
        topology: which.
        load: called each second with the time; returns the messages that are written to the source.
        partitions: of the source.

    Attributes:
        seen: the findings of each second.
        silent: components without processes; `ended` has the errors of some, `ahead_ms` hosts' clocks.
    """

    topology: Topology
    load: Callable[[int], list[bytes]]
    partitions: int = 2
    control: ControlState = "running"
    silent: set[str] = field(default_factory=set)
    ahead_ms: dict[str, int] = field(default_factory=dict)
    seen: list[list[Finding]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster(self.topology, topics={SOURCE: self.partitions})
        self.view = TopologyView(self.cluster.topology.manifest)
        self._lags = LagReadings()
        self._second = 0
        self._written = 0
        self._executing: dict[str, tuple[float, str]] = {}
        self._watches = {
            (name, number): ExecuteWatch(
                *(name, Limits.of(self.view.manifest, name, {}), process._loop.tasks, None),
                *(lambda seconds, what, name=name: self._executing.update({name: (seconds, what)}), self._end),
                self.cluster.clock,
            )
            for (name, number), process in self.cluster._tasks.items()
            if process.bolt(name) is not None
        }

    @property
    def now(self) -> float:
        return self.cluster.clock()

    def run(self, seconds: int) -> list[Finding]:
        """Works for some seconds; returns the findings of the last one."""
        end = self.now + seconds
        while self.now < end:
            self._work()
            self._look()
        return self.seen[-1]

    def _work(self) -> None:
        """Works until a call has let time pass, or nothing is left to do: then a moment passes."""
        began = self.now
        try:
            self.cluster.run_until(lambda: self.now > began)
        except NotIdleError:
            self.cluster.clock.elapsed_ms += _IDLE_MS
        except Exception as error:  # noqa: BLE001 - of a process, which ends by it
            self._failed(error)

    def pass_time(self, seconds: float) -> None:
        """Lets time pass inside of a call of a component, as other processes see it."""
        left = round(1000 * seconds)
        while left:
            step = min(_STEP_MS, left)
            left -= step
            self.cluster.clock.elapsed_ms += step
            for watch in self._watches.values():
                watch.look()
            self._let_others_work()
            self._look()

    def _let_others_work(self) -> None:
        """A turn of each process that is not inside of a call."""
        cluster = self.cluster
        processes: list[Any] = [*cluster._tasks.values(), cluster._acker]
        for process in processes:
            loop = process._loop
            is_inside = any(getattr(task, "running", None) for task in getattr(loop, "tasks", {}).values())
            if not is_inside and process.name not in cluster._paused:
                process.turn(LARGEST_TURN)

    def first_of(self, check: str) -> int | None:
        """The first second, from 0, in which a check has the first finding."""
        return next((at for at, found in enumerate(self.seen) if found and found[0].check == check), None)

    def kill(self, component: str) -> None:
        """Ends a component, or `acker`, without a last record, for good."""
        self.cluster.pause(component)
        self.silent.add(component)

    def end_process(self, component: str, error: Exception) -> None:
        """Ends a component by an error, which its last record has, for good."""
        self.kill(component)
        stats = self.cluster.stats(component)
        self._feed("component", component, 7, stats.to_dict(), ended_by=describe_error(error))

    def _failed(self, error: Exception) -> None:
        """The process of a state has ended: no other raises here."""
        (name,) = (bolt.name for bolt in self.view.manifest.bolts if bolt.state is not None)
        self.end_process(name, error)

    def _end(self, why: str) -> None:
        raise AssertionError(why)

    def _look(self) -> None:
        while self._second < int(self.now):
            self._second += 1
            for message in self.load(self._second):
                self.cluster.produce(SOURCE, message, partition=self._written % self.partitions)
                self._written += 1
            self._report()
            if self._second % 2 == 0:
                self._read_lags()
            snapshot = self.view.snapshot(self.cluster.clock.broker_ms)
            observed = Observation(
                self.view.manifest, snapshot, self._lags.lag_changes(), self._open(), control=self.control
            )
            self.seen.append(judge(observed))

    def _report(self) -> None:
        """Statistics of all processes; a call that has not returned is reported by another thread."""
        for pid, ((name, number), process) in enumerate(self.cluster._tasks.items(), 100):
            if name in self.silent:
                continue
            stalled = max(process._loop.stalls(self.now), default=NOT_STALLED)
            if name in self._executing and self._executing[name][0] >= stalled[0]:
                stalled = self._executing.pop(name)
            of = [process._loop.stats(stalled), *process._loop.chained_stats()]
            for stats in of:
                members = replace(stats, pids=(pid,), tasks=(number,)).to_dict()
                # The client of the simulated cluster does not report it.
                self._feed("component", stats.component, pid, {k: v for k, v in members.items() if k != "unread"})
        acker = self.cluster._acker
        if acker is not None and acker.name not in self.silent:
            loop = acker._loop
            # By the simulated time of the broker, and not by that of this machine.
            held = tuple(owned.stats(self.cluster.clock.broker_ms, self.now) for owned in loop._owned.values())
            self._feed("acker", "acker", 99, replace(loop.stats(), by_partition=held).to_dict())

    def _feed(self, kind: Any, name: str, pid: int, stats: Mapping[str, Any], ended_by: str = "") -> None:
        at_ms = self.cluster.clock.broker_ms
        sent_ms = at_ms + self.ahead_ms.get(HOST, 0)
        uptime_ms = _OLD_MS + self.cluster.clock.elapsed_ms
        of = StatsRecord(
            *(kind, name, HOST, pid, "run", uptime_ms, bool(ended_by), stats), sent_ms=sent_ms, ended_by=ended_by
        )
        self.view.feed([StatsRecord.of(of.key, of.to_json(), at_ms)])

    def _topics(self) -> list[TopicStatus]:
        manifest = self.view.manifest
        name = manifest.topology
        read = {tuples_topic(name, bolt.name): component_group(name, bolt.name) for bolt in manifest.inboxes}
        read |= {acks_topic(name): acker_group(name)}
        (spout,) = manifest.spouts
        read[SOURCE] = component_group(name, spout.name)
        return [TopicStatus(topic, 0, group, self._partitions(topic, group)) for topic, group in read.items()]

    def _partitions(self, topic: str, group: str) -> tuple[PartitionStatus, ...]:
        broker, found = self.cluster.broker, []
        for partition in range(broker.partitions(topic)):
            commit = broker.committed(group, topic, partition)
            end, position = broker.end(topic, partition), 0 if commit is None else commit.offset
            found.append(PartitionStatus.of(partition, 0, end, commit, position))
        return tuple(found)

    def _read_lags(self) -> None:
        topics = self._topics()
        self._lags.add(self.now, lags_of(self.view.manifest, topics))
        groups = {
            component_group(self.view.manifest.topology, each.name): each.name for each in self.view.manifest.heads
        }
        own = [topic for topic in topics if topic.group in groups]
        lags = {groups[topic.group or ""]: topic.lag for topic in own}
        tasks = {groups[topic.group or ""]: {one.partition: one.lag for one in topic.partitions} for topic in own}
        self.view.feed_lags(lags, 0, tasks)

    def _open(self) -> tuple[OpenMessage, ...]:
        return tuple(
            OpenMessage(
                *(topic.group or "", topic.name, one.partition, one.committed or 0, one.failures, None),
                *(one.done_ahead, one.open_ahead),
            )
            for topic in self._topics()
            if topic.name == SOURCE
            for one in topic.partitions
            if is_noteworthy(one.failures, one.open_runs)
        )
