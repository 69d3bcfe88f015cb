"""Hooks and latencies of a task."""

from typing import Any

import pytest

from spout_sdk import TaskContext, TopologyBuilder, Tuple
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from spout_sdk.groupings import TaskId
from spout_sdk.hooks import EmitInfo, TaskHook
from spout_sdk.statistics.stats import SAMPLE
from spout_sdk.testing import SimulatedCluster
from tests.components import ByHand, Emits, Sink, kinds
from tests.unit.sdk.bench import Lines, Split, feed, made, rig

CALLS = ("emit", "spout_ack", "spout_fail", "bolt_execute", "bolt_ack", "bolt_fail")


class Noting(TaskHook):
    """Notes its calls and their arguments; it may raise in each call, or in the first of each kind."""

    def __init__(self, raises: str = "never") -> None:
        self.calls: dict[str, list[Any]] = {name: [] for name in (*CALLS, "cleanup")}
        self.raises = raises
        for name in CALLS:
            setattr(self, name, lambda *given, name=name: self._note(name, given))

    def _note(self, name: str, given: Any) -> None:
        self.calls[name].append(given)
        if self.raises == "always" or (self.raises == "once" and len(self.calls[name]) == 1):
            raise OSError("no disk")

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def cleanup(self) -> None:
        self.calls["cleanup"].append(())


def test_a_hook_of_the_topology_is_called_for_all_that_its_tasks_do() -> None:
    hooks: list[Any] = []
    builder = TopologyBuilder("words")
    builder.add_hook(made(hooks, Noting))
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_bolt("count", Sink).shuffle_grouping("split")
    lines = [("a b c",), ("a quiet one",), ("a bad one",)]
    with SimulatedCluster(builder.build(), sources={"lines": lines}) as cluster:
        cluster.pause("split")
        cluster.advance(2)
        cluster.resume("split")
        cluster.run_until_idle()
    bolt, spout = ({hook.context.component: hook for hook in hooks}[name] for name in ("split", "lines"))
    assert [len(bolt.calls[each]) for each in ("bolt_execute", "bolt_ack", "cleanup", "emit")] == [3, 1, 1, 5]
    failures = ["try later", "ValueError: a bad word"]
    assert [message for _, message in bolt.calls["bolt_fail"]] == failures
    assert bolt.calls["emit"][0] == (EmitInfo(("a",), "default", (TaskId("count", 0),)),)
    ((message_id, seconds),) = spout.calls["spout_ack"]
    assert (message_id, 2 <= seconds < 4, len(spout.calls["cleanup"])) == (0, True, 1)
    assert [(each, failure.message) for each, failure in spout.calls["spout_fail"]] == [*enumerate(failures, 1)]
    assert [(each.message_id, len(each.tasks)) for (each,) in spout.calls["emit"]] == [(0, 1), (1, 1), (2, 1)]


class Columns(ArrowBolt):
    streams = Split.streams

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        bad = [row for row, line in enumerate(batch["line"].to_pylist()) if line == "bad"]
        collector.fail("a bad word", rows=bad)
        collector.emit({"word": batch["line"]}, anchors=())
        collector.ack()


class Collects(ByHand):
    streams = Split.streams

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["line"] == "bad":
            raise ValueError("a bad word")
        self.held.append(tuple_)
        if len(self.held) == 3:
            self.collector.emit(("three",), anchors=self.held)
            self.collector.ack_all(self.held)
            self.held = []


def pass_good(values: Any, _context: TaskContext) -> Emits:
    if values == ("bad",):
        raise ValueError("a bad word")
    return [(values, "default")]


PASS = kinds(pass_good, *Split.streams)


@pytest.mark.parametrize("raises", ["always", "once"])
@pytest.mark.parametrize("bolt", [PASS.basic, Columns, Collects, PASS.coroutines])
def test_each_input_is_settled_once_whatever_a_hook_raises(
    bolt: Any, raises: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its exceptions are errors that are counted, and no failures of the bolt."""
    hook = Noting(raises)
    builder = TopologyBuilder("words", guarantee="exactly_once" if raises == "once" else "at_least_once")
    builder.add_hook(lambda: hook)
    builder.set_spout("lines", Lines)
    options: Any = {"max_consecutive_failures": 3, "on_consecutive_failures": "stop"}
    builder.set_bolt("bolt", bolt, **options).shuffle_grouping("lines")
    builder.set_bolt("keep", Split).shuffle_grouping("bolt")
    lines = [("a",)] * 12 + [("bad",)] + [("a",)] * 12
    with SimulatedCluster(builder.build(), sources={"lines": lines}, bolts={"keep": Sink}) as cluster:
        cluster.advance(1)
        acked, failed = cluster.acked("lines"), [message for message, _ in cluster.failed("lines")]
        assert sorted([*acked, *failed]) == list(range(len(lines)))
        assert len(failed) == 1
        assert cluster.stats("bolt").pending == 0
        assert sum(cluster.committed("bolt").values()) == cluster.broker.end("words.tuples.bolt", 0)
        assert cluster.stats("bolt").errors >= 3
    assert "bolt/0 reports an error: OSError: no disk" in caplog.text
    assert min(len(hook.calls["bolt_ack"]), len(hook.calls["bolt_execute"])) >= len(acked)
    assert len(hook.calls["emit"]) >= len(acked) // 3


def test_one_execution_in_twenty_is_timed() -> None:
    bench, task, bolt = rig()
    for _ in range(2 * SAMPLE + 1):
        feed(bench, task, "a", {7: 9})
    assert task.stats.execute_latency.total == 3
    bench.clock.advance(1.0)
    for tuple_ in bolt.tuples:
        bolt.collector.ack(tuple_)
    process = bolt.collector.metrics.process_latency
    assert (process.total, process.seconds) == (3, pytest.approx(3.0, rel=1 / 16))
