"""A spout's task, driven call by call without Kafka."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from spout_sdk import (
    Bolt,
    ComponentError,
    EmitError,
    FailReason,
    Failure,
    Spout,
    SpoutCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.spout_task import SpoutTask
from spout_sdk.testing import MemoryRecord
from tests.notices import notice_bytes
from tests.unit.sdk.memory import Bench, Sent, made
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.manifest import Guarantee
from tuple_tree.messages import SpoutTask as Owner


class Scripted(Spout):
    """Emits what stands in `todo`: values, and a message id or None."""

    streams = (declare({"word": str}), declare({"n": int}, name="lonely"))

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.todo: deque[tuple[tuple[Any, ...], Any]] = deque()
        self.calls = 0
        self.acked: list[Any] = []
        self.failed: list[tuple[Any, Failure]] = []
        self.closed = False

    def next_tuple(self) -> None:
        self.calls += 1
        if self.todo:
            values, message_id = self.todo.popleft()
            self.collector.emit(values, message_id, "lonely" if isinstance(values[0], int) else "default")

    def ack(self, message_id: Any) -> None:
        if message_id == "bad":
            raise KeyError(message_id)
        self.acked.append(message_id)

    def fail(self, message_id: Any, reason: Failure) -> None:
        if message_id == "bad":
            raise KeyError(message_id)
        self.failed.append((message_id, reason))

    def close(self) -> None:
        self.closed = True


class Sink(Bolt):
    def execute(self, tuple_: Tuple) -> None:
        """Is never run here."""


def rig(
    *, guarantee: Guarantee = "at_least_once", max_pending: int = 10, tasks: int = 2, spout: Any = Scripted
) -> tuple[Bench, SpoutTask, Any]:
    spouts: list[Any] = []
    builder = TopologyBuilder(
        "words", guarantee=guarantee, ack_partitions=3, message_timeout=2, max_tree_age=8, max_spout_pending=max_pending
    )
    builder.set_spout("lines", made(spouts, Scripted), tasks=2)
    builder.set_bolt("one", Sink, tasks=tasks).all_grouping("lines")
    builder.set_bolt("other", Sink).fields_grouping("lines", "word")
    bench = Bench(builder.build())
    return bench, bench.spout("lines", 1), spouts[-1]


def notice(acked: tuple[int, ...] = (), failed: dict[int, tuple[FailReason, str]] | None = None) -> MemoryRecord:
    return MemoryRecord("words.notices.lines", 1, 0, notice_bytes(acked, failed or {}))


def root_of(sent: Sent) -> int:
    (root,) = sent.edges
    return root


def emit(task: SpoutTask, spout: Any, *todo: tuple[tuple[Any, ...], Any]) -> None:
    spout.todo.extend(todo)
    assert task.emit(100)
    task.flush()


def test_a_tracked_tuple_has_one_root_an_edge_a_recipient_and_an_init_of_them_all() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "m1"), (("b",), "m2"))
    first = bench.sink.tuples[:3]
    assert [(sent.topic, sent.partition, sent.key) for sent in first] == [
        ("words.tuples.one", 0, None),
        ("words.tuples.one", 1, None),
        ("words.tuples.other", 0, b"a"),
    ]
    assert len({root_of(sent) for sent in first}) == 1
    assert len({root_of(sent) for sent in bench.sink.tuples}) == 2
    assert len({edge for sent in bench.sink.tuples for edge in sent.edges.values()}) == 6
    for sent in bench.sink.tuples:
        assert sent.header[SOURCE_HEADER] == b"lines/default"
    sums = bench.sink.checksums()
    for sent in bench.sink.tuples:
        sums[root_of(sent)] ^= sent.edges[root_of(sent)]
    assert set(sums.values()) == {0}
    for batch in bench.sink.batches:
        assert batch.spout == Owner("words.notices.lines", 1, 2_000)
        assert batch.writer == "lines/1"
    for sent in bench.sink.to(".acks")[3:]:
        (batch,) = [b for b in bench.sink.batches if b.init_roots.tolist() and b.init_roots[0] % 3 == sent.partition]
        assert {root % 3 for root in batch.init_roots.tolist()} == {sent.partition}
    assert task.pending == 2


def test_without_a_message_id_nothing_is_tracked() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), None))
    assert [sent.headers for sent in bench.sink.tuples] == [[(SOURCE_HEADER, b"lines/default")]] * 3
    assert (bench.sink.batches, task.pending) == ([], 0)


def test_a_tree_without_recipients_begins_with_zero() -> None:
    bench, task, spout = rig()
    emit(task, spout, ((5,), "m"))
    (batch,) = bench.sink.batches
    assert batch.init_vals.tolist() == [0]
    assert (bench.sink.tuples, task.pending) == ([], 1)


def test_each_message_gets_exactly_one_outcome() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "m1"), (("b",), "m2"), (("c",), "m3"))
    one, two, three = (root_of(bench.sink.tuples[index]) for index in (0, 3, 6))
    bench.clock.advance(0.25)
    task.handle(notice((one, 12345), {two: (FailReason.FAILED, "no room")}))
    task.handle(notice((one, two), {one: (FailReason.TIMEOUT, ""), three: (FailReason.TOO_OLD, "")}))
    assert spout.acked == ["m1"]
    assert spout.failed == [
        ("m2", Failure(FailReason.FAILED, "no room")),
        ("m3", Failure(FailReason.TOO_OLD)),
    ]
    assert (bench.counters.acked, bench.counters.failed) == (1, {"failed": 1, "too_old": 1})
    assert bench.counters.ignored_notices == 4
    assert bench.counters.complete_latency.quantile(0.5) == pytest.approx(0.25, rel=0.125)
    assert task.pending == 0


def test_next_tuple_is_not_called_while_too_much_is_pending() -> None:
    bench, task, spout = rig(max_pending=3)
    spout.todo.extend(((str(n),), n) for n in range(10))
    assert task.emit(100)
    assert (spout.calls, task.pending, task.is_throttled) == (3, 3, True)
    assert not task.emit(100)
    assert spout.calls == 3
    task.handle(notice((root_of(bench.sink.tuples[0]),)))
    assert task.emit(100)
    assert (spout.calls, task.pending) == (4, 3)


def test_untracked_tuples_are_not_held_back() -> None:
    _, task, spout = rig(max_pending=3)
    spout.todo.extend(((str(n),), None) for n in range(10))
    assert task.emit(100)
    assert (spout.todo, task.is_throttled) == (deque(), False)


def test_silence_ends_as_lost_and_a_late_outcome_is_ignored() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "m"))
    root = root_of(bench.sink.tuples[0])
    # The largest tree age is 8 s, the margin a message timeout of 2 s.
    for _ in range(2):
        task.tick(bench.clock.advance(4.95))
    assert spout.failed == []
    for _ in range(2):
        task.tick(bench.clock.advance(5.1))
    assert spout.failed == [("m", Failure(FailReason.LOST))]
    assert bench.counters.failed == {"lost": 1}
    task.handle(notice((root,)))
    assert (spout.acked, bench.counters.ignored_notices) == ([], 1)


def test_a_root_that_is_pending_is_not_drawn_again() -> None:
    bench, task, spout = rig(tasks=1)
    draws = iter([7, 100, 101, 7, 7, 8, 102, 103])
    task._collector._next_id = draws.__next__
    emit(task, spout, (("a",), "m1"), (("b",), "m2"))
    assert [root_of(sent) for sent in bench.sink.tuples] == [7, 7, 8, 8]
    assert task.pending == 2


def test_with_acking_off_ack_is_called_as_soon_as_next_tuple_returns() -> None:
    bench, task, spout = rig(guarantee="at_most_once")
    spout.todo.extend([(("a",), "m1"), (("b",), None), (("c",), "m2")])
    assert task.emit(100)
    task.flush()
    task.tick(bench.clock.advance(100))
    assert (spout.acked, spout.failed, task.pending) == (["m1", "m2"], [], 0)
    assert bench.counters.acked == 2
    assert bench.sink.reported == []
    assert all(sent.headers == [(SOURCE_HEADER, b"lines/default")] for sent in bench.sink.tuples)


def test_a_tuple_that_kafka_does_not_take_fails_its_tree() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "m"))
    bench.sink.tuples[1].deliver("message timed out")
    task.flush()
    root = root_of(bench.sink.tuples[1])
    assert bench.sink.failed() == {root: "a tuple of lines was not delivered: message timed out"}
    assert spout.failed == []  # the acker says so


def test_what_does_not_fit_the_stream_is_not_pending() -> None:
    bench, task, spout = rig()
    with pytest.raises(EmitError, match="'lines' cannot emit to stream 'default'"):
        spout.collector.emit((5,), "m")
    assert (task.pending, bench.sink.tuples, bench.counters.emitted) == (0, [], 0)


def test_an_unreadable_notice_is_a_dead_letter() -> None:
    bench, task, spout = rig()
    task.handle(MemoryRecord("words.notices.lines", 1, 4, b"garbage"))
    (letter,) = bench.sink.to(".dead-letters")
    assert (letter.value, letter.header["dead-letter.reason"]) == (b"garbage", b"not-avro")
    assert (bench.counters.dead_letters, spout.acked) == (1, [])
    task.tick(1.0)


@pytest.mark.parametrize("method", ["ack", "fail", "next_tuple"])
def test_a_spout_that_raises_stops_its_process(method: str) -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "bad"))
    root = root_of(bench.sink.tuples[0])
    spout.todo.append((([],), "m"))
    attempts: dict[str, Callable[[], object]] = {
        "ack": lambda: task.handle(notice((root,))),
        "fail": lambda: task.handle(notice((), {root: (FailReason.TIMEOUT, "")})),
        "next_tuple": lambda: task.emit(1),
    }
    with pytest.raises(ComponentError, match=rf"lines/1 stopped: {method}\(\) raised"):
        attempts[method]()


def test_a_spout_is_closed() -> None:
    _, task, spout = rig()
    task.close()
    assert spout.closed
