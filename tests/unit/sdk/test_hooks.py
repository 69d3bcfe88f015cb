"""Hooks and metrics: what a task tells of itself."""

import logging
from collections import Counter
from typing import Any

import pytest

from spout_sdk import EmitInfo, Failure, TaskContext, TaskHook, TaskId, TooManyFailuresError, TopologyBuilder, Tuple
from spout_sdk.counters import SAMPLE
from tests.unit.sdk import test_spout_task as spouts
from tests.unit.sdk.bolt_rig import Lines, Manual, Sink, Split, feed, rig
from tests.unit.sdk.memory import Bench, made
from tuple_tree.messages import FailReason


class Counting(TaskHook):
    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()
        self.emitted: list[EmitInfo] = []
        self.seconds: list[float] = []
        self.ids: list[Any] = []

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def cleanup(self) -> None:
        self.heard["cleanup"] += 1

    def emit(self, emitted: EmitInfo) -> None:
        self.heard["emit"] += 1
        self.emitted.append(emitted)

    def spout_ack(self, message_id: Any, seconds: float) -> None:
        self.heard["spout_ack"] += 1
        self.ids.append(message_id)
        self.seconds.append(seconds)

    def spout_fail(self, message_id: Any, failure: Failure) -> None:
        self.heard["spout_fail"] += 1
        self.ids.append((message_id, failure.message))

    def bolt_execute(self, tuple_: Tuple, seconds: float) -> None:
        self.heard["bolt_execute"] += 1
        self.seconds.append(seconds)

    def bolt_ack(self, tuple_: Tuple) -> None:
        self.heard["bolt_ack"] += 1

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        self.heard[f"bolt_fail {message}"] += 1


def test_a_hook_of_the_topology_hears_all_that_a_bolt_does() -> None:
    hooks: list[Any] = []
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.add_hook(made(hooks, Counting))
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", Sink).shuffle_grouping("split")
    bench = Bench(builder.build())
    task = bench.bolt("split", 1)
    feed(bench, task, "a b c", {7: 9})
    feed(bench, task, "a quiet one", {8: 9})
    feed(bench, task, "a bad one", {9: 9})
    task.cleanup()
    (hook,) = hooks
    assert (hook.context.component, hook.context.task) == ("split", 1)
    assert hook.heard == {
        "emit": 5,
        "bolt_execute": 3,
        "bolt_ack": 1,
        "bolt_fail try later": 1,
        "bolt_fail ValueError: a bad word": 1,
        "cleanup": 1,
    }
    assert hook.emitted[0] == EmitInfo(("a",), "default", (TaskId("count", 0),))
    assert bench.counters.execute_latency.total == 3


def test_a_hook_of_a_spout_hears_outcomes() -> None:
    bench, task, spout = spouts.rig()
    hook = Counting()
    spout.collector._context.add_hook(hook)
    spouts.emit(task, spout, (("a",), "m1"), (("b",), "m2"))
    first, second = spouts.root_of(bench.sink.tuples[0]), spouts.root_of(bench.sink.tuples[3])
    bench.clock.advance(0.5)
    task.handle(spouts.notice((first,), {second: (FailReason.FAILED, "no")}))
    task.close()
    assert hook.heard == {"emit": 2, "spout_ack": 1, "spout_fail": 1, "cleanup": 1}
    assert (hook.ids, hook.seconds) == (["m1", ("m2", "no")], [0.5])
    assert [emitted.message_id for emitted in hook.emitted] == ["m1", "m2"]
    assert len(hook.emitted[0].tasks) == 3


def test_what_a_hook_raises_counts_as_raised_by_the_bolt() -> None:
    class Angry(TaskHook):
        def emit(self, emitted: EmitInfo) -> None:
            raise OSError("no disk")

    class Hooked(Split):
        def prepare(self, context: TaskContext) -> None:
            context.add_hook(Angry())

    bench, task, _ = rig(Hooked)
    feed(bench, task, "a", {7: 9})
    task.flush()
    assert bench.sink.failed() == {7: "OSError: no disk"}


class Broken(TaskHook):
    """Its disk is full."""

    def bolt_execute(self, tuple_: Tuple, seconds: float) -> None:
        raise OSError("no disk")

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        raise OSError("no disk")


class BrokenlyHooked(Split):
    def prepare(self, context: TaskContext) -> None:
        context.add_hook(Broken())


def test_what_a_hook_raises_after_an_execute_counts_as_well() -> None:
    bench, task, _ = rig(BrokenlyHooked)
    feed(bench, task, "a", {7: 9})
    feed(bench, task, "a bad one", {8: 9})
    task.flush()
    assert bench.sink.failed() == {8: "ValueError: a bad word"}
    assert (task.committable, bench.counters.errors) == (2, 4)


def test_a_hook_that_always_raises_is_a_failure_a_call() -> None:
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", BrokenlyHooked, max_consecutive_failures=3).shuffle_grouping("lines")
    bench = Bench(builder.build())
    task = bench.bolt("split")
    for line in ("a", "a bad one"):
        task.execute(bench.record("split", (line,), {7: 9}))
    with pytest.raises(TooManyFailuresError, match="no disk"):
        task.execute(bench.record("split", ("a",), {7: 9}))


def test_one_execution_in_twenty_is_timed() -> None:
    bench, task, bolt = rig(Manual)
    for _ in range(2 * SAMPLE + 1):
        feed(bench, task, "a", {7: 9})
    assert bench.counters.execute_latency.total == 3
    bench.clock.advance(1.0)
    for tuple_ in bolt.tuples:
        bolt.collector.ack(tuple_)
    process = bolt.collector.metrics.process_latency
    assert process.total == 3
    assert process.seconds == pytest.approx(3.0, rel=1 / 16)


def test_an_error_that_is_reported_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, bolt = rig(Manual)
    with caplog.at_level(logging.ERROR):
        bolt.collector.report_error(OSError("no disk"))
    assert "split/1 reports an error" in caplog.text
    assert "OSError: no disk" in caplog.text
    assert (bench.counters.errors, bench.counters.last_error) == (1, "OSError: no disk")
    feed(bench, task, "a", {7: 9})
    assert len(bolt.tuples) == 1, "the task goes on"


def test_the_time_in_which_too_much_is_open_is_counted() -> None:
    bench, task, spout = spouts.rig(max_pending=1)
    spouts.emit(task, spout, (("a",), "m1"), (("b",), "m2"))
    root = spouts.root_of(bench.sink.tuples[0])
    for _ in range(5):
        bench.clock.advance(1.0)
        assert not task.emit(10)
    assert bench.counters.throttled_seconds == pytest.approx(5.0)
    task.handle(spouts.notice((root,)))
    bench.clock.advance(1.0)
    assert task.emit(10)
    assert bench.counters.throttled_seconds == pytest.approx(6.0)
