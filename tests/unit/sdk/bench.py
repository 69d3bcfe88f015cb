"""One task of a simulated topology, what it sends, and delivery reports that the test holds.

Other components do not run: a test writes into the inbox of the task.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pytest
from confluent_kafka import TopicPartition

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    StreamDeclaration,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.runtime import task_loop
from spout_sdk.statistics import Stats
from spout_sdk.testing import MemoryRecord, NotIdleError, SimulatedCluster, clients
from tests.components import ByHand, Sink, source
from tests.packs import anchor_headers
from tests.unit.sdk.sent_records import HoldingProducer, SentRecords
from tuple_tree.anchors import SOURCE_HEADER, Edges
from tuple_tree.commit_metadata import DONE, Commit, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Guarantee
from tuple_tree.names import component_group, tuples_topic
from tuple_tree.payloads import encode_tuples, payload_codec

TURNS = 20


class BenchCluster(SimulatedCluster):
    """A simulated cluster that runs some of its tasks, without hooks of the kit, and keeps what they send."""

    def __init__(self, sent: SentRecords, topology: Topology, *, is_live: bool = False, **options: Any) -> None:
        self.sent, self.only = sent, set[tuple[str, int]]()
        self.own_hooks, self.is_live = topology.hooks, is_live
        super().__init__(topology, **options)

    def _begin(self, component: str, number: int) -> None:
        self.topology = replace(self.topology, hooks=self.own_hooks)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clients, "MemoryProducer", partial(HoldingProducer, self.sent))
            if self.is_live:  # as with Kafka, coroutines run at the same time
                patch.setattr(task_loop, "CLIENT_CLASSES", "none")
            super()._begin(component, number)

    def _turns(self) -> list[tuple[str, Callable[[int], bool]]]:
        return [(at[0], task.turn) for at, task in self._tasks.items() if at in self.only]


class Bench:
    """One task of a topology; each tuple is sent at once, unless records may carry more."""

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 1,
        holds_back: bool = False,
        pack_tuples: int = 1,
        is_live: bool = False,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        self.sink = SentRecords()
        self.holds_back = holds_back
        manifest = topology.manifest
        self.cluster = BenchCluster(
            *(self.sink, replace(topology, pack_tuples=pack_tuples)),
            seed=seed,
            is_live=is_live,
            bolts={bolt.name: Sink for bolt in manifest.bolts if bolt.external},
            topics=topics or {"one": 1, "two": 1},
        )
        self.topology = self.cluster.topology

    def bolt(self, name: str, task: int = 0) -> "BenchTask":
        """A task, which runs from now on."""
        self.cluster.only.add((name, task))
        self.run()
        self.sink.holds_back = self.holds_back
        return BenchTask(self, name, task)

    spout = bolt

    @property
    def clock(self) -> "BenchClock":
        return BenchClock(self.cluster)

    def advance(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    def run(self) -> None:
        if not self.cluster.is_live:
            self.cluster.run_until_idle()
            return
        turns = iter(range(TURNS))
        with suppress(NotIdleError):
            self.cluster.run_until(lambda: next(turns, None) is None)

    def record(self, bolt: str, values: tuple[Any, ...], edges: Edges | None = None, **more: Any) -> MemoryRecord:
        """A record of a tuple in a bolt's inbox."""
        return self.pack(bolt, [values], [edges or {}], **more)

    def pack(
        self,
        bolt: str,
        rows: Sequence[tuple[Any, ...]],
        edges: Sequence[Edges],
        *headers: tuple[str, Any],
        source: str = "lines/default",
        task: int = 0,
    ) -> MemoryRecord:
        """A record of several tuples in a bolt's inbox."""
        codec = payload_codec(self.topology.manifest.stream(*source.split("/")))
        named = [*anchor_headers(edges), (SOURCE_HEADER, source.encode()), *headers]
        return self.raw(bolt, encode_tuples(codec, rows), named, task=task)

    def raw(self, bolt: str, payload: bytes | None, headers: Any, *, task: int = 0) -> MemoryRecord:
        topic = tuples_topic(self.topology.name, bolt)
        return self.cluster.broker.append(topic, task, None, payload, headers)


@dataclass
class BenchClock:
    """The time of a bench; nothing runs while the test moves it."""

    cluster: SimulatedCluster

    @property
    def now(self) -> float:
        return self.cluster.clock()

    @now.setter
    def now(self, seconds: float) -> None:
        self.cluster.clock.elapsed_ms = round(1_000 * seconds)

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class BenchTask:
    """A task of a bench."""

    bench: Bench
    component: str
    number: int

    def flush(self) -> None:
        """Lets it work until it is idle, or some turns if coroutines run; nothing is buffered then."""
        self.bench.run()

    def handle(self, record: MemoryRecord) -> None:
        """Lets it read a record, of notices for instance."""
        self.bench.cluster.broker.append(record.topic(), record.partition(), None, record.value(), None)
        self.flush()

    @property
    def stats(self) -> Stats:
        return self.bench.cluster.stats(self.component)

    @property
    def raw(self) -> Any:
        """The `SpoutTask` or `BoltTask`."""
        return self.bench.cluster._tasks[self.component, self.number].task

    @property
    def bolt(self) -> Any:
        return self.bench.cluster.bolt(self.component, self.number)

    @property
    def place(self) -> tuple[str, str, int]:
        """The group, the topic and the partition of its commits."""
        topology = self.bench.topology.name
        return component_group(topology, self.component), tuples_topic(topology, self.component), self.number

    @property
    def committed(self) -> DoneSet:
        found = self.bench.cluster.broker.committed(*self.place)
        texts = None if found is None else read_commit_metadata(found.offset, found.metadata)
        return DoneSet(0) if found is None else DoneSet.read(found.offset, (texts or {}).get(DONE, ""))

    @property
    def done(self) -> DoneSet:
        """The set that it has committed, once it has had the time for that."""
        for _ in range(11):
            self.bench.clock.advance(0.1)
            self.flush()
        return self.committed

    def continue_from(self, done: DoneSet) -> None:
        """Another process gets the task, and continues from what is done."""
        commit, (group, topic, partition) = Commit.of(done), self.place
        self.bench.cluster.kill(self.component, self.number)
        at = TopicPartition(topic, partition, commit.offset, metadata=commit.metadata)
        self.bench.cluster.broker.commit(group, [at])
        self.bench.cluster.kill(self.component, self.number)

    @property
    def committable(self) -> int:
        """The offset that it commits."""
        return self.done.offset

    def restart(self, *, kill: bool = False) -> None:
        """Another process gets the task."""
        (self.bench.cluster.kill if kill else self.bench.cluster.restart)(self.component, self.number)
        self.flush()


Lines = source(declare({"line": str}), declare({"n": int}, name="numbers", codec="json"))


class Manual(ByHand):
    """Leaves everything to the test."""

    streams: ClassVar[tuple[StreamDeclaration, ...]] = (
        declare({"word": str}),
        declare(["raw"], name="raw", codec="bytes"),
    )

    def prepare(self, *given: Any) -> None:
        super().prepare(*given)
        self.tuples: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        self.tuples.append(tuple_)


class Split(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for word in tuple_["line"].split():
            if word == "bad":
                raise ValueError("a bad word")
            if word == "quiet":
                raise FailTupleError("try later")
            collector.emit((word,))


def rig(
    bolt: Any = Manual,
    *,
    guarantee: Guarantee = "at_least_once",
    counts: int = 1,
    holds_back: bool = False,
    grouped_by: str | None = None,
    pack_tuples: int = 1,
    **options: Any,
) -> tuple[Bench, BenchTask, Any]:
    """A bench, the task of a bolt in its middle, and the bolt; `grouped_by` is a field, all tasks receive without."""
    builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=3)
    builder.set_spout("lines", Lines)
    split = builder.set_bolt("split", bolt, tasks=2, **options)
    split.shuffle_grouping("lines").shuffle_grouping("lines", "numbers")
    count = builder.set_bolt("count", Sink, tasks=counts)
    if grouped_by is None:
        count.all_grouping("split")
    else:
        count.fields_grouping("split", grouped_by)
    bench = Bench(builder.build(), holds_back=holds_back, pack_tuples=pack_tuples)
    task = bench.bolt("split", 1)
    return bench, task, task.bolt


def made(instances: list[Any], cls: Callable[[], Any]) -> Callable[[], Any]:
    """A factory that keeps its objects."""

    def make() -> Any:
        instances.append(cls())
        return instances[-1]

    return make


def feed(bench: Bench, task: BenchTask, line: str, edges: Edges | None = None) -> None:
    bench.record("split", (line,), edges, task=1)
    task.flush()


def bench_of(bolt: Any = Manual, *, pack_tuples: int = 1_000, **settings: Any) -> tuple[Bench, BenchTask, Any]:
    """The task of a bolt that emits many tuples in a record, which may be held."""
    builder = TopologyBuilder("words", **{"ack_partitions": 2, **settings})
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", bolt).shuffle_grouping("lines")
    builder.set_bolt("count", Sink).shuffle_grouping("split")
    bench = Bench(builder.build(), pack_tuples=pack_tuples)
    task = bench.bolt("split")
    return bench, task, task.bolt
