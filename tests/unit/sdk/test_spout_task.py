"""A spout's task, driven call by call without Kafka; the contract in memory shows the plain cases."""

from collections import deque
from typing import Any

import pytest

from spout_sdk import FailReason, Failure, Spout, SpoutCollector, TaskContext, TopologyBuilder, declare
from spout_sdk.errors import ComponentError, UnsupportedVersionError
from spout_sdk.testing import MemoryRecord, SimulatedCluster
from tests.components import Sink, source
from tests.notices import notice_bytes
from tests.unit.sdk.bench import Bench, BenchTask
from tests.unit.sdk.sent_records import Sent


class Scripted(Spout):
    """Emits the entries of `todo`: values, and a message id or None."""

    streams = (declare({"word": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.todo: deque[tuple[tuple[Any, ...], Any]] = deque()
        self.outcomes: list[tuple[Any, Failure | None]] = []
        self.closed = False

    def next_tuple(self) -> None:
        if self.todo:
            values, message_id = self.todo.popleft()
            self.collector.emit(values, message_id=message_id)

    def ack(self, message_id: Any) -> None:
        if message_id == "bad":
            raise KeyError(message_id)
        self.outcomes.append((message_id, None))

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.ack(message_id)
        self.outcomes[-1] = (message_id, failure)

    def close(self) -> None:
        self.closed = True


def rig(*, max_pending: int = 10, pack_tuples: int = 1) -> tuple[Bench, BenchTask, Any]:
    builder = TopologyBuilder(
        "words", ack_partitions=3, message_timeout=2, max_tree_age=8, max_spout_pending=max_pending
    )
    builder.set_spout("lines", Scripted, tasks=2)
    builder.set_bolt("one", Sink, tasks=2).all_grouping("lines")
    builder.set_bolt("other", Sink).fields_grouping("lines", "word")
    bench = Bench(builder.build(), pack_tuples=pack_tuples)
    task = bench.spout("lines", 1)
    return bench, task, bench.cluster.spout("lines", 1)


def notice(acked: tuple[int, ...] = (), failed: dict[int, tuple[FailReason, str]] | None = None) -> MemoryRecord:
    return MemoryRecord("words.notices.lines", 1, 0, notice_bytes(acked, failed or {}))


def root_of(sent: Sent) -> int:
    (root,) = sent.edges
    return root


def emit(task: BenchTask, spout: Any, *todo: tuple[tuple[Any, ...], Any]) -> None:
    spout.todo.extend(todo)
    task.flush()


def test_each_message_has_exactly_one_outcome() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "m1"), (("b",), "m2"), (("c",), "m3"))
    one, two, three = (root_of(bench.sink.tuples[index]) for index in (0, 3, 6))
    bench.clock.advance(0.25)
    task.handle(notice((one, 12345), {two: (FailReason.FAILED, "no room")}))
    task.handle(notice((one, two), {one: (FailReason.TIMEOUT, ""), three: (FailReason.TOO_OLD, "")}))
    failed = Failure(FailReason.FAILED, "no room")
    assert spout.outcomes == [("m1", None), ("m2", failed), ("m3", Failure(FailReason.TOO_OLD))]
    assert (task.stats.acked, task.stats.failed) == (1, {"failed": 1, "too_old": 1})
    assert (task.stats.ignored_notices, task.stats.pending) == (4, 0)
    assert task.stats.complete_latency.quantile(0.5) == pytest.approx(0.25, rel=0.125)


def test_only_tracked_tuples_are_limited_and_the_time_at_the_limit_is_counted() -> None:
    bench, task, spout = rig(max_pending=3)
    spout.todo.extend(((str(n),), None if n < 10 else n) for n in range(20))
    task.flush()
    assert (len(spout.todo), task.stats.pending) == (7, 3)
    for _ in range(5):
        bench.clock.advance(1.0)
        task.flush()
    assert task.stats.throttled_seconds == pytest.approx(5.0)
    task.handle(notice((root_of(bench.sink.tuples[-1]),)))
    assert (len(spout.todo), task.stats.pending) == (6, 3)


def test_a_message_without_an_outcome_is_lost_and_a_late_outcome_ignored() -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "m"))
    # The largest tree age is 8 s, the margin a message timeout of 2 s.
    for _ in range(2):
        bench.clock.advance(4.95)
        task.flush()
    assert spout.outcomes == []
    for _ in range(2):
        bench.clock.advance(5.1)
        task.flush()
    assert (spout.outcomes, task.stats.failed) == ([("m", Failure(FailReason.LOST))], {"lost": 1})
    task.handle(notice((root_of(bench.sink.tuples[0]),)))
    assert (len(spout.outcomes), task.stats.ignored_notices) == (1, 1)


def test_an_unreadable_notice_is_a_dead_letter() -> None:
    bench, task, spout = rig()
    task.handle(MemoryRecord("words.notices.lines", 1, 4, b"garbage"))
    (letter,) = bench.sink.to(".dead-letters")
    assert (letter.value, letter.header["dead-letter.reason"]) == (b"garbage", b"not-avro")
    with pytest.raises(UnsupportedVersionError, match=r"lines\[1\] offset 1 cannot be read: .* upgrade the reader"):
        task.handle(MemoryRecord("words.notices.lines", 1, 5, b"\xc3\x01another-" + bytes(50)))
    assert (task.stats.dead_letters, spout.outcomes) == (1, [])


@pytest.mark.parametrize("method", ["ack", "fail", "next_tuple"])
def test_a_spout_that_raises_stops_its_process(method: str) -> None:
    bench, task, spout = rig()
    emit(task, spout, (("a",), "bad"))
    root = root_of(bench.sink.tuples[0])
    spout.todo.extend([(([],), "m")] if method == "next_tuple" else [])
    record = notice((root,)) if method == "ack" else notice((), {root: (FailReason.TIMEOUT, "")})
    with pytest.raises(ComponentError, match=rf"lines/1 stopped: {method}\(\) raised"):
        task.flush() if method == "next_tuple" else task.handle(record)


@pytest.mark.parametrize("grouping", ["shuffle", "all"])
def test_no_tuple_is_sent_before_the_init_of_its_tree_if_a_bolt_acks_ahead(grouping: str) -> None:
    """Otherwise the first entry of such a bolt could expire, and its last entry complete the tree."""
    builder = TopologyBuilder("words", ack_partitions=2, max_spout_pending=20_000)
    builder.set_spout("lines", Scripted)
    spark = builder.set_bolt("spark", lambda rows: rows, external=True, tasks=3)
    spark.shuffle_grouping("lines") if grouping == "shuffle" else spark.all_grouping("lines")
    bench = Bench(builder.build(), pack_tuples=1_000)
    task = bench.spout("lines")
    # More than an ack batch and a pack hold, and a part that only lingers.
    bench.cluster.spout("lines").todo.extend(((str(number),), number) for number in range(5_010))
    task.flush()
    begun_at = {root: sent.delivered_at for sent in bench.sink.to(".acks") for root in sent.batch.init_roots.tolist()}
    assert len(begun_at) == 5_010
    for at, sent in enumerate(bench.sink.all):
        if ".tuples." in sent.topic:
            assert all((begun_at[root] or 10**9) <= at for root in sent.edges), "sent before its init is delivered"
    assert bench.sink.checksums() == bench.sink.edges(), "an init has the edges of all deliveries"
    assert sum(len(sent.edges) for sent in bench.sink.tuples) == (5_010 if grouping == "shuffle" else 15_030)


def test_an_emit_in_close_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    class Last(source(declare({"n": int}))):  # type: ignore[misc]
        def open(self, context: TaskContext, collector: SpoutCollector) -> None:
            self.collector = collector

        def close(self) -> None:
            self.collector.emit((1,), message_id="last")

    builder = TopologyBuilder("last")
    builder.set_spout("numbers", Last)
    builder.set_bolt("sink", Sink).shuffle_grouping("numbers")
    with SimulatedCluster(builder.build()) as cluster:
        cluster.run_until_idle()
    assert "numbers/0: close() raised" in caplog.text
    assert "the spout is closing, and what it emits is not sent any more" in caplog.text
    assert cluster.stats("numbers").emitted == 0
