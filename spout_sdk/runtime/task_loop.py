"""The base of the loops of spouts and bolts: runs the tasks that the consumer group assigns to the process."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from kafka_clients.client_settings import CLIENT_CLASSES
from kafka_clients.control_reader import ControlReader
from kafka_clients.loop_runner import NOT_STALLED, Loop, Stalled
from kafka_clients.published_manifest import PublishedManifest
from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.bolts.step import Step
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.emitting.task import FlushTiming
from spout_sdk.errors import RolledBackError
from spout_sdk.kafka.kafka_reader import KafkaReader
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.kafka.kafka_sink import KafkaSink
from spout_sdk.records import Clock, Entropy, Sink, TaskEnvironment, wall_ms
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import Counters, Stats, worst_of
from tuple_tree.names import component_group
from tuple_tree.program import fingerprint
from tuple_tree.timing import EXECUTING, Stall

T = TypeVar("T", BoltTask, SpoutTask)
ProcessSink = KafkaSink | TransactionalSink

logger = get_logger("spout_sdk.runtime")


@dataclass(frozen=True, slots=True)
class ComponentProcess:
    """The parameters that a loop gets from its process."""

    topology: Topology
    component: str
    kafka: KafkaSettings
    clock: Clock
    entropy: Entropy
    counters: Counters
    on_tick: Callable[[float], None]
    stopping: Callable[[], bool]
    wall_ms: Callable[[], int] = wall_ms
    state_kafka: KafkaSettings | None = None  # for the clients that restore states; `kafka` if None
    state_directory: Path | None = None  # directory of the stores of states; in memory if None
    instance: str | None = None  # `group.instance.id`; the next process with it takes over the tasks
    is_new_instance: bool = False  # whether no process has had that instance before
    members: int = 1  # the processes of the component that start together
    control: ControlReader | None = None  # for a spout; without it, the spout is always running
    published: PublishedManifest | None = None  # the published manifest, for a bolt
    chained: dict[str, Counters] = field(init=False)  # chained bolt → its counters

    def __post_init__(self) -> None:
        chained = {bolt.name: Counters() for bolt in self.topology.manifest.chained_to(self.component)}
        object.__setattr__(self, "chained", chained)

    def environment(self, sink: Sink) -> TaskEnvironment:
        """The environment of its tasks; without Kafka settings if Kafka is in memory: users' clients cannot use it."""
        kafka = {} if CLIENT_CLASSES in self.kafka else self.kafka
        return TaskEnvironment(
            *(sink, self.counters, self.clock, self.entropy),
            kafka=kafka,
            wall_ms=self.wall_ms,
            chained=self.chained,
            is_transactional=isinstance(sink, TransactionalSink),
            published=self.published,
        )


class TaskLoop(Loop, Generic[T]):
    """Runs the tasks of a component, one for each assigned partition of a topic.

    Args:
        kafka: settings of the consumer.
        from_end: whether the consumer begins at the end of the topic.
    """

    _work: Stall
    _undone: str  # the reason that statistics show when the loop is stalled

    def __init__(
        self, process: ComponentProcess, sink: ProcessSink, topic: str, kafka: KafkaSettings, *, from_end: bool
    ) -> None:
        self._topology, self._component = process.topology, process.component
        self._clock, self._on_tick, self._stopping = process.clock, process.on_tick, process.stopping
        self._programs = (fingerprint(process.topology.manifest),)
        self._group = component_group(process.topology.name, process.component)
        self._sink = sink
        self._environment = process.environment(sink)
        self._chained = process.chained
        self.tasks: dict[int, T] = {}  # the assigned tasks, by partition
        self._tick_at = 0.0
        self._flush_timing = FlushTiming(process.clock, sink)
        self._reader = KafkaReader(
            *(kafka, topic, self._group),
            from_end=from_end,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            instance=process.instance,
            is_new_instance=process.is_new_instance,
        )

    def join(self) -> None:
        """Joins the group and prepares the assigned tasks, without a turn; for the testing kit."""
        self._reader.read(0)

    def set_shares(self, bolt: str, shares: Sequence[float]) -> None:
        """Sets the shares of a bolt's tasks in the shuffle groupings of this process."""
        for task in self.tasks.values():
            for plan in task.all_plans:
                plan.set_shares(bolt, shares)

    def turn(self) -> bool:
        try:
            return self._turn()
        except RolledBackError as undone:
            self._begin_again(str(undone))
            return True

    def flush(self) -> None:
        """Ticks and then flushes all tasks when their input is idle, so that tuples and acks of the tick are sent."""
        try:
            self._flush()
        except RolledBackError as undone:
            self._begin_again(str(undone))

    def end(self) -> None:
        try:
            self._released(tuple(self.tasks))
        except RolledBackError as undone:
            logger.warning("%s stops; its work since the last commit is repeated: %s", self._component, undone)
        self._reader.leave()

    def break_off(self) -> None:
        try:
            self._save_committed()
        except Exception as error:  # noqa: BLE001 - the first error is the one to report
            logger.warning("%s ends by an error, and then a second error came: %s", self._component, error)

    @abstractmethod
    def _save_committed(self) -> None:
        """If offsets are committed first, sends emitted tuples, and sets back the offsets of unexecuted records."""

    def stalls(self, now: float) -> list[Stalled]:
        counters = self._environment.counters
        done = (counters.executed, counters.acked, sum(counters.failed.values()))
        return [(self._work.seconds(now, done, has_work=self.has_work), self._undone)]

    def stats(self, stalled: Stalled = NOT_STALLED) -> Stats:
        is_executing = stalled[1].startswith(EXECUTING)
        return Stats(
            self._component,
            (os.getpid(),),
            tuple(sorted(self.tasks)),
            sources=self._topology.kafka_sources.get(self._component, ()),
            settings=self._topology.settings.get(self._component, {}),
            programs=self._programs,
            pending=self.pending,
            stalled_seconds=stalled[0],
            stalled_by=stalled[1],
            execute_seconds=stalled[0] if is_executing else 0.0,
            execute_at=stalled[1].removeprefix(EXECUTING).lstrip(", ").removeprefix("at ") if is_executing else "",
            **self._environment.counters.snapshot(),
        )

    def chained_stats(self) -> list[Stats]:
        steps = [step for task in list(self.tasks.values()) for step in task.steps]
        return [
            self._chained_stats(name, [step for step in steps if step.id.component == name]) for name in self._chained
        ]

    def _chained_stats(self, name: str, steps: Sequence[Step]) -> Stats:
        now = self._clock()
        pauses = [
            (now - pause.since, pause.why) for step in steps if (pause := step.operator.failures.pause) is not None
        ]
        seconds, why = max(pauses, default=(0.0, ""))
        return Stats(
            name,
            (os.getpid(),),
            tuple(sorted(step.id.task for step in steps)),
            pending=sum(step.inputs.open_tuples for step in steps),
            retrying=sum(step.settlement.retries.waiting for step in steps),
            most_failed=worst_of(step.settlement.retries.most_failed(now) for step in steps),
            settings=self._topology.settings.get(name, {}),
            programs=self._programs,
            paused_seconds=seconds,
            paused_by=why,
            **self._chained[name].snapshot(),
        )

    @property
    @abstractmethod
    def has_work(self) -> bool:
        """Whether work waits, so that a loop without progress is stalled."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """The number of open trees of a spout, or open inputs of a bolt."""

    @abstractmethod
    def _assigned(self, partitions: Sequence[int]) -> None: ...

    def _revoked(self, partitions: Sequence[int]) -> None:
        self._released(partitions)

    @abstractmethod
    def _released(self, partitions: Sequence[int]) -> None:
        """Ends revoked tasks: waits until their records are delivered, and commits what they have finished."""

    @abstractmethod
    def _lost(self, partitions: Sequence[int]) -> None:
        """Ends tasks that another process may own already, without a commit."""

    @abstractmethod
    def _tick(self, now: float) -> None: ...

    @abstractmethod
    def _turn(self) -> bool: ...

    @abstractmethod
    def _flush(self) -> None: ...

    @abstractmethod
    def _begin_again(self, why: str) -> None:
        """Replaces all tasks by new ones, which read uncommitted records again."""
