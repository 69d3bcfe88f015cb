"""A topology from a `KafkaSpout` by two ways to a bolt with a state, and what that receives."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from spout_sdk import KafkaSpout, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.api.topology import Topology
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.testing import MemoryRecord
from tests.components import InBatches, Sink, kinds, passing
from tests.unit.sdk.memory import Bench, Sent, execute
from tests.unit.sdk.memory_source import MemorySource, MemoryTopics
from tuple_tree.components import BoltManifest, StateManifest
from tuple_tree.identities import IDENTITIES_HEADER
from tuple_tree.streams import Field

WORD, LENGTH = declare({"word": str}), declare({"word": str, "length": int}, name="lengths")


def emits(line: Sequence[Any], _context: TaskContext | None = None) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each word, and then the length of each word of several letters."""
    words = line[0].split()
    yield from [((word,), "default") for word in words]
    yield from [((word, len(word)), "lengths") for word in words if len(word) > 1]


class SplitInTurns(InBatches):
    """Emits for the last tuple first, and in turns for all of them."""

    streams = (WORD, LENGTH)

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        for each in zip_longest(*(emits(tuple_.values) for tuple_ in reversed(tuples))):
            for tuple_, emit in zip(reversed(tuples), each, strict=True):
                if emit is not None:
                    self.collector.emit(emit[0], anchors=tuple_, stream=emit[1])
        self.collector.ack_all(tuples)


SPLIT = kinds(emits, WORD, LENGTH)._replace(batches=SplitInTurns)


class Received(NamedTuple):
    """A tuple that a bolt has received, and its identity there."""

    source: str
    values: tuple[Any, ...]
    position: int
    path: int


def with_state(topology: Topology, *names: str) -> Topology:
    """The same topology, in which these bolts have a state."""

    def stateful(bolt: Any) -> Any:
        if not isinstance(bolt, BoltManifest) or bolt.name not in names:
            return bolt
        key = tuple(Field(name=field) for field in bolt.subscriptions[0].fields)
        return bolt.model_copy(update={"state": StateManifest(value=declare({"n": int}, "value", "json"), key=key)})

    components = tuple(map(stateful, topology.manifest.components))
    return replace(topology, manifest=topology.manifest.model_copy(update={"components": components}))


def diamond(split: Any = SPLIT.basic, *, tasks: int = 2, **options: Any) -> Topology:
    """`lines` to `split` and `pass`, and all of these to `count`, which has a state, and to `see`, which has none."""
    builder = TopologyBuilder("t", ack_partitions=2, **options)
    builder.set_spout("first", KafkaSpout("other"))
    builder.set_spout("lines", KafkaSpout("source"))
    builder.set_bolt("split", split, tasks=tasks).shuffle_grouping("lines")
    builder.set_bolt("pass", passing(WORD), tasks=tasks).shuffle_grouping("lines")
    count = builder.set_bolt("count", Sink, tasks=3).fields_grouping("split", "word").fields_grouping("pass", "word")
    count.fields_grouping("split", "word", stream="lengths")
    see = builder.set_bolt("see", Sink).shuffle_grouping("lines").shuffle_grouping("split")
    see.shuffle_grouping("split", "lengths")
    return with_state(builder.build(), "count")


class Run:
    """Tasks of a topology around a sink in memory, one attempt after the other."""

    def __init__(self, topology: Topology, topics: MemoryTopics, *, seed: int = 1, pack_tuples: int = 100) -> None:
        self.bench = Bench(topology, seed=seed, open_source=lambda: MemorySource(topics), pack_tuples=pack_tuples)
        self.manifest = topology.manifest
        self.tasks: dict[tuple[str, int], BoltTask] = {}
        self.spout: SpoutTask = self.bench.spout("lines")
        self._taken = 0

    def emit(self) -> None:
        """The spout emits all that it has to."""
        for _ in range(3):
            self.spout.tick(self.bench.clock())
            while self.spout.emit(64):
                self.spout.tick(self.bench.clock())
        self.spout.flush()

    def sent(self) -> list[Sent]:
        """The records that were sent since the last call."""
        new = self.bench.sink.tuples[self._taken :]
        self._taken += len(new)
        return new

    def task(self, bolt: str, number: int = 0) -> BoltTask:
        return self.tasks.get((bolt, number)) or self.tasks.setdefault((bolt, number), self.bench.bolt(bolt, number))

    def crash(self) -> None:
        """All tasks of bolts end without a commit."""
        for task in self.tasks.values():
            task.cleanup()  # there may be an event loop; nothing is sent after it
        self.tasks.clear()

    def execute(self, sent: Sent) -> MemoryRecord:
        """The task that a record was sent to executes it."""
        record = self.bench.inbox(sent)
        task = self.task(sent.topic.split(".")[-1], sent.partition)
        execute(task, record)
        return record

    def run(self) -> list[Received]:
        """Executes all records that were sent, and what is sent for them; what `count` receives."""
        found: list[Received] = []
        while True:
            for task in self.tasks.values():
                task.flush()
            if not (new := self.sent()):
                return found
            for sent in new:
                record = self.execute(sent)
                if sent.topic.endswith(".count"):
                    found += received(self.bench.bolt("count", sent.partition), record)

    def attempt(self) -> list[Received]:
        self.emit()
        return self.run()

    def identified(self) -> set[tuple[str, str]]:
        """Source and receiver of all records that have the header."""
        return {
            (sent.header["source"].decode(), sent.topic.split(".")[-1])
            for sent in self.bench.sink.tuples
            if IDENTITIES_HEADER in sent.header
        }


def received(task: BoltTask, record: MemoryRecord) -> list[Received]:
    """The tuples of a record, as a task reads them, and their identities there."""
    if not (tuples := [*task.read(record)]):
        return []
    columns = tuples[0].pack.identities
    return [
        Received(f"{each.component}/{each.stream}", tuple(each.values), position, path)
        for each, position, path in zip(tuples, columns.positions.tolist(), columns.paths.tolist(), strict=True)
    ]
