"""Components with tangled trees, and the history of these beside the log.

Tuples have any number of anchors and receivers; some emits raise.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import pytest

from spout_sdk import (
    ArrowBolt,
    ArrowCollector,
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    CustomGrouping,
    OutputCollector,
    Spout,
    SpoutCollector,
    Stream,
    TaskContext,
    TaskHook,
    TaskId,
    Tuple,
    declare,
)
from spout_sdk.emitting.emit_plan import Targets
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.errors import BrokerError
from spout_sdk.records import Headers
from tests.unit.sdk.memory import LogSink

CHILD = declare({"n": int})
RAW = declare(["raw"], name="raw", codec="bytes")
MOODY = declare({"n": int}, name="moody")
STREAMS = {each.name: each for each in (CHILD, RAW, MOODY)}


class World:
    """The history of the trees of one run, beside the log."""

    sink: LogSink

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kinds: dict[str, Any] = {}  # of the bolts under test
        self.refused = 0.0  # the share of sends in the middle of an emit that raise
        self.packs: Targets = ()  # of the receivers of the last emit
        self.traces = 1  # how many a spout emits tuples of
        self.emitted: Counter[int] = Counter()  # deliveries of each tree
        self.open: Counter[int] = Counter()  # inputs of each tree
        self.roots: dict[Any, int] = {}  # of messages
        self.acked: set[int] = set()  # by the task of the spout
        self.failed: set[int] = set()  # trees of inputs that failed
        self.endless: set[int] = set()  # trees that fail, or that a part of an emit is missing in
        self.on_exception = self.chance.choice(("fail", "dead_letter"))  # of a `Basic`
        self.dead: set[int] = set()  # trees with a dead letter

    def values(self) -> tuple[tuple[Any, ...], str]:
        stream = self.chance.choice(("default", "default", "raw", "moody"))
        if stream == "raw":
            return (b"%d" % self.chance.randrange(9),), stream
        return (self.chance.randrange(99),), stream

    def emitted_to(self, roots: Iterable[int], tasks: Sequence[TaskId]) -> None:
        """Records emitted tuples; tuples for chained bolts are open inputs at once."""
        inputs = sum(1 for task in tasks if task.component in self.kinds)
        for root in set(roots):
            self.emitted[root] += len(tasks) - inputs
            self.open[root] += inputs

    def emit(self, emit: Callable[[], Any], roots: Iterable[int], only: Targets = (), *, counts: bool = True) -> bool:
        """Emits for these trees, and continues whatever that raises; returns whether it has raised.

        The receivers are `only`, unless `noting` notes others.
        """
        self.sink.refused = self.refused
        self.packs = only
        try:
            emit()
        except (BrokerError, KeyError):  # some receivers may have got their tuple
            self.endless.update(roots)
            return True
        except Exception:  # noqa: BLE001 - continues as if nothing were wrong
            return True
        finally:
            self.sink.refused = 0.0
        if counts:
            self.emitted_to(roots, [pack.receiver for pack in self.packs])
        return False

    def settled(self, roots: Iterable[int], *, failed: bool = False) -> None:
        for root in roots:
            self.open[root] -= 1
        if failed:
            self.endless.update(roots)
            self.failed.update(roots)


def noting(original: Any) -> Any:
    """`Emitter._emit`, which also notes the receivers."""

    def emit(emitter: Emitter, *given: Any, **named: Any) -> Targets:
        packs: Targets = original(emitter, *given, **named)
        Here.world.packs = packs
        return packs

    return emit


class Here:
    """The run, for the components of it."""

    world: World


class Moody(CustomGrouping):
    """Any tasks, and an error now and then."""

    def choose(self, _values: Sequence[Any]) -> Sequence[int]:
        chance = Here.world.chance
        if chance.random() < 0.1:
            raise chance.choice((TypeError, ValueError, KeyError))("not now")
        return chance.sample(range(self.tasks), chance.randrange(self.tasks + 1))


class Tangling:
    """Emits for inputs that it holds, and acks or fails them later, in any order."""

    streams: ClassVar[Sequence[Stream]] = (CHILD, RAW, MOODY)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector, self.held, self.done = collector, list[Tuple](), list[Tuple]()

    def work(self, tuple_: Tuple) -> None:
        chance = Here.world.chance
        self.held.append(tuple_)
        for _ in range(chance.choice((0, 1, 1, 3))):
            anchors = chance.sample(self.held, min(len(self.held), chance.choice((0, 1, 1, 2, 4))))
            self.emit(anchors[0] if len(anchors) == 1 else anchors)
        if chance.random() < 0.02 and self.done:
            self.emit_too_late(chance.choice(self.done))
        while self.held and chance.random() < 0.6:
            self.settle(self.held.pop(chance.randrange(len(self.held))), failed=chance.random() < 0.05)

    def emit(self, anchors: Any) -> None:
        values, stream = Here.world.values()
        each = [anchors] if isinstance(anchors, Tuple) else anchors
        roots = [root for anchor in each for root in anchor.roots]
        Here.world.emit(lambda: self.collector.emit(values, anchors=anchors, stream=stream), roots)

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
        Here.world.settled(tuple_.roots, failed=failed)

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
    streams: ClassVar[Sequence[Stream]] = (CHILD, RAW, MOODY)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        world = Here.world
        for _ in range(world.chance.choice((0, 1, 3))):
            values, stream = world.values()
            emit = partial(collector.emit, values, stream=stream)
            only = () if collector._only is None or collector._only.only is None else collector._only.only
            if world.emit(emit, tuple_.roots, only) and world.chance.random() < 0.5:
                self.fail(tuple_)
        if world.chance.random() < 0.05:
            self.fail(tuple_)
        world.settled(tuple_.roots)

    def fail(self, tuple_: Tuple) -> None:
        is_dead = Here.world.on_exception == "dead_letter"
        Here.world.settled(tuple_.roots, failed=not is_dead)
        if is_dead:
            Here.world.dead.update(tuple_.roots)
        raise RuntimeError("no")


class Arrow(ArrowBolt):
    streams: ClassVar[Sequence[Stream]] = (CHILD, MOODY)

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        world, chance = Here.world, Here.world.chance
        inputs = list(collector._input)
        for _ in range(chance.choice((0, 1, 3))):
            anchors = [chance.randrange(len(inputs)) for _ in range(chance.choice((0, 1, 7)))]
            data = {"n": [chance.randrange(99) for _ in anchors]}
            emit = partial(collector.emit, data, anchors=anchors, stream=chance.choice(("default", "moody")))
            world.emit(emit, [root for row in anchors for root in inputs[row].roots], counts=False)
        rows = [row for row in range(len(inputs)) if chance.random() < 0.7]
        collector.ack(rows)
        for row, input_ in enumerate(inputs):
            world.settled(input_.roots, failed=row not in rows)
        collector.fail("no")


class Watching(TaskHook):
    """Counts what bolts emit and ack that do not get to know it."""

    def prepare(self, context: TaskContext) -> None:
        self.kind = Here.world.kinds.get(context.component)

    def emit(self, info: Any) -> None:
        if self.kind is Arrow:
            Here.world.emitted_to([root for anchor in info.anchors for root in anchor.roots], info.tasks)


class Source(Spout):
    streams = (CHILD, RAW, MOODY)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        world, chance = Here.world, Here.world.chance
        values, stream = world.values()
        traces: list[Headers] = [[], [], [("traceparent", b"00-1")], [("traceparent", b"00-2")]]
        context = chance.choice(traces[: world.traces])
        message_id = None if chance.random() < 0.2 else chance.getrandbits(64)
        try:
            self.collector.emit(values, message_id=message_id, stream=stream, trace_context=context)
        except Exception:  # noqa: BLE001 - as some spouts do
            return
        if (root := self.collector.last_root) is not None:
            world.emitted_to([root], [pack.receiver for pack in world.packs])
            world.roots[message_id] = root

    def ack(self, message_id: Any) -> None:
        """Called for a tree that never left the chain."""
        root = Here.world.roots[message_id]
        assert not Here.world.open[root], f"tree {root} is acked, and a chained input of it is open"
        assert not Here.world.emitted[root], f"tree {root} is acked without an acker, and a tuple of it was sent"
        assert root not in Here.world.endless, f"tree {root} is acked, and it has failed"
        Here.world.acked.add(root)
