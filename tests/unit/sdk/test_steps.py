"""Steps of a task: a step that takes no tuples holds up others, and inputs are done after all that they made."""

import asyncio
import math
from typing import Any, ClassVar

import pytest

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    KafkaSpout,
    RetryTupleError,
    Spout,
    SpoutCollector,
    StreamDeclaration,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.errors import ComponentError
from tests.components import ByHand, source
from tests.unit.sdk.bench import Bench, BenchClock, BenchTask
from tuple_tree.manifest import Guarantee

NUMBER = declare({"n": int})
PAUSES: dict[str, Any] = {
    "on_exception": "retry",
    "max_consecutive_failures": 1,
    "on_consecutive_failures": "pause",
}


class Here:
    clock: BenchClock
    seen: ClassVar[list[int]] = []


class Hand(ByHand):
    streams: ClassVar[tuple[StreamDeclaration, ...]] = (NUMBER,)

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)


class Pass(BasicBolt):
    streams: ClassVar[tuple[StreamDeclaration, ...]] = (NUMBER,)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["n"],))


class Triple(BasicBolt):
    streams: ClassVar[tuple[StreamDeclaration, ...]] = (NUMBER,)

    def execute(self, _tuple: Tuple, collector: BasicCollector) -> None:
        for number in range(3):
            collector.emit((number,))


class Fan(BasicBolt):
    streams: ClassVar[tuple[StreamDeclaration, ...]] = (NUMBER,)

    def execute(self, _tuple: Tuple, collector: BasicCollector) -> None:
        for number in range(1_000):
            collector.emit((number,))


class Last(Pass):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.collector = collector

    def cleanup(self) -> None:
        for number in range(11_000):
            self.collector.emit((number,))


class Slowly(Pass):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        Here.clock.advance(0.001)
        super().execute(tuple_, collector)


class SeeSlowly(BasicBolt):
    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        Here.clock.advance(0.001)
        Here.seen.append(tuple_["n"])


class See(BasicBolt):
    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        Here.seen.append(tuple_["n"])


class Down(BasicBolt):
    def execute(self, _tuple: Tuple, _collector: BasicCollector) -> None:
        raise ValueError("down")


class Many(Spout):
    streams = (NUMBER,)

    def open(self, _context: TaskContext, collector: SpoutCollector) -> None:
        self.collector, self.left = collector, 50

    def next_tuple(self) -> None:
        while self.left:
            self.left -= 1
            self.collector.emit((self.left,), message_id=self.left)


class Answering(AsyncBolt):
    answers = True

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        if tuple_["n"] == 2 and not Here.seen:
            Here.seen.append(2)
            raise RetryTupleError("later", delay=100.0)
        collector.answer(tuple_["n"])


class Api(AsyncBolt):
    concurrency = 1

    async def execute_async(self, _tuple: Tuple, _collector: AsyncCollector) -> None:
        await asyncio.Event().wait()


def bench_of(
    *steps: Any, guarantee: Guarantee = "at_least_once", spout: Any = None, is_live: bool = False, **options: Any
) -> Bench:
    """A bench whose steps follow each other; the options are of the last."""
    builder = TopologyBuilder("t", guarantee=guarantee)
    builder.set_spout("spout", spout or source(NUMBER))
    before = "spout"
    for number, step in enumerate(steps):
        of = options if number == len(steps) - 1 else {}
        declared = builder.set_bolt(f"step-{number}", step, **of)
        is_first = number == 0 and spout is not Many
        (declared.shuffle_grouping if is_first else declared.local_grouping)(before)
        before = f"step-{number}"
    bench = Bench(builder.build(), holds_back=steps[0] is Hand, topics={"out": 1}, is_live=is_live)
    Here.clock, Here.seen = bench.clock, []
    return bench


def feed(bench: Bench, *numbers: int) -> BenchTask:
    """Has the first step execute a tuple for each number, each of its own tree."""
    task = bench.bolt("step-0")
    for number in numbers:
        bench.record("step-0", (number,), {number: number}, source="spout/default")
    task.flush()
    return task


def test_a_tuple_without_a_tree_is_not_done_before_its_record_is_delivered() -> None:
    bench = bench_of(Hand)
    task = bench.bolt("step-0")
    bench.pack("step-0", [(1,), (2,), (3,)], [{}, {}, {}], source="spout/default")
    task.flush()
    one, two, _ = task.bolt.held
    task.bolt.collector.write(one, "out", b"x")
    task.bolt.collector.ack(two)
    assert not any(begin == 0 for runs in task.done.tuples.values() for begin, _ in runs)
    bench.sink.deliver_all()
    assert task.done.tuples == {0: [(0, 2)]}


def test_answers_of_a_step_leave_with_the_input_of_its_task() -> None:
    bench = bench_of(Triple, Answering, guarantee="exactly_once", spout=KafkaSpout("text"))
    task = bench.bolt("step-0")
    (field,) = bench.topology.manifest.component("spout").streams[0].fields
    value: Any = b"a" if field.type == "bytes" else "a"
    bench.record("step-0", (value,), {1: 1}, source="spout/default")
    answers = "t.answers"
    assert (task.done.offset, bench.cluster.records(answers)) == (0, [])
    bench.clock.advance(101)
    assert (task.done.offset, len(bench.cluster.records(answers))) == (1, 3)


def test_tuples_that_could_not_be_passed_on_hold_their_trees_open(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(Pass, See)
    task = bench.bolt("step-0").raw
    (pack,) = task.first.plans["default"].routes[0].packs
    pack.limit = 2
    placed, raised = OpenPack._placed, list[int]()

    def raise_once(self: OpenPack) -> Any:
        if self is pack and not raised:
            raised.append(1)
            raise MemoryError
        return placed(self)

    monkeypatch.setattr(OpenPack, "_placed", raise_once)
    for number in (1, 2, 3, 4):
        task.read(bench.record("step-0", (number,), {number: number}, source="spout/default"))
    for _ in range(2):
        task.run(math.inf)
        task.flush()
    assert raised
    assert 1 in Here.seen or bench.sink.checksums().get(1) != 1


def test_trees_that_a_paused_step_holds_up_are_kept_alive() -> None:
    bench = bench_of(Slowly, Down, spout=Many, **PAUSES)
    task = bench.spout("spout")
    for _ in range(65):
        bench.clock.advance(1.0)
        task.flush()
    reset = {root for batch in bench.sink.batches for root in batch.reset_roots.tolist()}
    assert len(reset) == task.stats.pending == 50
    assert task.raw.running_inputs == 0, "a stop does not wait for them"


@pytest.mark.parametrize("blocked", ["left", "right"])
@pytest.mark.parametrize("of_spout", [False, True], ids=["bolt", "spout"])
def test_a_branch_that_takes_no_tuples_does_not_hold_up_another(blocked: str, *, of_spout: bool) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("spout", Many if of_spout else source(NUMBER))
    head = "spout"
    if not of_spout:
        builder.set_bolt("step-0", Triple).shuffle_grouping("spout")
        head = "step-0"
    for name in ("left", "right"):
        declared = builder.set_bolt(name, Down, **PAUSES) if name == blocked else builder.set_bolt(name, See)
        declared.local_grouping(head)
    bench = Bench(builder.build())
    Here.clock, Here.seen = bench.clock, []
    if of_spout:
        task = bench.spout("spout")
        assert (len(Here.seen), task.stats.pending) == (50, 50)
    else:
        feed(bench, 1, 2)
        assert Here.seen == [0, 1, 2], "no second input while a branch takes none"


def test_a_task_waits_while_a_step_behind_takes_no_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(Pass, Api, is_live=True)
    task = bench.bolt("step-0").raw
    for number in (1, 2, 3):
        task.read(bench.record("step-0", (number,), {number: number}, source="spout/default"))
        task.run(math.inf if number < 3 else bench.clock.now)
    assert (task.is_busy, task.first.waiting) == (True, 1)
    waited: list[float] = []
    monkeypatch.setattr(type(task.steps[1].operator), "wait", lambda _operator, seconds: waited.append(seconds))
    task.wait(0.1)
    assert waited == [0.1]
    task.cleanup()


def test_what_a_step_has_passed_on_is_executed_although_no_record_comes() -> None:
    bench = bench_of(Fan, SeeSlowly)
    feed(bench, 1)
    assert len(Here.seen) == 1_000


def test_a_bolt_that_ends_its_process_during_a_cleanup_does_so() -> None:
    """It is called while the bolt before it emits more tuples than may wait; what that emits is not committed."""
    task = feed(bench_of(Last, Down, on_exception="crash"), 1)
    with pytest.raises(ComponentError, match="down"):
        task.restart()
