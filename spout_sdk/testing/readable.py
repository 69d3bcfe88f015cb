"""Records of a simulated cluster for tests: emits, executions, acks, fails, and instances."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from spout_sdk.api.context import EmitInfo, TaskContext, TaskHook
from spout_sdk.api.topology import Topology
from spout_sdk.api.tuples import Tuple
from spout_sdk.client.calls import Call, Calls
from spout_sdk.client.records import RecordReader
from spout_sdk.client.target import Target
from spout_sdk.outcome import MessageOutcome
from spout_sdk.records import Clock
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import Stats
from spout_sdk.testing.broker import MemoryBroker, MemoryRecord, SimulationError
from spout_sdk.testing.chance import SimulatedClock
from spout_sdk.testing.tasks import SimulatedProcess
from tuple_tree.components import BoltManifest, StateManifest
from tuple_tree.headers import PREFIX
from tuple_tree.messages import FailReason, Failure
from tuple_tree.names import component_group, dead_letters_topic, state_topic, tuples_topic
from tuple_tree.state_records import KeyCodec, ValueCodec, is_system
from tuple_tree.streams import Values


@dataclass(frozen=True, slots=True)
class Emitted:
    """One call of `emit`.

    Attributes:
        values: the values of the tuple.
        stream: the stream that it was emitted to.
        task: the number of the task that emitted it.
        message_id: the message id of a spout's tuple; None for an untracked tuple, and for a bolt.
        anchors: the inputs that a bolt anchored it to.
        roots: the roots of its trees; empty for an untracked tuple, and for a tuple without recipients.
        recipients: bolt and task of each delivery.
        at: the time, in seconds since the beginning.
    """

    values: Values
    stream: str
    task: int
    message_id: Any
    anchors: tuple[Tuple, ...]
    roots: tuple[int, ...]
    recipients: tuple[tuple[str, int], ...]
    at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A message of a spout, or an input of a bolt, that was acked or failed.

    Attributes:
        what: the message id, or the values of the input.
        task: the number of the task.
        failure: why it failed; None if it was acked.
        at: the time, in seconds since the beginning.
    """

    what: Any
    task: int
    failure: Failure | None
    at: float


@dataclass(slots=True)
class Journal:
    """Records of the tasks of one component, including killed ones."""

    emitted: list[Emitted] = field(default_factory=list)
    executed: list[tuple[int, Values]] = field(default_factory=list)  # number of the task, and values
    outcomes: list[Outcome] = field(default_factory=list)


class JournalHook(TaskHook):
    """The hook of each task; writes to the journal of its component."""

    def __init__(self, journals: Mapping[str, Journal], clock: Clock) -> None:
        self._journals = journals
        self._clock = clock

    def prepare(self, context: TaskContext) -> None:
        self._component = context.component
        self._journal = self._journals[context.component]
        self._task = context.task

    def emit(self, emitted: EmitInfo) -> None:
        self._journal.emitted.append(
            Emitted(
                values=tuple(emitted.values),
                stream=emitted.stream,
                task=self._task,
                message_id=emitted.message_id,
                anchors=tuple(emitted.anchors),
                roots=emitted.roots if emitted.tasks else (),
                recipients=tuple((bolt, task) for bolt, task in emitted.tasks),
                at=self._clock(),
            )
        )

    def spout_ack(self, message_id: Any, _seconds: float) -> None:
        self._add_outcome(message_id, None)

    def spout_fail(self, message_id: Any, failure: Failure) -> None:
        self._add_outcome(message_id, failure)

    def bolt_execute(self, tuple_: Tuple, _seconds: float) -> None:
        self._journal.executed.append((self._task, tuple_.values))

    def bolt_ack(self, tuple_: Tuple) -> None:
        self._add_outcome(tuple_.values, None)

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        self._add_outcome(tuple_.values, Failure(FailReason.FAILED, message, self._component))

    def _add_outcome(self, what: Any, failure: Failure | None) -> None:
        self._journal.outcomes.append(Outcome(what, self._task, failure, self._clock()))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be used.

    Attributes:
        topic: the topic of the record.
        partition: its partition of that topic.
        offset: its offset in that partition.
        reason: a short, stable word, such as `bad-payload`.
        detail: a sentence for a person.
        by: the component's task that could not use it, or `acker`.
        key: the key of the record.
        value: the unchanged value of the record.
        headers: the headers of the record, without the SDK's.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    by: str
    key: bytes | None
    value: bytes | None
    headers: dict[str, Any]


class Readable:
    """The methods of a simulated cluster that read what its tasks have done."""

    topology: Topology
    broker: MemoryBroker
    clock: SimulatedClock
    _journals: Mapping[str, Journal]
    _tasks: dict[tuple[str, int], SimulatedProcess]
    _retired: dict[str, Stats]

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.clock()

    def emitted(self, component: str, stream: str | None = None) -> list[Values]:
        """The values that a component emitted, in order; to all its streams, or to one."""
        return [one.values for one in self.emissions(component) if stream is None or one.stream == stream]

    def emissions(self, component: str) -> list[Emitted]:
        """Every call of `emit` by a component, in order."""
        return list(self._known(component).emitted)

    def executed(self, component: str, task: int | None = None) -> list[Values]:
        """The values that a bolt executed, in order; by all its tasks, or by one."""
        return [values for number, values in self._known(component).executed if task is None or number == task]

    def acked(self, component: str) -> list[Any]:
        """The message ids that a spout's `ack` was called with, or the values of a bolt's acked inputs."""
        return [one.what for one in self.outcomes(component) if one.failure is None]

    def failed(self, component: str) -> list[tuple[Any, Failure]]:
        """The message ids that a spout's `fail` was called with, or the values of a bolt's failed inputs, and why."""
        return [(one.what, one.failure) for one in self.outcomes(component) if one.failure is not None]

    def outcomes(self, component: str) -> list[Outcome]:
        """Acks and fails, in order, with task and time."""
        return list(self._known(component).outcomes)

    def pending(self, spout: str) -> list[Any]:
        """The message ids of a spout's open trees, task by task, in the order in which they were emitted."""
        self._known(spout)
        running = [self._spout_task(spout, number) for name, number in self._tasks if name == spout]
        return [message_id for task in running for message_id in task.pending_messages]

    def stats(self, component: str) -> Stats:
        """Statistics of a component's tasks, including killed ones."""
        self._known(component)
        head = self.topology.manifest.head(component).name
        running = [task for (name, _), task in self._tasks.items() if name == head]
        return reduce(Stats.merge, (task.stats(component) for task in running), self._retired[component])

    def committed(self, bolt: str) -> dict[int, int]:
        """Task → the committed offset of its inbox, without tasks that have committed nothing."""
        self._known(bolt)
        topic, group = tuples_topic(self.topology.name, bolt), component_group(self.topology.name, bolt)
        commits = {number: self.broker.committed(group, topic, number) for name, number in self._tasks if name == bolt}
        return {number: commit.offset for number, commit in commits.items() if commit is not None}

    def uncommitted(self, spout: str) -> dict[str, int]:
        """Partition that a `KafkaSpout` reads, as `topic[partition]` → its lag: messages after the committed offset."""
        self._known(spout)
        group, behind = component_group(self.topology.name, spout), {}
        for topic in self.topology.kafka_sources.get(spout, ()):
            for partition in range(self.broker.partitions(topic)):
                commit = self.broker.committed(group, topic, partition)
                behind[f"{topic}[{partition}]"] = self.broker.end(topic, partition) - (commit.offset if commit else 0)
        return behind

    def state(self, bolt: str) -> dict[Any, Any]:
        """The committed values of a bolt's state, by key; a key of several fields is a tuple."""
        declared = self._state_of(bolt)
        keys, values = KeyCodec(declared.key), ValueCodec.of(declared)
        records = self.broker.records(state_topic(self.topology.name, bolt))
        latest = {record.key_ or b"": record.value_ for record in records}
        return {
            keys.shown(encoded): values.decode(payload)
            for encoded, payload in latest.items()
            if payload is not None and not is_system(encoded)
        }

    def dead_letters(self) -> list[DeadLetter]:
        """The records that could not be used, in order."""
        return [_dead_letter(record) for record in self.broker.records(dead_letters_topic(self.topology.name))]

    def message_outcome(self, topic: str, offset: int, partition: int = 0) -> MessageOutcome | None:
        """The outcome of a `KafkaSpout`'s message, with the answer of a bolt, as a `Client` reads it; None before it.

        Raises:
            SimulationError: if no spout reads the topic.
            ClientError: if the spout writes no outcomes, and no bolt answers its messages.
        """
        spout = next((name for name, topics in self.topology.kafka_sources.items() if topic in topics), None)
        if spout is None:
            raise SimulationError(f"no KafkaSpout of topology {self.topology.name!r} reads topic {topic!r}")
        target = Target.of(self.topology.manifest, spout, topic, topic, {})
        found: list[MessageOutcome] = []
        calls, call = Calls(), Call(lambda *outcome: found.append(MessageOutcome.of(*outcome)))
        calls.begin(call)
        calls.reported(call, partition, offset)
        for record in RecordReader(target).decode(self.records(target.reads)):
            calls.read(record)
        return found[0] if found else None

    def records(self, topic: str) -> list[MemoryRecord]:
        """The records of a topic, such as a source or the topic of a `KafkaBolt`; empty if it does not exist."""
        return self.broker.records(topic) if self.broker.has(topic, 0) else []

    def bolt(self, component: str, task: int = 0) -> Any:
        """The instance of a bolt's task, as your factory returned it."""
        bolt = self._task(component, task).bolt(component)
        if bolt is None:
            raise SimulationError(f"{component!r} is a spout: ask for spout({component!r})")
        return bolt

    def spout(self, component: str, task: int = 0) -> Any:
        """The instance of a spout's task, as your factory returned it."""
        return self._spout_task(component, task).spout

    def _state_of(self, bolt: str) -> StateManifest:
        self._known(bolt)
        declared = self.topology.manifest.component(bolt)
        if not isinstance(declared, BoltManifest) or declared.state is None:
            raise SimulationError(f"bolt {bolt!r} has no state")
        return declared.state

    def _known(self, component: str) -> Journal:
        journal = self._journals.get(component)
        if journal is None:
            raise SimulationError(
                f"topology {self.topology.name!r} has no component {component!r}: it has {', '.join(self._journals)}"
            )
        return journal

    def _task(self, component: str, number: int) -> SimulatedProcess:
        self._known(component)
        running = self._tasks.get((self.topology.manifest.head(component).name, number))
        if running is None:
            tasks = self.topology.manifest.component(component).tasks
            raise SimulationError(f"{component!r} has no task {number}: it has {tasks}, numbered from 0")
        return running

    def _spout_task(self, component: str, number: int) -> SpoutTask:
        running = self._task(component, number).task
        if not isinstance(running, SpoutTask):
            raise SimulationError(f"{component!r} is a bolt: this method is only for spouts")
        return running


def _dead_letter(record: MemoryRecord) -> DeadLetter:
    headers: dict[str, Any] = dict(record.headers_ or ())
    fields = {
        name.removeprefix(PREFIX): headers.pop(name).decode() for name in list(headers) if name.startswith(PREFIX)
    }
    return DeadLetter(
        topic=fields["topic"],
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        reason=fields["reason"],
        detail=fields["detail"],
        by=fields["by"],
        key=record.key_,
        value=record.value_,
        headers=headers,
    )
