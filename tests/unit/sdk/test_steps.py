"""Steps of a task: a step that takes no tuples holds up others, and inputs are done after all that they made."""

import asyncio
import math
import time
from dataclasses import replace
from typing import Any, ClassVar

import confluent_kafka
import pytest

from kafka_clients.client_settings import CLIENT_CLASSES
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
from spout_sdk.runtime.bolt_loop import BoltLoop
from spout_sdk.runtime.task_loop import ComponentProcess
from tests.components import ByHand, source
from tests.unit.sdk.bench import Lines
from tests.unit.sdk.loop_rig import Consumer, LoopSink
from tests.unit.sdk.memory import Bench, ManualClock, execute
from tuple_tree.manifest import Guarantee

NUMBER = declare({"n": int})
PAUSES: dict[str, Any] = {
    "on_exception": "retry",
    "max_consecutive_failures": 1,
    "on_consecutive_failures": "pause",
}


class Here:
    clock: ManualClock
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


def bench_of(*steps: Any, guarantee: Guarantee = "at_least_once", spout: Any = None, **options: Any) -> Bench:
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
    bench = Bench(builder.build(), holds_back=steps[0] is Hand)
    Here.clock, Here.seen = bench.clock, []
    return bench


def test_a_tuple_without_a_tree_is_not_done_before_its_record_is_delivered() -> None:
    bench = bench_of(Hand)
    task = bench.bolt("step-0")
    execute(task, bench.pack("step-0", [(1,), (2,), (3,)], [{}, {}, {}], source="spout/default"))
    one, two, _ = task.bolt.held
    task.bolt.collector.write(one, "out", b"x")
    task.bolt.collector.ack(two)
    task.note_done()
    done = task.inputs.delivered()
    assert done is not None
    assert not any(begin == 0 for runs in done.tuples.values() for begin, _ in runs)


def test_answers_of_a_step_leave_with_the_input_of_its_task() -> None:
    bench = bench_of(Triple, Answering, guarantee="exactly_once", spout=KafkaSpout("text"))
    task = bench.bolt("step-0")
    (field,) = bench.topology.manifest.component("spout").streams[0].fields
    value: Any = b"a" if field.type == "bytes" else "a"
    execute(task, bench.record("step-0", (value,), {1: 1}, source="spout/default"))
    task.flush()
    assert (task.open_inputs, bench.sink.to(".answers")) == (1, [])
    task.execute_retries(bench.clock.advance(101), math.inf)
    task.flush()
    assert (task.open_inputs, len(bench.sink.to(".answers"))) == (0, 3)
    task.cleanup()


def test_tuples_that_could_not_be_passed_on_hold_their_trees_open(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(Pass, See)
    task = bench.bolt("step-0")
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
        task.emit(1)
        task.tick(bench.clock.advance(1.0))
        task.flush()
    assert task.steps[0].waiting, "held up by the step behind"
    reset = {root for batch in bench.sink.batches for root in batch.reset_roots.tolist()}
    assert len(reset) == len(task.open_trees) == 50
    assert task.running_inputs == 0, "a stop does not wait for them"


@pytest.mark.parametrize("blocked", ["left", "right"])
@pytest.mark.parametrize("of_spout", [False, True], ids=["bolt", "spout"])
def test_a_branch_that_takes_no_tuples_does_not_hold_up_another(blocked: str, *, of_spout: bool) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("spout", Many if of_spout else source(NUMBER))
    head = "spout"
    if not of_spout:
        builder.set_bolt("head", Triple).shuffle_grouping("spout")
        head = "head"
    for name in ("left", "right"):
        declared = builder.set_bolt(name, Down, **PAUSES) if name == blocked else builder.set_bolt(name, See)
        declared.local_grouping(head)
    bench = Bench(builder.build())
    Here.clock, Here.seen = bench.clock, []
    if of_spout:
        spout = bench.spout("spout")
        for _ in range(3):
            spout.emit(1)
        assert (len(Here.seen), len(spout.open_trees)) == (50, 50)
        return
    task = bench.bolt("head")
    for number in (1, 2):
        task.read(bench.record("head", (number,), {number: number}, source="spout/default"))
        task.run(math.inf)
    assert Here.seen == [0, 1, 2], "no second input while a branch takes none"
    assert task.is_busy


def test_a_task_waits_while_a_step_behind_takes_no_tuples() -> None:
    bench = bench_of(Pass, Api)
    bench.environment = replace(bench.environment, kafka={"bootstrap.servers": "none"}, clock=time.monotonic)
    task = bench.bolt("step-0")
    for number in (1, 2, 3):
        task.read(bench.record("step-0", (number,), {number: number}, source="spout/default"))
        if number < 3:
            task.run(math.inf)
    task.run(time.monotonic())
    assert (task.is_busy, task.first.waiting) == (True, 1)
    began = time.monotonic()
    task.wait(0.1)
    assert time.monotonic() - began > 0.05
    task.cleanup()


def test_what_a_step_has_passed_on_is_executed_although_no_record_comes() -> None:
    builder = TopologyBuilder("words", ack_partitions=1)
    builder.set_spout("lines", Lines)
    builder.set_bolt("b", Fan).shuffle_grouping("lines")
    builder.set_bolt("slow", SeeSlowly).local_grouping("b")
    sink: Any = LoopSink()
    bench = Bench(builder.build(), sink=sink)
    Here.clock, Here.seen = bench.clock, []
    consumer = Consumer({0: [1] + [0] * 3_000}, rows=1)
    consumer.clock, consumer.wait = bench.clock, bench.clock.advance
    clients: dict[str, Any] = {CLIENT_CLASSES: {confluent_kafka.Consumer: consumer}}

    def is_over() -> bool:
        return len(Here.seen) >= 1_000 or consumer.is_empty

    process = ComponentProcess(
        *(bench.topology, "b", clients, bench.clock, bench.environment.entropy, bench.counters),
        *(lambda _now: None, is_over),
    )
    began = bench.clock()
    BoltLoop(process, sink).run(is_over)
    assert len(Here.seen) == 1_000
    assert bench.clock() - began < 2, "1,000 tuples of a millisecond"


def test_a_bolt_that_ends_its_process_during_a_cleanup_does_so() -> None:
    """It is called while the bolt before it emits more tuples than may wait; what that emits is not committed."""
    bench = bench_of(Last, Down, on_exception="crash")
    task = bench.bolt("step-0")
    task.read(bench.record("step-0", (1,), {1: 1}, source="spout/default"))
    task.run(math.inf)
    with pytest.raises(ComponentError, match="down"):
        task.cleanup()
