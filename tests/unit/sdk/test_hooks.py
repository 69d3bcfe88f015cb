"""Hooks and latencies of a task."""

from collections import Counter
from typing import Any

import pytest

from spout_sdk import EmitInfo, Failure, TaskContext, TaskHook, TaskId, TooManyFailuresError, TopologyBuilder, Tuple
from spout_sdk.statistics.stats import SAMPLE
from tests.unit.sdk import test_spout_task as spouts
from tests.unit.sdk.bolt_rig import Lines, Sink, Split, feed, rig
from tests.unit.sdk.memory import Bench, made
from tuple_tree.messages import FailReason


class Counting(TaskHook):
    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.emitted: list[EmitInfo] = []
        self.outcomes: list[Any] = []

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def cleanup(self) -> None:
        self.calls["cleanup"] += 1

    def emit(self, emitted: EmitInfo) -> None:
        self.emitted.append(emitted)

    def spout_ack(self, message_id: Any, seconds: float) -> None:
        self.outcomes.append((message_id, seconds))

    def spout_fail(self, message_id: Any, failure: Failure) -> None:
        self.outcomes.append((message_id, failure.message))

    def bolt_execute(self, tuple_: Tuple, seconds: float) -> None:
        self.calls["bolt_execute"] += 1

    def bolt_ack(self, tuple_: Tuple) -> None:
        self.calls["bolt_ack"] += 1

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        self.calls[f"bolt_fail {message}"] += 1


def test_a_hook_of_the_topology_is_called_for_all_that_a_bolt_does() -> None:
    hooks: list[Any] = []
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.add_hook(made(hooks, Counting))
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", Sink).shuffle_grouping("split")
    bench = Bench(builder.build())
    task = bench.bolt("split", 1)
    for root, line in enumerate(("a b c", "a quiet one", "a bad one")):
        feed(bench, task, line, {root: 9})
    task.cleanup()
    (hook,) = hooks
    assert (hook.context.component, hook.context.task) == ("split", 1)
    failed = {"bolt_fail try later": 1, "bolt_fail ValueError: a bad word": 1}
    assert hook.calls == {"bolt_execute": 3, "bolt_ack": 1, "cleanup": 1, **failed}
    assert (len(hook.emitted), hook.emitted[0]) == (5, EmitInfo(("a",), "default", (TaskId("count", 0),)))
    assert bench.counters.execute_latency.total == 3


def test_a_hook_of_a_spout_is_called_with_outcomes() -> None:
    bench, task, spout = spouts.rig()
    hook = Counting()
    spout.context.add_hook(hook)
    spouts.emit(task, spout, (("a",), "m1"), (("b",), "m2"))
    first, second = spouts.root_of(bench.sink.tuples[0]), spouts.root_of(bench.sink.tuples[3])
    bench.clock.advance(0.5)
    task.handle(spouts.notice((first,), {second: (FailReason.FAILED, "no")}))
    task.close()
    assert (hook.calls, hook.outcomes) == ({"cleanup": 1}, [("m1", 0.5), ("m2", "no")])
    assert [(emitted.message_id, len(emitted.tasks)) for emitted in hook.emitted] == [("m1", 3), ("m2", 3)]


class Broken(TaskHook):
    def emit(self, emitted: EmitInfo) -> None:
        if emitted.values == ("hooked",):
            raise OSError("no disk")

    def bolt_execute(self, tuple_: Tuple, seconds: float) -> None:
        raise OSError("no disk")

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        raise OSError("no disk")


class BrokenlyHooked(Split):
    def prepare(self, context: TaskContext) -> None:
        context.add_hook(Broken())


def test_an_exception_of_a_hook_counts_as_one_of_the_bolt() -> None:
    bench, task, _ = rig(BrokenlyHooked)
    for root, line in enumerate(("hooked", "a", "a bad one")):
        feed(bench, task, line, {root: 9})
    task.flush()
    assert bench.sink.failed() == {0: "OSError: no disk", 2: "ValueError: a bad word"}
    assert (task.committable, bench.counters.errors) == (3, 7)
    bench, task, _ = rig(BrokenlyHooked, max_consecutive_failures=3)
    for line in ("a", "a bad one"):
        feed(bench, task, line, {7: 9})
    with pytest.raises(TooManyFailuresError, match="no disk"):
        feed(bench, task, "a", {7: 9})


def test_one_execution_in_twenty_is_timed() -> None:
    bench, task, bolt = rig()
    for _ in range(2 * SAMPLE + 1):
        feed(bench, task, "a", {7: 9})
    assert bench.counters.execute_latency.total == 3
    bench.clock.advance(1.0)
    for tuple_ in bolt.tuples:
        bolt.collector.ack(tuple_)
    process = bolt.collector.metrics.process_latency
    assert (process.total, process.seconds) == (3, pytest.approx(3.0, rel=1 / 16))
