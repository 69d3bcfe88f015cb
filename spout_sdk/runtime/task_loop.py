"""What the loops of spouts and bolts share: the tasks that the group gives to their process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.emitting.flush_timing import FlushTiming
from spout_sdk.kafka.kafka_reader import KafkaReader
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.records import Clock
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.topologies.topology import Topology
from tuple_tree.names import component_group

T = TypeVar("T", BoltTask, SpoutTask)


@dataclass(frozen=True, slots=True)
class ComponentProcess:
    """What a loop has from the process that runs it."""

    topology: Topology
    component: str
    kafka: KafkaSettings
    clock: Clock
    on_tick: Callable[[float], None]
    stopping: Callable[[], bool]


class TaskLoop(ABC, Generic[T]):
    """Runs the tasks of a component; `in_flight` returns how many records are undelivered."""

    def __init__(self, process: ComponentProcess, in_flight: Callable[[], int]) -> None:
        self._topology, self._component, self._kafka = process.topology, process.component, process.kafka
        self._clock, self._on_tick, self._stopping = process.clock, process.on_tick, process.stopping
        self._group = component_group(process.topology.name, process.component)
        self._tasks: dict[int, T] = {}
        self._tick_at = 0.0
        self._flush_timing = FlushTiming(process.clock, in_flight)

    @property
    def tasks(self) -> Sequence[int]:
        return tuple(self._tasks)

    @abstractmethod
    def _assigned(self, partitions: Sequence[int]) -> None: ...

    @abstractmethod
    def _released(self, partitions: Sequence[int]) -> None:
        """Ends tasks in order: what they sent is delivered, and what they may commit is committed."""

    @abstractmethod
    def _lost(self, partitions: Sequence[int]) -> None:
        """Ends tasks that another process has already."""

    @abstractmethod
    def _tick(self, now: float) -> None: ...

    def _read(self, topic: str, on_uncommitted: Callable[[], None], *, from_end: bool) -> KafkaReader:
        return KafkaReader(
            *(self._kafka, topic, self._group),
            from_end=from_end,
            on_assigned=self._assigned,
            on_revoked=self._released,
            on_lost=self._lost,
            on_uncommitted=on_uncommitted,
        )

    def _flush(self, count: int) -> None:
        """Flushes all tasks, as their input is idle."""
        self._flush_timing.flushed(count)
        for task in self._tasks.values():
            task.flush()
        self._tick(self._clock())
