"""How a bolt behaves: ticks, batches, and what becomes of exceptions."""

from collections.abc import Sequence
from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    ComponentError,
    DeliveryError,
    FailTupleError,
    OutputCollector,
    TaskContext,
    TooManyFailuresError,
    TopologyBuilder,
    TopologyError,
    Tuple,
    declare,
)
from tests.unit.sdk.bolt_rig import Lines, Sink
from tests.unit.sdk.memory import Bench, made


def behave(bolt: Any, *, holds_back: bool = False, **options: Any) -> tuple[Bench, Any, Any]:
    bolts: list[Any] = []
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", made(bolts, bolt), tasks=2, **options).shuffle_grouping("lines")
    builder.set_bolt("count", Sink).shuffle_grouping("split")
    bench = Bench(builder.build(), holds_back=holds_back)
    return bench, bench.bolt("split", 1), bolts[-1]


def feed(bench: Bench, task: Any, line: str, edges: dict[int, int] | None = None) -> None:
    task.execute(bench.record("split", (line,), edges, task=1))


class Ticking(Bolt):
    streams = (declare({"word": str}),)
    tick_interval = 5.0

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context, self.collector = context, collector
        self.ticks: list[float] = []
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            self.held.append(tuple_)
            return
        self.ticks.append(self.context.now())
        self.collector.emit(("ticked",), [tuple_, *self.held])
        self.collector.ack_all([*self.held, tuple_])
        self.held.clear()


def test_ticks_come_when_their_time_has_come_and_missed_ones_do_not() -> None:
    bench, task, bolt = behave(Ticking)
    began = bench.clock.now
    for _ in range(1_200):
        task.tick(bench.clock.advance(0.01))
    assert [tick - began for tick in bolt.ticks] == pytest.approx([5.0, 10.0], abs=0.02)
    task.tick(bench.clock.advance(60))
    task.tick(bench.clock.advance(0.01))
    assert len(bolt.ticks) == 3


def test_a_tick_is_no_tuple_of_anybody() -> None:
    bench, task, bolt = behave(Ticking)
    feed(bench, task, "a", {7: 9})
    task.tick(bench.clock.advance(5))
    task.flush()
    (sent,) = bench.sink.tuples
    assert list(sent.edges) == [7]
    assert bench.sink.checksums() == {7: 9 ^ sent.edges[7]}
    assert (bench.counters.executed, bench.counters.acked, task.committable) == (1, 1, 1)
    assert bolt.held == []


def test_a_tick_tuple_says_what_it_is() -> None:
    seen: list[Tuple] = []

    class Looking(BasicBolt):
        streams = (declare({"word": str}),)

        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            seen.append(tuple_)

    bench, task, _ = behave(Looking, tick_interval=1.0)
    feed(bench, task, "a")
    task.tick(bench.clock.advance(1))
    record, tick = seen
    assert (record.is_tick, tick.is_tick) == (False, True)
    assert (tick.component, tick.stream, tick.values, tick.roots) == ("__system", "__tick", (), ())
    assert "__system/__tick" in repr(tick)


def test_failing_a_tick_changes_nothing() -> None:
    class Failing(Ticking):
        def execute(self, tuple_: Tuple) -> None:
            self.collector.fail(tuple_, "no")
            raise ValueError("of a tick")

    bench, task, _ = behave(Failing)
    task.tick(bench.clock.advance(5))
    task.flush()
    assert (bench.sink.failed(), bench.counters.failed, bench.counters.errors) == ({}, {}, 1)


class Together(BatchBolt):
    streams = (declare({"word": str}),)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.calls: list[list[str]] = []

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        self.calls.append([tuple_["line"] for tuple_ in tuples])
        self.collector.ack(tuples[0])
        if "bad" in self.calls[-1]:
            raise ValueError("a bad line")
        self.collector.emit((" ".join(self.calls[-1]),), tuples[1:])
        self.collector.ack_all(tuples[1:])


def batch(bench: Bench, *lines: tuple[str, dict[int, int]]) -> list[Any]:
    return [bench.record("split", (line,), edges, task=1) for line, edges in lines]


def test_a_batch_is_one_call_with_anchors_to_any_of_it() -> None:
    bench, task, bolt = behave(Together)
    assert task.takes_batches
    task.execute_batch(batch(bench, ("a", {1: 11}), ("b", {2: 12}), ("c", {3: 13})))
    task.flush()
    assert bolt.calls == [["a", "b", "c"]]
    (sent,) = bench.sink.tuples
    assert list(sent.edges) == [2, 3]
    assert bench.sink.checksums() == {1: 11, 2: 12 ^ sent.edges[2], 3: 13 ^ sent.edges[3]}
    assert (bench.counters.executed, task.committable) == (3, 3)


def test_an_exception_fails_what_the_batch_had_not_settled() -> None:
    bench, task, _ = behave(Together)
    task.execute_batch(batch(bench, ("a", {1: 11}), ("bad", {2: 12}), ("c", {3: 13})))
    task.flush()
    assert bench.sink.checksums() == {1: 11}
    assert bench.sink.failed() == {2: "ValueError: a bad line", 3: "ValueError: a bad line"}


def test_what_cannot_be_read_is_left_out_of_the_batch() -> None:
    bench, task, bolt = behave(Together)
    first, unreadable, second = (
        bench.record("split", ("a",), {1: 11}, task=1),
        bench.raw("split", b"\xff\xff", None, task=1),
        bench.record("split", ("b",), {2: 12}, task=1),
    )
    task.execute_batch([first, unreadable, second])
    task.execute_batch([bench.raw("split", b"\xff\xff", None, task=1)])
    assert bolt.calls == [["a", "b"]]
    assert bench.counters.dead_letters == 2


class Touchy(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["line"] == "later":
            raise FailTupleError("try later")
        collector.emit(("before",))
        if tuple_["line"] == "bad":
            raise ValueError("a bad line")


def test_an_exception_may_stop_the_process() -> None:
    bench, task, _ = behave(Touchy, on_exception="crash")
    feed(bench, task, "good", {1: 11})
    with pytest.raises(ComponentError, match=r"split/1 stopped: execute\(\) raised ValueError: a bad line"):
        feed(bench, task, "bad", {2: 12})
    task.flush()
    assert (task.committable, bench.sink.failed()) == (1, {})


def test_an_exception_may_set_the_tuple_aside() -> None:
    bench, task, _ = behave(Touchy, on_exception="dead_letter", holds_back=True)
    feed(bench, task, "bad", {2: 12})
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    assert letter.header["dead-letter.reason"] == b"exception"
    assert letter.header["dead-letter.detail"] == b"ValueError: a bad line"
    assert (letter.header["source"], letter.edges) == (b"lines/default", {2: 12})
    assert bench.sink.checksums() == {}, "acked before its dead letter was delivered"
    letter.deliver()
    task.flush()
    (sent,) = bench.sink.tuples
    assert bench.sink.checksums() == {2: 12 ^ sent.edges[2]}
    assert (bench.sink.failed(), bench.counters.dead_letters, bench.counters.errors) == ({}, 1, 1)
    bench.sink.deliver_all()
    assert task.committable == 1


def test_a_tuple_that_could_not_be_set_aside_stops_the_task() -> None:
    bench, task, _ = behave(Touchy, on_exception="dead_letter", holds_back=True)
    feed(bench, task, "bad", {2: 12})
    bench.sink.to(".dead-letters")[0].deliver("no leader")
    with pytest.raises(DeliveryError, match="a dead letter"):
        task.tick(bench.clock.now)
    assert (task.committable, bench.sink.checksums()) == (0, {})


def test_too_many_exceptions_in_a_row_stop_the_component() -> None:
    bench, task, _ = behave(Touchy, max_consecutive_failures=3)
    for number, line in enumerate(["bad", "bad", "good", "bad", "bad"]):
        feed(bench, task, line, {number: 11})
    with pytest.raises(TooManyFailuresError) as stopped:
        feed(bench, task, "bad", {9: 11})
    says = "split/1 stopped: 3 calls of execute() in a row raised, the last one ValueError: a bad line; mend"
    assert str(stopped.value).startswith(says)
    task.flush()
    assert len(bench.sink.failed()) == 5


def test_failing_on_purpose_is_no_failure_of_the_bolt() -> None:
    bench, task, _ = behave(Touchy, max_consecutive_failures=1)
    for number in range(5):
        feed(bench, task, "later", {number: 11})
    assert bench.counters.failed == {"failed": 5}
    assert bench.counters.errors == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"on_exception": "retry"},
            "on_exception of bolt 'split' is 'retry': it must be one of fail, crash, dead",
        ),
        ({"max_consecutive_failures": 0}, "max_consecutive_failures of bolt 'split' is 0: it must be at least 1"),
        ({"tick_interval": 0}, "tick_interval of bolt 'split' is 0 seconds: it must be at least a millisecond"),
        ({"tick_interval": float("nan")}, "tick_interval of bolt 'split' is nan seconds"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TopologyError) as refused:
        behave(Touchy, **options)
    assert says in str(refused.value)


def test_an_external_bolt_has_no_options() -> None:
    builder = TopologyBuilder("words")
    with pytest.raises(TopologyError, match="only bolts of the SDK have: leave them out"):
        builder.set_bolt("split", lambda rows: rows, external=True, on_exception="crash")


class Files(BasicBolt):
    streams = (declare({"word": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        raise OSError("no file bad\udcff.txt")


def test_whatever_an_exception_says_the_tuple_is_set_aside() -> None:
    bench, task, _ = behave(Files, on_exception="dead_letter")
    feed(bench, task, "bad", {2: 12})
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    assert letter.header["dead-letter.detail"] == b"OSError: no file bad\\udcff.txt"
    assert task.committable == 1
