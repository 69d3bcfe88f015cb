"""The states of the tasks of a process: restores them when tasks begin, and writes them with each transaction."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError

from kafka_clients.errors import BrokerUnreachableError
from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.errors import DeliveryError
from spout_sdk.kafka.kafka_settings import KafkaSettings
from spout_sdk.records import Clock
from spout_sdk.state.done_positions import DonePositions
from spout_sdk.state.restore import RestoreProgress, Restorer
from spout_sdk.state.stores import Store
from spout_sdk.state.task_state import TaskState
from spout_sdk.state.watermarks import SourceOffsets
from spout_sdk.statistics.state_stats import StateStats
from tuple_tree.done_sets import DoneSet
from tuple_tree.state_records import as_text

logger = get_logger("spout_sdk.state")

_POSITION_SECONDS: Final = 10.0
"""Seconds between two requests for the ends of changelogs; the next process with the same store reads on from there."""
_EXPIRY_SECONDS: Final = 1.0
_MEASURE_SECONDS: Final = 1.0


class TransactionProducer(Protocol):
    """A producer in a transaction; `produce` takes topic, partition, key, value and headers.

    `produce` returns an error if only this record is refused, otherwise None.
    """

    produce: Callable[..., KafkaError | None]


class Process(Protocol):
    """The parts of a `ComponentProcess` that its states need."""

    @property
    def topology(self) -> Topology: ...
    @property
    def component(self) -> str: ...
    @property
    def kafka(self) -> KafkaSettings: ...
    @property
    def state_kafka(self) -> KafkaSettings | None: ...
    @property
    def state_directory(self) -> Path | None: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def on_tick(self) -> Callable[[float], None]: ...


class StateBackend:
    """The states of the tasks of a process; this base class is for tasks without a state."""

    have_changes = False
    stats: StateStats | None = None
    is_restoring = False

    def begin(self, tasks: Mapping[int, BoltTask]) -> None:
        """Restores the states of tasks that begin."""

    def look(self, now: float) -> None:
        """Learns new commits of the spouts, and deletes expired keys."""

    def write(self, sink: TransactionProducer) -> None:
        """Adds the changes of all states to the transaction, before it is committed."""

    def committed(self) -> None:
        """Notes that the transaction is committed."""

    def end(self, tasks: Iterable[int]) -> None:
        """Forgets tasks that end, and closes their stores."""

    def close(self) -> None:
        """Closes all stores."""


class ProcessStates(StateBackend):
    """The states of the tasks of a process.

    A store has only committed values. So after a rolled-back transaction the new task of the same number uses it again,
    and reads the records that the store lacks from the changelog.

    Attributes:
        stats: statistics, a second old at most; also for other threads.
        is_restoring: whether `begin` restores stores now.
    """

    def __init__(self, process: Process) -> None:
        topology, bolt, clock = process.topology, process.component, process.clock
        kafka = process.state_kafka or process.kafka
        self._topology, self._bolt = topology.name, bolt
        self._on_tick = process.on_tick
        self._restorer = Restorer(topology, bolt, kafka, process.state_directory, self._restoring)
        self._guarantee = topology.state_guarantees.get(bolt, "")
        self._done_positions = DonePositions(topology, bolt, kafka)
        self._clock = clock
        self._done: dict[int, DoneSet] = {}
        self._offsets: Mapping[int, SourceOffsets] = self._done_positions.offsets
        self._stores: dict[int, Store] = {}
        self._states: dict[int, TaskState] = {}
        self.stats = self._measured()
        self._expire_at = clock() + _EXPIRY_SECONDS
        self._measure_at = clock() + _MEASURE_SECONDS
        self._ask_at = clock() + _POSITION_SECONDS
        self._has_deletions = False  # whether identities of done positions can be deleted from changelogs
        self._ends: Mapping[int, int] = {}  # task → end of its changelog before this transaction was written

    @property
    def have_changes(self) -> bool:  # type: ignore[override]
        return self._has_deletions or any(state.has_changes for state in self._states.values())

    def begin(self, tasks: Mapping[int, BoltTask]) -> None:
        states: dict[int, TaskState] = {number: task.first.operator.state for number, task in tasks.items()}
        for task in states:
            if task not in self._stores:
                self._stores[task] = self._restorer.open(task)
        restorer, self.is_restoring = self._restorer, True
        try:
            restorer.restore({task: self._stores[task] for task in states})
        finally:
            self.is_restoring = False
        # So that a topic that is recreated before the first answer is detected.
        self._done_positions.topics = self._done_positions.topics or restorer.about.sources
        for task, state in states.items():
            state.begin(self._stores[task], restorer.about)
            state.learn(self._done)
            if self._offsets:
                state.learn_offsets(self._offsets, self._clock())
        self._states |= states
        self.stats = self._measured()

    def _restoring(self, progress: RestoreProgress) -> None:
        self.stats = replace(
            self.stats or StateStats(),
            restoring=progress.tasks,
            restore_records=progress.records,
            restore_records_per_second=round(progress.records_per_second, 1),
            restore_left=progress.left,
            restore_total=progress.total,
            restore_seconds=round(progress.seconds, 1),
        )
        # A restore may take longer than the largest heartbeat age, so it must tick.
        self._on_tick(self._clock())

    def _measured(self) -> StateStats:
        states = {str(task): state for task, state in self._states.items()}
        return StateStats(
            self._guarantee,
            {task: state.size for task, state in states.items()},
            {task: state.size_bytes for task, state in states.items()},
            {task: state.applied.in_changelog for task, state in states.items()},
        )

    def look(self, now: float) -> None:
        if now >= self._expire_at:
            has_more = [state.expire() for state in self._states.values()]
            self._expire_at = now if any(has_more) else now + _EXPIRY_SECONDS
        if now >= self._measure_at:
            self._measure_at = now + _MEASURE_SECONDS
            self.stats = self._measured()
        if (done := self._done_positions.look(now)) is not None:
            self._done |= done
            for state in self._states.values():
                state.learn(done)
            # Deletions must be committed even if no more tuples come.
            self._has_deletions = any(state.applied.has_changes for state in self._states.values())
        if (offsets := self._done_positions.offsets) is not self._offsets:
            self._offsets = offsets
            for state in self._states.values():
                state.learn_offsets(offsets, now)
        for state in self._states.values():
            state.look(now)

    def write(self, sink: TransactionProducer) -> None:
        if self._clock() >= self._ask_at:
            self._ask_at = self._clock() + _POSITION_SECONDS
            # Ends only save reading in a later restore: if a partition has no leader, they are read the next time.
            with suppress(BrokerUnreachableError):
                # If the commit succeeds, this process still owns the tasks, so it wrote all records before these ends.
                self._ends = self._restorer.ends(self._states)
        for task, state in self._states.items():
            for key, value in state.changes():
                if (refused := sink.produce(state.topic, task, key, value, [])) is not None:
                    what = f"the state of key {as_text(key)}"
                    raise DeliveryError(what, state.topic, task, refused)
            for topic, key, value in state.messages():
                if (refused := sink.produce(topic, task, key, value, [])) is not None:
                    raise DeliveryError(f"the result of a window of key {as_text(key)}", topic, task, refused)

    def committed(self) -> None:
        ends, self._ends = self._ends, {}
        self._has_deletions = False
        for task, state in self._states.items():
            state.committed(ends.get(task))

    def end(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            self._states.pop(task, None)
            if (store := self._stores.pop(task, None)) is not None:
                store.close()
        self.stats = self._measured()

    def close(self) -> None:
        self.end([*self._stores])
        self._restorer.close()


def process_states(process: Process) -> StateBackend:
    component: Any = process.topology.manifest.component(process.component)
    return StateBackend() if getattr(component, "state", None) is None else ProcessStates(process)
