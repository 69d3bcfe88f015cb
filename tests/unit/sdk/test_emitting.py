"""Emitting: the receiving tasks, and invalid emits."""

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import xor
from typing import Any

import pytest

from spout_sdk import BasicBolt, BasicCollector, Spout, SpoutCollector, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.errors import EmitError, TupleAlreadyDoneError
from spout_sdk.groupings import CustomGrouping, TaskId
from spout_sdk.statistics.stats import Counters
from tests.components import Sink
from tests.unit.sdk.bench import Bench, BenchTask, Lines, Manual, feed, rig
from tuple_tree.payloads import payload_codec


class Wide(Spout):
    streams = (
        declare({"word": str}),
        declare({"word": str}, name="named", direct=True),
        declare({"word": str}, name="unused"),
    )

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context, self.collector = context, collector

    def next_tuple(self) -> None:
        """Emits nothing."""


class Odd(CustomGrouping):
    """Odd tasks only; an invalid task for the word `far`."""

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return [99] if values[0] == "far" else range(1, self.tasks, 2)


def opened() -> tuple[Bench, BenchTask, Any]:
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Wide)
    builder.set_bolt("one", Sink, tasks=3).fields_grouping("lines", "word").direct_grouping("lines", "named")
    builder.set_bolt("odd", Sink, tasks=5).custom_grouping("lines", Odd)
    builder.set_bolt("every", Sink, tasks=2).all_grouping("lines").direct_grouping("lines", "named")
    bench = Bench(builder.build())
    task = bench.spout("lines")
    return bench, task, bench.cluster.spout("lines")


@pytest.mark.parametrize("message_id", [None, "m"])
def test_the_tuple_of_a_spout_reaches_all_tasks_that_its_groupings_choose(message_id: str | None) -> None:
    bench, task, spout = opened()
    spout.collector.emit(("a",), message_id=message_id)
    received = [f"{each.topic.removeprefix('words.tuples.')}/{each.partition}" for each in bench.sink.tuples]
    assert received[1:] == ["odd/1", "odd/3", "every/0", "every/1"]
    assert task.stats.transferred == 5
    spout.collector.emit(("a",), message_id=message_id, stream="unused")
    assert task.stats.transferred == 5
    task.flush()
    edges = [edge for sent in bench.sink.tuples for edge in sent.edges.values()]
    # The tree without recipients begins with zero.
    assert sorted(bench.sink.checksums().values()) == ([] if message_id is None else [0, reduce(xor, edges)])


def test_a_tuple_has_an_edge_for_each_receiver() -> None:
    bench, task, bolt = rig(counts=2)
    feed(bench, task, "a", {7: 9})
    bolt.collector.emit(("w",), anchors=bolt.tuples[0])
    bolt.collector.emit((b"w",), anchors=bolt.tuples[0], stream="raw")
    first, second = bench.sink.tuples
    assert ([name for name, _ in first.headers], first.key) == (["anchors", "source"], None)
    assert first.edges[7] != second.edges[7]
    bolt.collector.emit(("w",))
    assert bench.sink.tuples[-1].headers == [("source", b"split/default")]
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    assert bench.sink.checksums() == {7: 9 ^ first.edges[7] ^ second.edges[7]}


def test_an_emit_without_anchors_warns_once_unless_anchors_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    _, _, bolt = rig()
    for _ in range(2):
        bolt.collector.emit(("w",), anchors=())
    assert caplog.messages == []
    for _ in range(2):
        bolt.collector.emit(("w",))
    assert [text.split(":")[0] for text in caplog.messages] == ["split/1 emits without anchors"]


def test_an_emit_after_the_ack_fails_the_tree() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {7: 9})
    bolt.collector.ack(bolt.tuples[0])
    with pytest.raises(TupleAlreadyDoneError):
        bolt.collector.emit(("w",), anchors=bolt.tuples[0])
    task.flush()
    assert (bench.sink.tuples, bench.sink.checksums()) == ([], {})
    assert "acked or failed before" in bench.sink.failed()[7]


def test_a_tuple_that_is_put_back_takes_no_key_from_the_next_one() -> None:
    stream = declare(["word"], name="raw", codec="bytes")
    pack = OpenPack("words.tuples.raw", 0, payload_codec(stream), ("source", b"lines/raw"), 10, Counters())
    pack.keys[0] = b"next"  # of a tuple whose emit flushes before it is added
    pack.put((b"waited",), b"waited", [])
    pack.rows.append((b"next",))
    assert [(row, key) for row, key, _ in pack.take_each()] == [((b"waited",), b"waited"), ((b"next",), b"next")]


def test_a_direct_emit_reaches_the_one_task() -> None:
    bench, task, spout = opened()
    assert [str(each) for each in spout.context.targets("named")] == ["one/0", "one/1", "one/2", "every/0", "every/1"]
    assert (len(spout.context.targets()), spout.context.targets("unused")) == (10, ())
    spout.collector.emit_direct(TaskId("one", 2), ("a",), message_id="m", stream="named")
    spout.collector.emit_direct(("every", 1), ("a",), stream="named")
    tracked, untracked = bench.sink.tuples
    assert (tracked.topic, tracked.partition, len(tracked.edges)) == ("words.tuples.one", 2, 1)
    assert (untracked.topic, untracked.partition, untracked.edges) == ("words.tuples.every", 1, {})
    task.flush()
    assert bench.sink.checksums() == tracked.edges


class Chooser(Manual):
    streams = (declare({"word": str}, direct=True),)

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit_direct(TaskId("count", 1), (tuple_["line"],), anchors=tuple_)
        self.collector.ack(tuple_)


class BasicChooser(BasicBolt):
    streams = Chooser.streams

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit_direct(TaskId("count", 1), (tuple_["line"],))


@pytest.mark.parametrize("bolt", [Chooser, BasicChooser])
def test_a_direct_emit_of_a_bolt_is_anchored(bolt: Any) -> None:
    builder = TopologyBuilder("words", ack_partitions=3)
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", bolt, tasks=2).shuffle_grouping("lines")
    builder.set_bolt("count", Sink, tasks=2).direct_grouping("split")
    bench = Bench(builder.build())
    task = bench.bolt("split", 1)
    feed(bench, task, "a", {7: 9})
    task.flush()
    (sent,) = bench.sink.tuples
    assert (sent.partition, list(sent.edges)) == (1, [7])
    assert bench.sink.checksums() == {7: 9 ^ sent.edges[7]}


def direct(component: str, task: int, stream: str = "named") -> Callable[[SpoutCollector], object]:
    return lambda to: to.emit_direct(TaskId(component, task), ("a",), stream=stream)


def test_invalid_emits_of_a_spout_raise_before_a_send() -> None:
    refusals: list[tuple[Callable[[SpoutCollector], object], str]] = [
        (lambda to: to.emit(("a",), stream="named"), "it is direct: use emit_direct, and say which task"),
        (direct("one", 0, "default"), "it is not direct: use emit, or declare the stream with"),
        (direct("one", 3), "tasks are one/0 to one/2"),
        (direct("odd", 0), "does not receive it"),
        (direct("one", 0, "other"), "it declares default, named"),
        (lambda to: to.emit(("far",), message_id="m"), "Odd.choose() returned task 99: the bolt has 5"),
        (lambda to: to.emit((), message_id="m"), "0 values for 1 fields: pass one value for each field"),
        (lambda to: to.emit("a", message_id="m"), "values must be a tuple or a list, not str: write ('a',)"),
    ]
    bench, task, spout = opened()
    for emit, message in refusals:
        with pytest.raises(EmitError, match=re.escape(message)):
            emit(spout.collector)
    assert (bench.sink.tuples, task.stats.emitted, task.stats.pending) == ([], 0, 0)


class Users(Manual):
    streams = (declare({"user": str}, codec="json"), declare(["raw"], name="raw", codec="bytes"))


@pytest.mark.parametrize(
    ("bolt_class", "values", "stream", "message"),
    [
        (Manual, ("a", "b"), "default", "cannot emit to stream 'default' (word): 2 values for 1 fields"),
        (Manual, (5,), "default", "(5,) does not fit codec arrow (TypeError: field 'word' takes string, not int"),
        (Manual, ("text",), "raw", "does not fit codec bytes"),
        (Manual, "a", "default", "values must be a tuple or a list, not str: write ('a',)"),
        (Manual, {"word": "a"}, "default", "not dict: write (values['word'],), the values in the order of the fields"),
        (Manual, ("a",), "other", "cannot emit to stream 'other': it declares default, raw; add the stream"),
        # JSON escapes what UTF-8 cannot encode, and a key is UTF-8.
        (Users, ("\ud800",), "default", "cannot be grouped by (UnicodeEncodeError"),
    ],
)
def test_invalid_emits_of_a_bolt_raise_before_a_send(
    bolt_class: type[Manual], values: Any, stream: str, message: str
) -> None:
    bench, task, bolt = rig(bolt_class, grouped_by=bolt_class.streams[0].field_names[0], counts=2)
    feed(bench, task, "a", {7: 9})
    for anchors in (bolt.tuples[0], ()):
        with pytest.raises(EmitError, match=re.escape(message)) as refused:
            bolt.collector.emit(values, anchors=anchors, stream=stream)
        assert (refused.value.component, refused.value.stream) == ("split", stream)
    assert (bench.sink.tuples, task.stats.emitted) == ([], 0)
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    assert bench.sink.checksums() == {7: 9}
