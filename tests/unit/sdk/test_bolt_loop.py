"""A bolt's loop: reads, commits, pauses and stops."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition

from kafka_clients.client_settings import CLIENT_CLASSES
from spout_sdk import Tuple
from spout_sdk.bolts.call_sizes import MOST_TUPLES
from spout_sdk.emitting.task import CONGESTED_LINGER_SECONDS, LINGER_SECONDS
from spout_sdk.errors import BrokerError, RolledBackError
from spout_sdk.kafka.kafka_reader import KafkaReader
from tests.unit.sdk.loop_rig import Consumer, Rig, Scripted, Works, WorksInBatches
from tuple_tree.commit_metadata import Commit
from tuple_tree.done_sets import DoneSet

EITHER = pytest.mark.parametrize("bolt", [Works, WorksInBatches])


@EITHER
def test_a_slow_bolt_polls_its_group_in_the_middle_of_a_record_and_pauses_once_for_each_read(bolt: Any) -> None:
    """500 tuples of 0.6 s would exceed max.poll.interval.ms; a pause makes the client drop what it fetched ahead."""
    rig = Rig([1, 1, 1] + [0] * 1_000, bolt=bolt, rows=500)
    rig.seconds = lambda _: 0.6
    rig.stopping = lambda: len(rig.executed) == 1_500
    rig.run()
    assert rig.executed == [0] * 500 + [1] * 500 + [2] * 500
    assert max(later - earlier for earlier, later in pairwise(rig.consumer.read_at)) < 3
    assert rig.consumer.paused == [0] * 3
    assert rig.consumer.resumed[:3] == [0] * 3, "the first is that of the assignment"


def test_a_slow_bolt_reads_no_more_than_it_executes_soon() -> None:
    rig = Rig([10_000], guarantee="at_least_once")
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


def test_a_bulk_insert_gets_full_batches_however_slow_it_is() -> None:
    rig = Rig([6_000], guarantee="at_least_once", bolt=WorksInBulk)
    rig.seconds = lambda _: 2.0
    rig.run()
    assert max(later - earlier for earlier, later in pairwise(rig.executed)) == MOST_TUPLES
    assert len(rig.executed) < 25


class Joining(Scripted):
    """Assigns another partition while reading is paused."""

    script = {3: lambda consumer: consumer.on_assign(consumer, [TopicPartition("words.tuples.b", 1)])}


def test_a_partition_that_is_assigned_while_reading_is_paused_is_paused_too() -> None:
    rig = Rig([1] + [0] * 30, rows=10, consumer=Joining)
    rig.seconds = lambda _: 0.6
    rig.run()
    assert rig.consumer.paused == [0, 1]
    assert sorted(rig.consumer.resumed) == [0, 0, 1, 1], "when they are assigned, and when all is executed"


@pytest.mark.parametrize(
    ("rows", "in_flight", "linger"),
    [(10, 0, 0.0), (10, 1, LINGER_SECONDS), (40, 0, LINGER_SECONDS), (10, 5, CONGESTED_LINGER_SECONDS)],
)
def test_an_idle_task_flushes_at_once_unless_it_is_busy_or_records_are_in_flight(
    rows: int, in_flight: int, linger: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig([1, 0, 1] + [0] * 30, guarantee="at_least_once", rows=rows, tracked=True)
    monkeypatch.setattr(rig.loop._sink, "in_flight", lambda: in_flight)
    monkeypatch.setattr(rig.loop._sink, "is_congested", lambda: in_flight > 4)
    rig.run()
    # The second record comes right after the first flush.
    assert rig.consumer.waits[0][1] == 1
    waited = sum(seconds for seconds, sent in rig.consumer.waits[1:] if sent == 1)
    assert waited == pytest.approx(linger, abs=0.0015)
    assert rig.consumer.waits[-1][1] == 2


@pytest.mark.parametrize(("seconds", "executed", "committed"), [(0.01, 300, 1), (0.1, 60, 0)])
def test_a_stop_waits_for_the_rest_of_a_record_for_a_limited_time(
    seconds: float, executed: int, committed: int
) -> None:
    rig = Rig([2], guarantee="at_least_once", rows=300)
    rig.seconds = lambda _: seconds
    rig.stop_at(1)
    rig.run()
    assert len(rig.executed) == pytest.approx(executed, abs=2)
    assert rig.consumer.commits[-1] == committed


@EITHER
def test_a_loop_commits_while_no_record_can_be_read(bolt: Any) -> None:
    rig = Rig([600], guarantee="at_least_once", bolt=bolt)
    rig.consumer.payload = b"unreadable"
    committed: list[int] = []

    def stopping() -> bool:
        rig.clock.advance(0.3)
        committed.append(max(rig.consumer.commits, default=0))
        return False

    rig.stopping = stopping
    rig.run()
    assert len(rig.sink.to(".dead-letters")) == 600
    assert 0 < committed[-2] < rig.consumer.commits[-1] == 600


def test_at_least_once_commits_up_to_the_first_input_that_is_open() -> None:
    rig = Rig([100] * 10, guarantee="at_least_once", open_offsets=[700])
    rig.seconds = lambda _: 0.005
    rig.run()
    assert rig.executed == list(range(1_000))
    assert max(rig.committed_at) > 200
    assert all(committed <= offset for committed, offset in zip(rig.committed_at, rig.executed, strict=True))
    assert rig.consumer.commits[-1] == 700
    assert rig.consumer.kept[0].metadata == Commit.of(DoneSet(700, [(701, 1_000)])).metadata


def test_reading_is_paused_while_too_many_inputs_are_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spout_sdk.bolts.bolt_task._MOST_OPEN", 50)
    rig = Rig([1_000], guarantee="at_least_once", open_offsets=range(100))
    rig.seconds = lambda _: 0.005
    rig.stopping = lambda: bool(rig.consumer.paused)
    rig.run()
    assert rig.consumer.paused == [0]
    assert 50 <= len(rig.executed) < 1_000
    assert "reading is paused" in caplog.text


@EITHER
def test_a_stop_leaves_unexecuted_inputs_uncommitted(bolt: Any) -> None:
    rig = Rig([7_500], bolt=bolt)
    rig.seconds = lambda offset: 0.01 if offset >= 3_500 else 0.0
    rig.stop_at(3)
    rig.run()
    assert rig.executed == list(range(len(rig.executed)))
    assert 3_500 < len(rig.executed) < 3_500 + 2 * MOST_TUPLES
    assert rig.consumer.commits[-2] > len(rig.executed) == rig.consumer.commits[-1]


def reader(consumer: Consumer, **settings: Any) -> KafkaReader:
    settings[CLIENT_CLASSES] = {confluent_kafka.Consumer: consumer}
    callbacks: Any = dict.fromkeys(("on_assigned", "on_revoked", "on_lost"), list[int]().extend)
    return KafkaReader(settings, "topic", "group", from_end=True, **callbacks)


def test_a_process_that_is_no_member_of_its_group_has_no_place_for_a_transaction() -> None:
    """Kafka checks neither where both the member and the generation are missing."""
    reading = reader(consumer := Consumer())
    assert reading.place_in_group == "member-1"
    consumer.member = None
    with pytest.raises(RolledBackError, match="no longer a member of group group"):
        _ = reading.place_in_group


def test_read_raises_what_prevents_an_assignment_and_when_the_client_has_lost_all_brokers() -> None:
    with pytest.raises(BrokerError, match="topic topic may not be read by this user"):
        reader(Consumer(errors=[KafkaError.TOPIC_AUTHORIZATION_FAILED])).read(1)
    reading = reader(consumer := Consumer())
    assert reading.read(1) == []
    for _ in range(2):
        consumer.settings["stats_cb"]('{"brokers": {}}')
    with pytest.raises(BrokerError, match="reading topic cannot continue: its client has lost all brokers"):
        reading.read(1)


@pytest.mark.parametrize("is_first", [True, False])
def test_an_error_that_ends_the_process_is_raised_although_another_callback_has_rolled_back(is_first: bool) -> None:
    """Otherwise a task that could not begin would be missing until the next rebalance."""
    reading = reader(Consumer())

    def fail(error: Exception) -> Callable[[list[Any]], None]:
        def callback(_partitions: list[Any]) -> None:
            raise error

        return callback

    errors = [BrokerError("no session"), RolledBackError("a revoke")]
    for error in errors if is_first else reversed(errors):
        reading._guarded(fail(error))(None, [])  # type: ignore[arg-type]
    with pytest.raises(BrokerError, match="no session"):
        reading.read(1)


@pytest.mark.parametrize(("settings", "kbytes"), [({}, 8_192), ({"queued.max.messages.kbytes": 100}, 100)])
def test_a_slow_bolt_has_eight_megabytes_of_a_partition_to_fetch_again_unless_set(
    settings: dict[str, Any], kbytes: int
) -> None:
    reader(consumer := Consumer(), **settings)
    assert consumer.settings["queued.max.messages.kbytes"] == kbytes
