"""Ticks, batches and exceptions of a bolt."""

from collections.abc import Sequence
from typing import Any

import pytest

from kafka_clients.repeated_lines import get_logger
from spout_sdk import OutputCollector, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.errors import ComponentError, DeliveryError, TooManyFailuresError, TopologyError
from tests.components import ByHand, InBatches
from tests.packs import under_seed
from tests.unit.sdk.bench import Manual, Split, bench_of, feed, rig
from tests.unit.sdk.sent_records import NOT_DELIVERED

WORD = (declare({"word": str}),)


class Ticking(ByHand):
    streams = WORD
    tick_interval = 5.0

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        super().prepare(context, collector)
        self.ticks: list[float] = []

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            self.held.append(tuple_)
            return
        assert (tuple_.component, tuple_.stream, tuple_.values, tuple_.roots) == ("__system", "__tick", (), ())
        self.ticks.append(self.context.now())
        self.collector.emit(("ticked",), anchors=[tuple_, *self.held])
        self.collector.ack_all([*self.held, tuple_])
        self.held.clear()


@pytest.mark.parametrize("interval", [0.1, 5.0])
def test_ticks_come_at_their_interval_without_drift_and_missed_ones_are_left_out(interval: float) -> None:
    """A loop is late by some milliseconds each time."""
    bench, task, bolt = rig(Ticking, tick_interval=interval)
    began = bench.clock.now
    due = 0.0
    while len(bolt.ticks) < 100:
        due += interval
        for late in (-0.001, 0.007):
            bench.clock.now = began + due + late
            task.flush()
    assert bolt.ticks[-1] - began == pytest.approx(100 * interval + 0.007)
    # A long call: one tick for all missed ticks, and the next at a multiple of the interval.
    bench.clock.advance(10.5 * interval)
    task.flush()
    assert len(bolt.ticks) == 101
    bench.clock.now = began + 111 * interval - 0.001
    task.flush()
    assert len(bolt.ticks) == 101
    bench.clock.advance(0.001)
    task.flush()
    assert len(bolt.ticks) == 102


def test_a_tick_belongs_to_no_tree_and_is_not_counted() -> None:
    bench, task, _ = rig(Ticking)
    feed(bench, task, "a", {7: 9})
    bench.clock.advance(5)
    task.flush()
    (sent,) = bench.sink.tuples
    assert list(sent.edges) == [7]
    assert bench.sink.checksums() == {7: 9 ^ sent.edges[7]}
    assert (task.stats.executed, task.stats.acked, task.committable) == (1, 1, 1)


class Together(InBatches):
    streams = WORD

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        self.calls.append([tuple_["line"] for tuple_ in tuples])
        self.collector.ack(tuples[0])
        if "bad" in self.calls[-1]:
            raise ValueError("a bad line")
        self.collector.emit((" ".join(self.calls[-1]),), anchors=tuples[1:])
        self.collector.ack_all(tuples[1:])


def test_a_batch_is_one_call_without_unreadable_tuples_and_an_exception_fails_what_is_not_settled() -> None:
    bench, task, bolt = bench_of(Together)
    bench.pack("split", [("a",)] * 7, [{}] * 7)  # the first batches are small
    task.flush()
    bench.sink.all.clear()
    bolt.calls.clear()
    bench.raw("split", b"\xff\xff", None)
    inputs = under_seed((1, 2, 3))
    bench.pack("split", [("a",), ("b",), ("c",)], inputs)
    task.flush()
    assert (bolt.calls, task.stats.executed, task.stats.dead_letters) == ([["a", "b", "c"]], 10, 1)
    (sent,) = bench.sink.tuples
    assert bench.sink.checksums() == {root: inputs[root - 1][root] ^ sent.edges.get(root, 0) for root in (1, 2, 3)}
    bench.sink.all.clear()
    bench.pack("split", [("a",), ("bad",), ("c",)], inputs)
    task.flush()
    assert bench.sink.checksums() == inputs[0]
    assert bench.sink.failed() == {2: "ValueError: a bad line", 3: "ValueError: a bad line"}


def test_an_exception_after_an_ack_changes_nothing_for_its_tuple() -> None:
    class AcksThenRaises(Manual):
        def execute(self, tuple_: Tuple) -> None:
            if tuple_["line"] == "acked":
                self.collector.ack(tuple_)
            raise RuntimeError("after all")

    bench, task, _ = rig(AcksThenRaises)
    feed(bench, task, "acked", {7: 9})
    feed(bench, task, "open", {8: 9})
    task.flush()
    assert bench.sink.checksums() == {7: 9}
    assert (bench.sink.failed(), task.committable) == ({8: "RuntimeError: after all"}, 2)


def test_an_exception_fails_its_tuple_and_is_logged_with_place_roots_and_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench, task, _ = rig(Split)
    feed(bench, task, "one bad word", {17: 9, 18: 9})
    (line,) = caplog.records
    shown = "split/1 raised ValueError: a bad word at words.tuples.split[1] offset 0, roots "
    assert (line.getMessage(), bool(line.exc_info)) == (f"{shown}{17:016x}, {18:016x}", True)
    task.flush()
    assert bench.sink.failed() == dict.fromkeys((17, 18), "ValueError: a bad word")
    assert (task.stats.errors, task.committable) == (1, 1)


def test_exceptions_are_alike_if_they_are_of_one_type_and_come_from_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def raised(text: str) -> Exception:
        try:
            return AssertionError(int(text) if text else 1 / 0)
        except (ValueError, ZeroDivisionError) as error:
            return error

    for each in (raised(""), raised("x"), raised(""), ZeroDivisionError()):
        get_logger("spout_sdk.bolt").error("raised", exc_info=each)
    assert [bool(record.exc_info) for record in caplog.records] == [True, True, True]


def test_failing_on_purpose_is_no_error_and_one_that_a_bolt_reports_is(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, _ = rig(Split, max_consecutive_failures=1)
    for number in range(5):
        feed(bench, task, "quiet", {number: 11})
    task.flush()
    assert bench.sink.failed() == dict.fromkeys(range(5), "try later")
    assert (task.stats.failed, task.stats.errors, caplog.records) == ({"failed": 5}, 0, [])
    bench, task, bolt = rig()
    bolt.collector.report_error(OSError("no disk"))
    assert task.stats.errors == 1
    assert "split/1 reports an error: OSError: no disk" in caplog.text


def test_an_exception_may_stop_the_process() -> None:
    bench, task, _ = rig(Split, on_exception="crash")
    feed(bench, task, "good", {1: 11})
    with pytest.raises(ComponentError, match=r"split/1 stopped: execute\(\) raised ValueError: a bad word"):
        feed(bench, task, "bad", {2: 12})
    assert bench.sink.failed() == {}


def test_an_exception_may_make_the_tuple_a_dead_letter() -> None:
    bench, task, _ = rig(Split, on_exception="dead_letter", holds_back=True)
    feed(bench, task, "before bad", {2: 12})
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    assert letter.header["dead-letter.reason"] == b"exception"
    assert letter.header["dead-letter.detail"] == b"ValueError: a bad word"
    assert (letter.header["source"], letter.edges) == (b"lines/default", {2: 12})
    assert not any(len(batch.ack_roots) for batch in bench.sink.batches), "acked before its dead letter was delivered"
    letter.deliver()
    task.flush()
    (sent,) = bench.sink.tuples
    assert bench.sink.checksums() == {2: 12 ^ sent.edges[2]}
    assert (bench.sink.failed(), task.stats.dead_letters, task.stats.errors) == ({}, 1, 1)
    bench.sink.deliver_all()
    assert task.committable == 1
    feed(bench, task, "bad", {3: 12})
    bench.sink.to(".dead-letters")[-1].deliver(NOT_DELIVERED)
    with pytest.raises(DeliveryError, match=r"a dead letter for words\.dead-letters"):
        task.flush()
    assert task.committed.offset == 1


def test_too_many_exceptions_in_a_row_stop_the_component() -> None:
    bench, task, _ = rig(Split, max_consecutive_failures=3, on_consecutive_failures="stop")
    for number, line in enumerate(["bad", "bad", "good", "bad", "bad"]):
        feed(bench, task, line, {number: 11})
    with pytest.raises(TooManyFailuresError) as stopped:
        feed(bench, task, "bad", {9: 11})
    message = (
        "split/1 stopped: execute() raised for tuples of 3 messages in a row, the last time ValueError: a bad word; fix"
    )
    assert str(stopped.value).startswith(message)
    assert len(bench.sink.failed()) == 4, "but for the last ones, which are repeated"


def test_prepare_that_raises_stops_the_process_and_cleanup_may_ack_and_raise(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Manual):
        def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
            raise OSError("no disk")

    class Batching(Manual):
        def cleanup(self) -> None:
            self.collector.ack_all(self.tuples)
            raise OSError("disk is gone")

    with pytest.raises(ComponentError, match=r"split/0 stopped: prepare\(\) raised OSError: no disk"):
        rig(Broken)
    bench, task, _ = rig(Batching)
    feed(bench, task, "a", {7: 9})
    task.restart()
    assert "split/1: cleanup() raised" in caplog.text
    assert (bench.sink.checksums(), task.committable) == ({7: 9}, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_exception": "again"}, "on_exception of bolt 'split' is 'again': it must be one of fail, retry, crash"),
        ({"max_consecutive_failures": -1}, "max_consecutive_failures of bolt 'split' is -1: it must be a whole number"),
        ({"on_consecutive_failures": "end"}, "on_consecutive_failures of bolt 'split' is 'end': it must be one of pau"),
        ({"tick_interval": 0}, "tick_interval of bolt 'split' is 0: it must be a finite number"),
        ({"tick_interval": float("nan")}, "tick_interval of bolt 'split' is nan"),
        ({"bolt": Together, "tick_interval": 1.0}, "which has no tick tuples"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        rig(**{"bolt": Split, **options})


def test_an_external_bolt_has_no_options_of_the_sdk() -> None:
    with pytest.raises(TopologyError, match="only bolts of the SDK have: leave them out"):
        TopologyBuilder("words").set_bolt("split", lambda rows: rows, external=True, on_exception="crash")
