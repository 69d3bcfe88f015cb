"""Emitting: who receives a tuple, and that the emitter is told."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import (
    Bolt,
    CustomGrouping,
    EmitError,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    TaskId,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    declare,
)
from tests.unit.sdk.bolt_rig import Lines, Manual, Sink, feed, rig
from tests.unit.sdk.memory import Bench, made


class Wide(Spout):
    """Emits nothing by itself."""

    streams = (
        declare({"word": str}),
        declare({"word": str}, name="named", direct=True),
        declare({"word": str}, name="nobody"),
    )

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Odd(CustomGrouping):
    """Odd tasks only; a task out of reach for the word `far`."""

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return [99] if values[0] == "far" else range(1, self.tasks, 2)


def wide() -> Topology:
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Wide)
    builder.set_bolt("one", Sink, tasks=3).fields_grouping("lines", "word").direct_grouping("lines", "named")
    builder.set_bolt("odd", Sink, tasks=5).custom_grouping("lines", Odd)
    builder.set_bolt("every", Sink, tasks=2).all_grouping("lines").direct_grouping("lines", "named")
    return builder.build()


def opened() -> tuple[Bench, Any, Any]:
    spouts: list[Any] = []
    topology = wide()
    factories = {**topology.factories, "lines": made(spouts, Wide)}
    bench = Bench(replace(topology, factories=factories))
    task = bench.spout("lines")
    return bench, task, spouts[0]


@pytest.mark.parametrize("message_id", [None, "m"])
def test_a_spout_is_told_the_tasks(message_id: str | None) -> None:
    bench, task, spout = opened()
    targets = spout.collector.emit(("a",), message_id)
    sent = [(each.topic.removeprefix("words.tuples."), each.partition) for each in bench.sink.tuples]
    assert list(targets) == sent
    assert targets[1:] == (TaskId("odd", 1), TaskId("odd", 3), TaskId("every", 0), TaskId("every", 1))
    assert [str(each) for each in targets[1:3]] == ["odd/1", "odd/3"]
    assert bench.counters.transferred == 5
    assert spout.collector.emit(("a",), message_id, "nobody") == ()
    task.flush()
    assert set(bench.sink.checksums().values()) == (set() if message_id is None else {0, bench_xor(bench)})


def bench_xor(bench: Bench) -> int:
    total = 0
    for sent in bench.sink.tuples:
        for edge in sent.edges.values():
            total ^= edge
    return total


def test_a_bolt_is_told_the_tasks() -> None:
    bench, task, bolt = rig(counts=3)
    feed(bench, task, "a", {7: 9})
    targets = bolt.collector.emit(("w",), bolt.tuples[0])
    assert targets == (TaskId("count", 0), TaskId("count", 1), TaskId("count", 2))
    assert bolt.collector.emit((b"w",), bolt.tuples[0], "raw") == ()


def test_a_context_names_all_who_may_receive() -> None:
    _, _, spout = opened()
    assert [str(each) for each in spout.context.targets("named")] == ["one/0", "one/1", "one/2", "every/0", "every/1"]
    assert len(spout.context.targets()) == 10
    assert spout.context.targets("nobody") == ()


def test_a_direct_emit_reaches_the_one_task() -> None:
    bench, task, spout = opened()
    assert spout.collector.emit_direct(TaskId("one", 2), ("a",), "m", "named") == (TaskId("one", 2),)
    assert spout.collector.emit_direct(("every", 1), ("a",), None, "named") == (TaskId("every", 1),)
    tracked, untracked = bench.sink.tuples
    assert (tracked.topic, tracked.partition, len(tracked.edges)) == ("words.tuples.one", 2, 1)
    assert (untracked.topic, untracked.partition, untracked.edges) == ("words.tuples.every", 1, {})
    task.flush()
    assert bench.sink.checksums() == tracked.edges


class Chooser(Bolt):
    streams = (declare({"word": str}, direct=True),)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit_direct(TaskId("count", 1), (tuple_["line"],), tuple_)
        self.collector.ack(tuple_)


def test_a_direct_emit_of_a_bolt_is_anchored() -> None:
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Chooser, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", Sink, tasks=2).direct_grouping("split")
    bench = Bench(builder.build())
    task = bench.bolt("split", 1)
    feed(bench, task, "a", {7: 9})
    task.flush()
    (sent,) = bench.sink.tuples
    assert (sent.partition, list(sent.edges)) == (1, [7])
    assert bench.sink.checksums() == {7: 9 ^ sent.edges[7]}


@pytest.mark.parametrize(
    ("emit", "says"),
    [
        (lambda to: to.emit(("a",), None, "named"), "it is direct: use emit_direct, and say which task"),
        (lambda to: to.emit_direct(TaskId("one", 0), ("a",)), "it is not direct: use emit, or declare the stream with"),
        (
            lambda to: to.emit_direct(TaskId("one", 3), ("a",), None, "named"),
            "tasks are one/0 to one/2",
        ),
        (lambda to: to.emit_direct(TaskId("odd", 0), ("a",), None, "named"), "does not receive it"),
        (lambda to: to.emit_direct(TaskId("one", 0), ("a",), None, "other"), "it declares default, named, nobody"),
        (lambda to: to.emit(("far",), "m"), "Odd.choose() returned task 99: the bolt has 5, numbered from 0"),
        (lambda to: to.emit((), "m"), "0 values for 1 fields: pass one value for each field"),
        (lambda to: to.emit("a", "m"), "values must be a tuple or a list, not str: write ('a',)"),
    ],
)
def test_an_emit_that_cannot_be_sends_nothing(emit: Callable[[Any], object], says: str) -> None:
    bench, _, spout = opened()
    with pytest.raises(EmitError) as refused:
        emit(spout.collector)
    assert says in str(refused.value)
    assert (bench.sink.tuples, bench.counters.emitted) == ([], 0)


def _direct_of_another(builder: TopologyBuilder) -> None:
    builder.set_bolt("one", Sink).direct_grouping("lines")


def _another_of_direct(builder: TopologyBuilder) -> None:
    builder.set_bolt("one", Sink).shuffle_grouping("lines", "named")


def _external(builder: TopologyBuilder) -> None:
    builder.set_spout("spark", "a-topic", external=True, streams=[declare({"word": str})])
    builder.set_bolt("one", Sink).partial_key_grouping("spark", "word")


@pytest.mark.parametrize(
    ("declare_bolt", "says"),
    [
        (_direct_of_another, "which is not direct: use another grouping, or declare it with direct=True"),
        (_another_of_direct, "which is direct: use a direct grouping, or declare it with direct=False"),
        (_external, "a partial_key grouping of 'spark', which is external: only components of the SDK can follow it"),
    ],
)
def test_groupings_that_do_not_fit_are_refused(declare_bolt: Callable[[TopologyBuilder], None], says: str) -> None:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", Wide)
    declare_bolt(builder)
    with pytest.raises(TopologyError) as refused:
        builder.build()
    assert says in str(refused.value)


def test_the_manual_bolt_may_emit_without_anchors() -> None:
    bench, task, bolt = rig(Manual)
    feed(bench, task, "a", {7: 9})
    bolt.collector.emit(("w",))
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    assert [sent.edges for sent in bench.sink.tuples] == [{}]
    assert bench.sink.checksums() == {7: 9}


@pytest.mark.parametrize("is_anchored", [False, True])
def test_values_that_do_not_fit_are_refused_before_they_are_grouped_by(is_anchored: bool) -> None:
    bolts: list[Any] = []
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", made(bolts, Manual)).shuffle_grouping("lines")
    builder.set_bolt("count", Sink, tasks=2).fields_grouping("split", "word")
    bench = Bench(builder.build())
    feed(bench, bench.bolt("split"), "a", {7: 9})
    with pytest.raises(EmitError, match="0 values for 1 fields"):
        bolts[-1].collector.emit((), bolts[-1].tuples[0] if is_anchored else ())
    assert (bench.sink.tuples, bench.counters.emitted) == ([], 0)


def test_anchors_may_be_given_one_after_the_other() -> None:
    """A generator is empty once it was gone through, and a tuple without anchors would be nobody's."""
    bench, task, bolt = rig(Manual, counts=2)
    for root in (7, 8):
        feed(bench, task, "a", {root: 9})
    bolt.collector.emit(("w",), (each for each in bolt.tuples))
    bolt.collector.ack_all(bolt.tuples)
    task.flush()
    first, second = bench.sink.tuples
    for root in (7, 8):
        assert bench.sink.checksums()[root] == 9 ^ first.edges[root] ^ second.edges[root]


@pytest.mark.parametrize("is_anchored", [False, True])
def test_values_that_nobody_can_be_chosen_by_are_refused(is_anchored: bool) -> None:
    class Users(Manual):
        streams = (declare({"user": str}, codec="json"), declare(["raw"], name="raw", codec="bytes"))

    bolts: list[Any] = []
    builder = TopologyBuilder("users", ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", made(bolts, Users)).shuffle_grouping("lines")
    builder.set_bolt("count", Sink, tasks=2).fields_grouping("split", "user")
    bench = Bench(builder.build())
    feed(bench, bench.bolt("split"), "a", {7: 9})
    # JSON escapes what UTF-8 cannot carry, and a key is UTF-8.
    with pytest.raises(EmitError, match=r"cannot be grouped by .UnicodeEncodeError.*: pass values that its"):
        bolts[-1].collector.emit(("\ud800",), bolts[-1].tuples[0] if is_anchored else ())
    assert (bench.sink.tuples, bench.counters.emitted) == ([], 0)
