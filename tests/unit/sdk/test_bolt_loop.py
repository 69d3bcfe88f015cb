"""A bolt's loop on a consumer whose answers the test chooses: reads, commits, and revoked partitions."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_clients.repeated_lines import EACH
from spout_sdk import BatchBolt, Bolt, OutputCollector, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.delivery.delivery_guarantees import LARGEST_BATCH
from spout_sdk.emitting.task import LINGER_SECONDS
from spout_sdk.errors import BrokerError, ComponentError, RolledBackError
from spout_sdk.kafka.kafka_reader import KafkaReader
from spout_sdk.records import Headers
from spout_sdk.runtime.bolt_loop import BoltLoop
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.testing import MemoryRecord
from tests.packs import anchor_headers, under_seed
from tests.unit.sdk.bolt_rig import Lines, Sink
from tests.unit.sdk.memory import Bench, MemorySink, Sent
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec


class Message(MemoryRecord):
    def error(self) -> None:
        """None: it is a record."""


class Consumer:
    """Has partition 0 from its first read on, with `there` records a read unless it is paused."""

    def __init__(self, there: Sequence[int] = (), errors: Sequence[int] = (), rows: int = 1) -> None:
        self.there = [*there]
        self.payload = encode_tuples(payload_codec(Lines.streams[0]), [("a",)] * rows)
        self.clock: Callable[[], float] = lambda: 0.0
        self.wait: Callable[[float], object] = lambda _: None
        self.sent: Callable[[], int] = lambda: 0
        self.waits: list[tuple[float, int]] = []
        self.read_at: list[float] = []
        self.headers: Headers = [("source", b"lines/default")]
        self.errors = [*errors]
        self.position = self.refused = 0
        self.limits: list[int] = []
        self.commits: list[int] = []
        self.member: str | None = "member-1"
        self.assigned: list[int] = []
        self.is_paused = False
        self.paused: list[int] = []
        self.resumed: list[int] = []

    def __call__(self, settings: dict[str, Any]) -> "Consumer":
        self.settings = settings
        return self

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.partitions = [TopicPartition(topics[0], 0)]
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def memberid(self) -> str | None:
        return self.member

    def consumer_group_metadata(self) -> str | None:
        return self.member

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 0, 17

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [partition.offset for partition in partitions]
        if self.limits:
            self.position = self.assigned[0] if self.assigned[0] >= 0 else [0, *self.commits][-1]

    def consume(self, limit: int, _timeout: float) -> list[Message]:
        if not self.limits:
            self.on_assign(self, self.partitions)
        self.limits.append(limit)
        self.read_at.append(self.clock())
        first = self.position
        if self.there and not self.is_paused:
            read = min(limit, self.there[0])
            self.position += read
            self.there[0] -= read
            if not self.there[0]:
                del self.there[0]
        return [
            Message("words.tuples.b", 0, offset, self.payload, self.headers) for offset in range(first, self.position)
        ]

    def incremental_unassign(self, _partitions: list[TopicPartition]) -> None: ...

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.is_paused |= bool(partitions)
        self.paused += [each.partition for each in partitions]

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.is_paused &= not partitions
        self.resumed += [each.partition for each in partitions]

    def poll(self, seconds: float) -> None:
        """Waits, unless a record is there."""
        self.waits.append((seconds, self.sent()))
        if not self.there[:1] or not self.there[0]:
            self.wait(seconds)

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.refused:
            self.refused -= 1
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
        self.commits += [each.offset for each in offsets]

    def close(self) -> None:
        self.on_revoke(self, self.partitions)


class Regrouping(Consumer):
    """Revokes its partition while a read is executed, and assigns it a read later, from the committed offset."""

    calls = 0

    def consume(self, limit: int, timeout: float) -> list[Message]:
        self.calls += 1
        if self.calls == 3:
            self.on_revoke(self, self.partitions)
            committed = self.commits[-1] if self.commits else 0
            self.there.insert(0, self.position - committed)
            self.position = committed
            return []
        if self.calls == 4:
            self.on_assign(self, self.partitions)
            return []
        return super().consume(limit, timeout)


class Unanswered(Consumer):
    """Its third commit is applied, though the answer is an error."""

    asked = 0

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        super().commit(offsets=offsets, asynchronous=asynchronous)
        self.asked += 1
        if self.asked == 3:
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))


class TakenAway(Consumer):
    """Loses its partition in the third read, and is fenced in the fourth."""

    def consume(self, limit: int, timeout: float) -> list[Message]:
        if len(self.limits) == 2:
            self.limits.append(limit)
            self.on_lost(self, self.partitions)
            return []
        if len(self.limits) == 3:
            raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))
        return super().consume(limit, timeout)


class LoopSink(MemorySink):
    records_in_flight = flushes = 0

    def poll(self) -> None:
        """All is delivered already."""

    def in_flight(self) -> int:
        return self.records_in_flight

    def flush(self, _seconds: float) -> int:
        self.flushes += 1
        return 0

    def flush_acks(self, _seconds: float) -> int:
        return 0


def rows(sent: Sent) -> int:
    return len(decode_tuples(payload_codec(Emits.streams[0]), sent.value or b""))


Work = Callable[[Tuple, OutputCollector], None]


class Works(Bolt):
    def __init__(self, work: Work) -> None:
        self.work = work

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        self.work(tuple_, self.collector)


class Emits(Works):
    """Emits before it works, but for its first input."""

    streams = (declare({"n": int}),)

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.offset:
            self.collector.emit((tuple_.offset,), anchors=tuple_)
        super().execute(tuple_)


class WorksInBatches(BatchBolt):
    def __init__(self, work: Work) -> None:
        self.work = work

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        for tuple_ in tuples:
            self.work(tuple_, self.collector)


class Rig:
    """A loop that ends when `stopping` returns true, or when its consumer has no more records."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        there: list[int],
        *,
        bolt: Any = Works,
        guarantee: Guarantee = "at_most_once",
        open_offsets: Sequence[int] = (),
        rows: int = 1,
        consumer: type[Consumer] = Consumer,
        tracked: bool = False,
    ) -> None:
        self.consumer = consumer([*there, 0], rows=rows)
        if tracked:
            self.consumer.headers += anchor_headers(under_seed(range(1, rows + 1)))
        monkeypatch.setattr("kafka_clients.group_consumer.Consumer", self.consumer)
        builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=1)
        builder.set_spout("lines", Lines)
        builder.set_bolt("b", partial(bolt, self.work), on_exception="crash").shuffle_grouping("lines")
        if bolt is Emits:
            builder.set_bolt("next", Sink, tasks=2).shuffle_grouping("b")
        bench = Bench(builder.build(), sink=LoopSink(), pack_tuples=100 if bolt is Emits else 1)
        self.clock = self.consumer.clock = bench.clock
        self.consumer.wait = bench.clock.advance
        self.executed: list[int] = []
        self.committed_at: list[int] = []
        self.seconds: Callable[[int], float] = lambda _: 0.0
        self.stopping: Callable[[], bool] = lambda: False
        self.open_offsets = open_offsets
        self.sink = sink = cast(Any, bench.sink)
        self.consumer.sent = lambda: len(sink.batches)
        self.loop = BoltLoop(
            ComponentProcess(
                *(bench.topology, "b", {}, bench.clock, bench.environment.entropy, bench.counters, lambda _: None),
                self._is_over,
            ),
            sink,
        )

    def run(self) -> None:
        self.loop.run(self._is_over)

    def _is_over(self) -> bool:
        return self.stopping() or not self.consumer.there

    def work(self, tuple_: Tuple, collector: OutputCollector) -> None:
        self.executed.append(tuple_.offset)
        self.committed_at.append(max(self.consumer.commits, default=0))
        self.clock.advance(self.seconds(tuple_.offset))
        if tuple_.offset not in self.open_offsets:
            collector.ack(tuple_)


@pytest.mark.parametrize("bolt", [Works, WorksInBatches])
def test_a_slow_bolt_polls_its_group_in_the_middle_of_a_record(monkeypatch: pytest.MonkeyPatch, bolt: Any) -> None:
    """Otherwise 500 tuples of 0.6 s each would exceed max.poll.interval.ms."""
    rig = Rig(monkeypatch, [1, 1] + [0] * 1_000, bolt=bolt, rows=500)
    rig.seconds = lambda _: 0.6
    rig.stopping = lambda: len(rig.executed) == 1_000
    rig.run()
    assert rig.executed == [0] * 500 + [1] * 500
    assert max(later - earlier for earlier, later in pairwise(rig.consumer.read_at)) < 3


@pytest.mark.parametrize("bolt", [Works, WorksInBatches])
def test_a_slow_bolt_pauses_reading_once_for_each_read(monkeypatch: pytest.MonkeyPatch, bolt: Any) -> None:
    """Each time, the client drops the records that it has fetched ahead."""
    rig = Rig(monkeypatch, [1, 1, 1] + [0] * 100, bolt=bolt, rows=50)
    rig.seconds = lambda _: 0.6
    rig.run()
    assert rig.executed == [0] * 50 + [1] * 50 + [2] * 50
    assert len(rig.consumer.limits) > 80
    assert rig.consumer.paused == [0] * 3
    assert rig.consumer.resumed == [0] * 4, "the first is that of the assignment"


def test_a_slow_bolt_reads_no_more_than_it_executes_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, [10_000], guarantee="at_least_once")
    rig.seconds = lambda _: 0.02
    rig.stopping = lambda: len(rig.executed) >= 2_000
    rig.run()
    assert max(rig.consumer.limits) <= 50
    assert min(rig.consumer.limits[10:]) >= 20
    assert not rig.consumer.paused


class WorksInBulk(WorksInBatches):
    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        super().execute_batch(tuples[:1])
        self.collector.ack_all(tuples[1:])


def test_a_bulk_insert_gets_full_batches_however_slow_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, [6_000], guarantee="at_least_once", bolt=WorksInBulk)
    rig.seconds = lambda _: 2.0
    rig.run()
    assert max(later - earlier for earlier, later in pairwise(rig.executed)) == LARGEST_BATCH
    assert len(rig.executed) < 25


class Joining(Consumer):
    """Assigns another partition while reading is paused."""

    calls = 0

    def consume(self, limit: int, timeout: float) -> list[Message]:
        self.calls += 1
        if self.calls == 3:
            self.limits.append(limit)
            self.on_assign(self, [TopicPartition(self.partitions[0].topic, 1)])
            return []
        return super().consume(limit, timeout)


def test_a_partition_that_is_assigned_while_reading_is_paused_is_paused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, [1] + [0] * 30, rows=10, consumer=Joining)
    rig.seconds = lambda _: 0.6
    rig.run()
    assert rig.consumer.paused == [0, 1]
    assert sorted(rig.consumer.resumed) == [0, 0, 1, 1], "when they are assigned, and when all is executed"


@pytest.mark.parametrize(("rows", "in_flight"), [(10, 0), (10, 1), (40, 0)])
def test_an_idle_task_flushes_at_once_unless_it_is_busy_or_records_are_in_flight(
    monkeypatch: pytest.MonkeyPatch, rows: int, in_flight: int
) -> None:
    rig = Rig(monkeypatch, [1, 0, 1] + [0] * 10, guarantee="at_least_once", rows=rows, tracked=True)
    rig.sink.records_in_flight = in_flight
    rig.run()
    # The second record comes right after the first flush.
    assert rig.consumer.waits[0][1] == 1
    waited = sum(seconds for seconds, sent in rig.consumer.waits[1:] if sent == 1)
    assert waited == pytest.approx(0.0 if rows == 10 and not in_flight else LINGER_SECONDS)
    assert rig.consumer.waits[-1][1] == 2


def _always(seconds: float, _offset: int) -> float:
    return seconds


def _has_come(rig: Rig, at: float) -> bool:
    return rig.clock() >= at


@pytest.mark.parametrize("bolt", [Works, WorksInBatches])
@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_task_that_is_revoked_during_a_read_continues_at_the_committed_offset(
    monkeypatch: pytest.MonkeyPatch, bolt: Any, guarantee: Guarantee
) -> None:
    rig = Rig(monkeypatch, [1, 2] + [0] * 20, bolt=bolt, guarantee=guarantee, rows=40, consumer=Regrouping)
    rig.seconds = lambda offset: 0.1 if offset == 1 else 0.0
    rig.run()
    counts = Counter(rig.executed)
    assert counts[0] == counts[2] == 40
    if guarantee == "at_least_once":
        assert 40 < counts[1] < 80, "the record that was begun is executed again"
    else:
        assert counts[1] == 40, "it is committed, so the record that was begun is executed before the task is revoked"
    assert rig.consumer.commits[-1] == 3
    assert set(rig.consumer.paused) <= set(rig.consumer.resumed)


@pytest.mark.parametrize("bolt", [Works, WorksInBatches])
def test_a_revoked_task_executes_what_is_committed_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bolt: Any
) -> None:
    rig = Rig(monkeypatch, [1, 2] + [0] * 20, bolt=bolt, rows=400, consumer=Regrouping)
    rig.seconds = lambda offset: 1.0 if offset == 1 else 0.0
    rig.run()
    counts = Counter(rig.executed)
    assert counts[0] == counts[2] == 400
    assert 5 < counts[1] < 400
    assert f"b: up to {400 - counts[1]} tuples of records that were begun, and 0 records" in caplog.text
    assert any(hasattr(record, *EACH) for record in caplog.records)


def test_records_whose_offsets_cannot_be_set_back_are_reported_as_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(monkeypatch, [1, 2] + [0] * 20, rows=20)

    def stop() -> bool:
        rig.consumer.refused = len(rig.executed) == 40
        return len(rig.executed) == 40

    rig.stopping = stop
    rig.run()
    assert "b: up to 1 records of tasks [0] are lost" in caplog.text
    assert hasattr(caplog.records[-1], *EACH)


def test_a_commit_that_is_applied_though_it_has_failed_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `at_most_once` to begin again at the committed offset would skip them."""
    rig = Rig(monkeypatch, [2] * 9, consumer=Unanswered)
    rig.run()
    assert rig.executed == list(range(len(rig.executed)))
    assert len(rig.executed) > 10


def test_a_bolt_that_ends_by_an_error_sets_back_what_is_not_executed_and_sends_what_is_emitted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def work(offset: int) -> float:
        if offset == 5:
            raise ValueError("a bad day")
        return 0.0

    rig = Rig(monkeypatch, [3, 5], bolt=Emits)
    rig.seconds = work
    with pytest.raises(ComponentError, match="a bad day"):
        rig.run()
    assert rig.executed == [0, 1, 2, 3, 4, 5]
    assert rig.consumer.commits[-2:] == [7, 6]
    assert rig.sink.flushes
    assert sum(rows(sent) for sent in rig.sink.to(".tuples.next")) == 5
    assert "are lost" not in caplog.text


def test_committed_tuples_that_a_batch_bolt_does_not_execute_before_it_must_stop_are_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(monkeypatch, [1, 1], bolt=WorksInBatches, rows=3_000)
    rig.seconds = lambda offset: 0.01 if offset else 0.0
    rig.stopping = partial(_has_come, rig, rig.clock() + 1)
    rig.run()
    left = 6_000 - len(rig.executed)
    assert 0 < left < 3_000
    assert f"b: up to {left} tuples of records that were begun, and 0 records" in caplog.text


def test_committed_tuples_of_a_batch_that_ends_the_process_are_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def work(offset: int) -> float:
        if offset == 1 and len(rig.executed) == 600:
            raise ValueError("a bad day")
        return 0.0

    rig = Rig(monkeypatch, [1, 2], bolt=WorksInBatches, rows=300)
    rig.seconds = work
    with pytest.raises(ComponentError, match="a bad day"):
        rig.run()
    left = re.search(r"b: up to (\d+) tuples of records that were begun, and 0 records", caplog.text)
    assert left is not None
    assert 900 - len(rig.executed) <= int(left[1]) <= 600


def test_the_error_that_ends_a_process_is_reported_whatever_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, [7], bolt=Emits)

    def raises(error: Exception, *_: Any) -> float:
        raise error

    for method in ("send", "flush"):
        monkeypatch.setattr(rig.sink, method, partial(raises, BrokerError("another")))
    rig.seconds = lambda offset: raises(ValueError("the first")) if offset == 3 else 0.0
    with pytest.raises(ComponentError, match="the first"):
        rig.run()
    assert rig.consumer.commits == [1, 3, 7, 4], "the others are read again"


def test_what_a_lost_task_has_committed_and_not_executed_is_reported_and_what_it_has_emitted_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(monkeypatch, [1, 4] + [0] * 9, bolt=Emits, consumer=TakenAway)
    # The group is polled between two tuples.
    rig.seconds = lambda offset: 1.1 if offset == 1 else 0.0
    with pytest.raises(BrokerError, match="cannot continue"):
        rig.run()
    assert rig.executed == [0, 1]
    assert "b: up to 0 tuples of records that were begun, and 1 records from offsets {0: 2} on" in caplog.text
    assert sum(rows(sent) for sent in rig.sink.to(".tuples.next")) == 1


def test_a_stop_waits_for_the_rest_of_a_record_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, executed in ((0.01, 300), (0.1, 60)):
        rig = Rig(monkeypatch, [2], guarantee="at_least_once", rows=300)
        rig.seconds = partial(_always, seconds)
        rig.stopping = partial(_has_come, rig, rig.clock() + 1)
        rig.run()
        assert len(rig.executed) == pytest.approx(executed, abs=2)
        assert rig.consumer.commits[-1:] == ([1] if executed == 300 else [0])


@pytest.mark.parametrize("bolt", [Works, WorksInBatches])
def test_a_loop_commits_while_no_record_can_be_read(monkeypatch: pytest.MonkeyPatch, bolt: Any) -> None:
    rig = Rig(monkeypatch, [5_000], guarantee="at_least_once", bolt=bolt)
    rig.consumer.payload = b"unreadable"
    committed: list[int] = []

    def stopping() -> bool:
        rig.clock.advance(0.3)
        committed.append(max(rig.consumer.commits, default=0))
        return False

    rig.stopping = stopping
    rig.run()
    assert len(rig.sink.to(".dead-letters")) == 5_000
    assert 0 < committed[-2] < rig.consumer.commits[-1] == 5_000


def test_at_most_once_commits_before_it_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, [3, 500, 1, 7])
    rig.run()
    assert rig.executed == list(range(511))
    assert all(committed > offset for committed, offset in zip(rig.committed_at, rig.executed, strict=True))
    assert rig.consumer.commits[-1] == 511


@pytest.mark.parametrize("refused", [4, 5])
def test_at_most_once_executes_only_committed_inputs_and_ends_after_five_failed_commits(
    monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    rig = Rig(monkeypatch, [1] * 9)
    rig.consumer.refused = refused
    if refused == 5:
        with pytest.raises(BrokerError, match="b could not commit 5 times in a row: the offsets of tasks"):
            rig.run()
        assert not rig.executed
    else:
        rig.run()
        assert rig.executed == [0, 1, 2, 3, 4]


def test_at_least_once_commits_up_to_the_first_input_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, [100] * 10, guarantee="at_least_once", open_offsets=[700])
    rig.seconds = lambda _: 0.005
    rig.run()
    assert rig.executed == list(range(1_000))
    assert max(rig.committed_at) > 200
    assert all(committed <= offset for committed, offset in zip(rig.committed_at, rig.executed, strict=True))
    assert rig.consumer.commits[-1] == 700


def test_reading_is_paused_while_too_many_inputs_wait_behind_an_open_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spout_sdk.bolts.bolt_task._MOST_UNCOMMITTED", 50)
    rig = Rig(monkeypatch, [1_000], guarantee="at_least_once", open_offsets=[0])
    rig.seconds = lambda _: 0.005
    rig.stopping = lambda: bool(rig.consumer.paused)
    rig.run()
    assert rig.consumer.paused == [0]
    assert 50 <= len(rig.executed) < 1_000
    assert "reading is paused" in caplog.text


@pytest.mark.parametrize("bolt", [Works, WorksInBatches])
def test_a_stop_leaves_unexecuted_inputs_uncommitted(monkeypatch: pytest.MonkeyPatch, bolt: Any) -> None:
    rig = Rig(monkeypatch, [7_500], bolt=bolt)
    rig.seconds = lambda offset: 0.01 if offset >= 3_500 else 0.0
    ends_at = rig.clock() + 3
    rig.stopping = lambda: rig.clock() >= ends_at
    rig.run()
    assert rig.executed == list(range(len(rig.executed)))
    assert 3_500 < len(rig.executed) < 3_500 + 2 * LARGEST_BATCH
    assert rig.consumer.commits[-2] > len(rig.executed) == rig.consumer.commits[-1]


def reader(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, taken: list[int]) -> KafkaReader:
    monkeypatch.setattr("kafka_clients.group_consumer.Consumer", consumer)

    def ignore(_partitions: Sequence[int]) -> None: ...

    return KafkaReader({}, "topic", "group", from_end=True, on_assigned=taken.extend, on_revoked=ignore, on_lost=ignore)


def test_a_process_that_is_no_member_of_its_group_has_no_place_for_a_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka checks neither where both the member and the generation are missing."""
    reading = reader(monkeypatch, consumer := Consumer(), [])
    assert reading.place_in_group == "member-1"
    consumer.member = None
    with pytest.raises(RolledBackError, match="no longer a member of group group"):
        _ = reading.place_in_group


def test_an_error_while_partitions_are_assigned_is_raised_by_read(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    with pytest.raises(BrokerError, match="topic topic may not be read by this user"):
        reader(monkeypatch, Consumer(errors=[KafkaError.TOPIC_AUTHORIZATION_FAILED]), taken).read(1)
    assert not taken


def test_an_error_that_ends_the_process_is_raised_although_another_callback_has_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a task that could not begin would be missing until the next rebalance."""
    ends, rolls_back = BrokerError("no session"), RolledBackError("a revoke")
    for order in ([ends, rolls_back], [rolls_back, ends]):
        reading = reader(monkeypatch, Consumer(), [])

        def fail(error: Exception) -> Callable[[list[Any]], None]:
            def callback(_partitions: list[Any]) -> None:
                raise error

            return callback

        for error in order:
            reading.member._guarded(fail(error))(None, [])  # type: ignore[arg-type]
        with pytest.raises(BrokerError, match="no session"):
            reading.read(1)


def test_a_slow_bolt_has_eight_megabytes_of_a_partition_to_fetch_again_unless_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Consumer()
    monkeypatch.setattr("kafka_clients.group_consumer.Consumer", consumer)
    ignore: Any = list[int]().extend
    for settings, expected in (({}, 8_192), ({"queued.max.messages.kbytes": 100}, 100)):
        KafkaReader(
            *(settings, "topic", "group"), from_end=False, on_assigned=ignore, on_revoked=ignore, on_lost=ignore
        )
        assert consumer.settings["queued.max.messages.kbytes"] == expected


def test_read_raises_when_the_client_has_lost_all_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer()
    reading = reader(monkeypatch, consumer, [])
    assert reading.read(1) == []
    for _ in range(2):
        consumer.settings["stats_cb"]('{"brokers": {}}')
    with pytest.raises(BrokerError, match="reading topic cannot continue: its client has lost all brokers"):
        reading.read(1)
