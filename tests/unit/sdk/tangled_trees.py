"""Components whose trees are tangled, and the history of these trees, for a simulated cluster.

Each tuple has a number of its own. Tuples have any number of anchors and receivers; some emits raise, some records are
not delivered, and delivery reports come in the middle of sends.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    OutputCollector,
    Spout,
    SpoutCollector,
    StreamDeclaration,
    TaskContext,
    Tuple,
    declare,
)
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.groupings import CustomGrouping
from spout_sdk.testing import MemoryRecord, clients

CHILD = declare({"n": int})
RAW = declare(["raw"], name="raw", codec="bytes")
MOODY = declare({"n": int}, name="moody")
STREAMS = {each.name: each for each in (CHILD, RAW, MOODY)}


class World:
    """The history of the trees of one run.

    Attributes:
        roots: number of a tuple → the roots of its trees.
        receivers: component and stream → how many tasks get each tuple, but for custom groupings.
        chosen: number of a tuple → how many tasks custom groupings have chosen for it.
        due, executed: number of a tuple → by how many tasks it has to be, and was, executed.
        open: root → deliveries of its tuples that are not settled.
        failed: trees of inputs that have failed.
        endless: trees that fail, or that a part of an emit is missing in.
        dead: trees with a dead letter.
        guarantee: of the topology.
        has_untracked: whether some tuples have no tree.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.numbers = count()
        self.left = 0  # messages that the spout has to emit
        self.guarantee: Any = self.chance.choice(("at_least_once", "exactly_once"))
        self.has_untracked = True
        self.traces = self.chance.choice((1, 4))  # how many it emits tuples of
        self.on_exception: Any = self.chance.choice(("fail", "dead_letter"))  # of a `Basic`
        self.roots: dict[int, frozenset[int]] = {}
        self.receivers: Counter[tuple[str, str]] = Counter()
        self.chosen: Counter[int] = Counter()
        self.due: Counter[int] = Counter()
        self.executed: Counter[int] = Counter()
        self.open: Counter[int] = Counter()
        self.failed, self.endless, self.dead = set[int](), set[int](), set[int]()

    def values(self, roots: Iterable[int]) -> tuple[tuple[Any, ...], str]:
        """Values and stream of the next tuple."""
        stream = self.chance.choice(("default", "default", "raw", "moody"))
        number = self.number(roots)
        return ((b"%d" % number if stream == "raw" else number),), stream

    def number(self, roots: Iterable[int]) -> int:
        number = next(self.numbers)
        self.roots[number] = frozenset(roots)
        return number

    def emit(self, component: str, stream: str, numbers: Sequence[int], emit: Callable[[], Any]) -> bool:
        """Emits tuples, and continues whatever that raises; returns whether it has raised."""
        roots = {root for number in numbers for root in self.roots[number]}
        try:
            emit()
        except KeyError:  # some receivers may have got their tuple
            self.endless.update(roots)
            return True
        except Exception:  # noqa: BLE001 - continues as if nothing were wrong
            return True
        for number in numbers:
            self.is_due(component, stream, number)
        return False

    def is_due(self, component: str, stream: str, number: int) -> None:
        self.due[number] = self.receivers[component, stream] + self.chosen[number]
        for root in self.roots[number]:
            self.open[root] += self.due[number]

    def settle(self, *numbers: int, failed: bool = False) -> None:
        for number in numbers:
            self.executed[number] += 1
            for root in self.roots[number]:
                self.open[root] -= 1
            if failed:
                self.failed.update(self.roots[number])


class Here:
    """The run, for the components of it."""

    world: World


class TroubledProducer(clients.MemoryProducer):
    """Loses some records of tuples, which it reports, and has no room for some at once."""

    def produce(self, topic: str, *record: Any, **named: Any) -> None:
        chance = Here.world.chance
        if chance.random() < 0.2:
            raise BufferError  # delivery reports come in the middle of a send
        if self._transaction is None and ".tuples." in topic and chance.random() < 0.01:
            error, lost = KafkaError(KafkaError._MSG_TIMED_OUT), MemoryRecord(topic, 0, None, record[0])
            self._reports.append(partial(record[3], error, lost))
            return
        super().produce(topic, *record, **named)


class Moody(CustomGrouping):
    """Any tasks, and an error now and then."""

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        chance = Here.world.chance
        if chance.random() < 0.1:
            raise chance.choice((TypeError, ValueError, KeyError))("not now")
        tasks = chance.sample(range(self.tasks), chance.randrange(self.tasks + 1))
        Here.world.chosen[int(values[0])] += len(tasks)
        return tasks


class Leaf(BasicBolt):
    """Acks each tuple."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        Here.world.settle(int(tuple_[0]))


class Tangling:
    """Emits for inputs that it holds, and acks or fails them later, in any order."""

    streams: ClassVar[Sequence[StreamDeclaration]] = (CHILD, RAW, MOODY)
    context: TaskContext
    collector: OutputCollector

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context, self.collector = context, collector
        self.held, self.done = list[Tuple](), list[Tuple]()

    def work(self, tuple_: Tuple) -> None:
        chance = Here.world.chance
        self.held.append(tuple_)
        for _ in range(chance.choice((0, 1, 1, 2))):
            anchors = chance.sample(self.held, min(len(self.held), chance.choice((0, 1, 1, 2, 4))))
            if not (anchors or Here.world.has_untracked):
                continue
            self.emit(anchors)
        if chance.random() < 0.02 and self.done:
            self.emit_too_late(chance.choice(self.done))
        while self.held and chance.random() < 0.6:
            self.settle(self.held.pop(chance.randrange(len(self.held))), failed=chance.random() < 0.03)

    def emit(self, anchors: Sequence[Tuple]) -> None:
        world = Here.world
        values, stream = world.values(root for anchor in anchors for root in anchor.roots)
        given = anchors[0] if len(anchors) == 1 else anchors
        emit = partial(self.collector.emit, values, anchors=given, stream=stream)
        world.emit(self.context.component, stream, [int(values[0])], emit)

    def emit_too_late(self, anchor: Tuple) -> None:
        with pytest.raises(Exception, match="acked or failed before"):
            self.collector.emit((1,), anchors=[*self.held[:1], anchor])
        Here.world.endless.update(anchor.roots)

    def settle(self, tuple_: Tuple, *, failed: bool = False) -> None:
        if failed:
            self.collector.fail(tuple_, "no")
        else:
            self.collector.ack(tuple_)
            self.done.append(tuple_)
        Here.world.settle(int(tuple_[0]), failed=failed)

    def cleanup(self) -> None:
        for tuple_ in self.held:
            self.settle(tuple_)


class Tangled(Tangling, Bolt):
    def execute(self, tuple_: Tuple) -> None:
        self.work(tuple_)


class Batched(Tangling, BatchBolt):
    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        for tuple_ in tuples:
            self.work(tuple_)


class Basic(BasicBolt):
    streams: ClassVar[Sequence[StreamDeclaration]] = (CHILD, RAW, MOODY)

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        world = Here.world
        for _ in range(world.chance.choice((0, 1, 2))):
            values, stream = world.values(tuple_.roots)
            emit = partial(collector.emit, values, stream=stream)
            if world.emit(self.context.component, stream, [int(values[0])], emit) and world.chance.random() < 0.5:
                self.fail(tuple_)
        if world.chance.random() < 0.05:
            self.fail(tuple_)
        world.settle(int(tuple_[0]))

    def fail(self, tuple_: Tuple) -> None:
        is_dead = Here.world.on_exception == "dead_letter"
        Here.world.settle(int(tuple_[0]), failed=not is_dead)
        if is_dead:
            Here.world.dead.update(tuple_.roots)
        raise RuntimeError("no")


@dataclass
class Number:
    n: int


class Stepped:
    """A function as a bolt: rows that raise have no results, and fail alone."""

    streams: ClassVar[Sequence[StreamDeclaration]] = (CHILD,)

    @staticmethod
    def of(component: str) -> Callable[[Number], Iterator[Number]]:
        def step(number: Number) -> Iterator[Number]:
            world, roots = Here.world, Here.world.roots[number.n]
            made = [world.number(roots) for _ in range(world.chance.choice((0, 1, 2)))]
            for each in made[:1]:
                yield Number(each)
            if world.chance.random() < 0.05:
                is_dead = world.on_exception == "dead_letter"
                world.settle(number.n, failed=not is_dead)
                if is_dead:
                    world.dead.update(roots)
                raise RuntimeError("no")
            for each in made[1:]:
                yield Number(each)
            for each in made:
                world.is_due(component, "default", each)
            world.settle(number.n)

        return step


class Arrow(ArrowBolt):
    streams: ClassVar[Sequence[StreamDeclaration]] = (CHILD, MOODY)

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        world, chance = Here.world, Here.world.chance
        inputs = [int(each) for each in batch.column(0).to_pylist()]
        for _ in range(chance.choice((0, 1, 2))):
            rows = [chance.randrange(len(inputs)) for _ in range(chance.choice((0, 1, 5)))]
            stream = chance.choice(("default", "moody"))
            numbers = [world.number(world.roots[inputs[row]]) for row in rows]
            emit = partial(collector.emit, {"n": numbers}, anchors=rows, stream=stream)
            world.emit(self.context.component, stream, numbers, emit)
        acked = [row for row in range(len(inputs)) if chance.random() < 0.9]
        collector.ack(acked)
        for row, number in enumerate(inputs):
            world.settle(number, failed=row not in acked)
        collector.fail("no")


class Source(Spout):
    streams = (CHILD, RAW, MOODY)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        world, chance = Here.world, Here.world.chance
        if not world.left:
            return
        world.left -= 1
        values, stream = world.values(())
        number = int(values[0])
        traces: list[Any] = [[], [], [("traceparent", b"00-1")], [("traceparent", b"00-2")]]
        context, message_id = (
            chance.choice(traces[: world.traces]),
            None if chance.random() < 0.2 and world.has_untracked else number,
        )
        try:
            self.collector.emit(values, message_id=message_id, stream=stream, trace_context=context)
        except Exception:  # noqa: BLE001 - as some spouts do
            return
        if (root := self.collector.last_root) is not None:
            world.roots[number] = frozenset([root])
        world.is_due("numbers", stream, number)

    def ack(self, message_id: Any) -> None:
        (root,) = Here.world.roots[message_id]
        assert not Here.world.open[root], f"tree {root} is acked, and an input of it is open"
        assert root not in Here.world.failed, f"tree {root} is acked, and it has failed"
