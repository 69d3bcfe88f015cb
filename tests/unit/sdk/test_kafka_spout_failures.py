"""A Kafka spout's task: what is delivered again, under which root, and given up; what limits it."""

import pytest

from spout_sdk import (
    DeliveryError,
    FailReason,
    RetryPolicy,
)
from spout_sdk.kafka_spout.source import Commit, SourcePartition
from tests.unit.sdk.kafka_spout_rig import LOST_SECONDS, Rig, filled

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0, max_retries=2)


# Failures


def test_a_failed_message_is_read_again_and_delivered_under_another_root() -> None:
    rig = Rig(filled(0, 1, 2), retry=AT_ONCE)
    rig.work()
    assert rig.positions() == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    rig.fail(1)
    rig.hear(0, 2)
    rig.work()
    assert rig.positions() == [(0, 1, 1)]
    assert rig.values(rig.bench.sink.tuples[-1]) == ("source/0@1",)
    assert dict(rig.bench.counters.users) == {"replayed": 1}
    rig.hear(1)
    rig.work(2)
    assert rig.topics.committed("source") == 3


@pytest.mark.parametrize("reason", [FailReason.TIMEOUT, FailReason.TOO_OLD])
def test_every_reason_leads_to_a_replay(reason: FailReason) -> None:
    rig = Rig(filled(0), retry=AT_ONCE)
    rig.work()
    rig.fail(0, reason=reason)
    rig.work()
    assert rig.positions() == [(0, 0, 0), (0, 0, 1)]


def test_without_any_outcome_it_is_lost_and_delivered_again() -> None:
    rig = Rig(filled(0), retry=AT_ONCE)
    rig.work()
    for _ in range(3):
        rig.work(LOST_SECONDS / 2)
    assert rig.positions() == [(0, 0, 0), (0, 0, 1)]
    assert rig.bench.counters.failed == {"lost": 1}


def test_a_retry_waits_for_its_delay() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=1, delay_period=2, max_delay=100, max_retries=None))
    rig.work()
    rig.offsets()
    for delay in (1, 4, 8):
        rig.fail(0)
        rig.work(delay - 0.1)
        assert rig.offsets() == []
        rig.work(0.2)
        assert rig.offsets() == [0]


def test_new_messages_do_not_wait_for_retries() -> None:
    rig = Rig(filled(0, 1), retry=RetryPolicy(initial_delay=100, max_delay=100))
    rig.work()
    rig.fail(0)
    rig.topics.fill("source", 0, [2, 3])
    rig.work()
    assert rig.offsets() == [0, 1, 2, 3]


def test_far_apart_failures_are_read_in_several_rounds() -> None:
    rig = Rig(filled(*range(3_000)), retry=AT_ONCE)
    rig.work()
    rig.offsets()
    rig.fail(5, 900, 1_500, 2_999)
    rig.work()
    assert rig.offsets() == [5, 900]
    rig.work()
    rig.work()
    assert rig.offsets() == [1_500, 2_999]


def test_after_the_last_retry_it_is_a_dead_letter_whose_offset_is_committable() -> None:
    rig = Rig(filled(0, 1), retry=AT_ONCE)
    rig.work()
    rig.hear(1)
    for _ in range(3):
        rig.hear(failed={0: "no room"})
        rig.work(2)
    assert rig.positions() == [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2)]
    (letter,) = rig.bench.sink.to(".dead-letters")
    assert letter.value == b"source/0@0"
    said = {name: text.decode() for name, text in letter.header.items()}
    assert said == {
        "dead-letter.topic": "source",
        "dead-letter.partition": "0",
        "dead-letter.offset": "0",
        "dead-letter.reason": "retries-exhausted",
        "dead-letter.detail": "all 3 attempts failed, the last one with reason failed: no room",
        "dead-letter.by": "lines/0",
    }
    rig.work(2)
    assert rig.topics.committed("source") == 2


def test_until_its_dead_letter_is_delivered_the_offset_is_not_committed() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(max_retries=0))
    rig.work()
    rig.bench.sink.holds_back = True
    rig.fail(0)
    rig.work(2)
    assert rig.letters() == [(b"source/0@0", "retries-exhausted")]
    assert rig.topics.committed("source") == 0
    rig.bench.sink.to(".dead-letters")[0].deliver()
    rig.work(2)
    assert rig.topics.committed("source") == 1


def test_a_dead_letter_that_is_not_delivered_stops_the_process() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(max_retries=0))
    rig.work()
    rig.bench.sink.holds_back = True
    rig.fail(0)
    rig.work()
    rig.bench.sink.to(".dead-letters")[0].deliver("message timed out")
    with pytest.raises(DeliveryError, match=r"a dead letter for t\.dead-letters"):
        rig.work(2)
    assert rig.topics.committed("source") == 0


@pytest.mark.parametrize("retention", [True, False])
def test_what_the_source_does_not_have_any_more_is_told_and_done(retention: bool) -> None:
    rig = Rig(filled(0, 1, 2), retry=AT_ONCE)
    rig.work()
    rig.fail(1)
    rig.hear(0, 2)
    if retention:
        rig.topics.delete_before("source", 0, 2)
    else:
        rig.topics.delete("source", 0, 1)
    rig.work(2)
    assert rig.letters() == [(None, "gone")]
    assert rig.bench.counters.dead_letters == 1
    rig.work(2)
    assert rig.topics.committed("source") == 3


def test_what_cannot_be_read_by_position_in_time_is_read_later() -> None:
    rig = Rig(filled(0), retry=AT_ONCE)
    rig.work()
    rig.topics.is_down = True
    rig.fail(0)
    rig.work()
    rig.topics.is_down = False
    rig.work(0.5)
    assert rig.offsets() == [0]
    rig.work(1)
    assert rig.offsets() == [0]


# Attempts


def test_who_takes_over_uses_other_attempts() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=None))
    rig.work()
    for _ in range(5):
        rig.fail(0)
        rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [0, 1, 2, 3, 4, 5]
    rig.restart()
    rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [8]


def test_more_attempts_are_used_only_once_that_is_committed() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=None))
    rig.work()
    for _ in range(3):
        rig.fail(0)
        rig.work()
    rig.topics.refuses_commits = True
    rig.fail(0)
    rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [0, 1, 2, 3]
    rig.topics.refuses_commits = False
    rig.work(2)
    rig.work()
    assert [attempt for _, _, attempt in rig.positions()] == [4]


def test_after_the_last_attempt_the_first_follows() -> None:
    topics = filled(0)
    topics.commits[SourcePartition("source", 0)] = Commit(0, 62)
    rig = Rig(topics, retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=None))
    rig.work()
    for _ in range(20):
        rig.fail(0)
        rig.work()
    attempts = [attempt for _, _, attempt in rig.positions()]
    # Sixteen of its own, and then these again but for the first.
    assert attempts == [62, 63, *range(14), *[63, 0, 1, 2, 3]]
    rig.work(2)
    assert topics.commits[SourcePartition("source", 0)].next_attempt == 14


@pytest.mark.parametrize(
    ("metadata", "attempt"),
    [
        ("attempt=7", 7),
        ("attempt=71", 7),
        ("", None),
        (None, None),
        ("attempt=", None),
        ("attempt=-1", None),
        ("notices=5", None),
        ("attempt=²", None),
    ],
)
def test_what_stands_beside_a_committed_offset_may_be_anything(metadata: str | None, attempt: int | None) -> None:
    assert Commit.read(5, metadata) == Commit(5, attempt)


# Limits


def test_uncommitted_offsets_are_limited_and_replays_are_not() -> None:
    rig = Rig(filled(*range(30)), max_uncommitted_offsets=10, retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == list(range(10))
    rig.hear(*range(1, 10))
    rig.work(2)
    assert rig.offsets() == [], "nine are acked, but behind one that is open"
    rig.fail(0)
    rig.work()
    assert rig.offsets() == [0], "what is open may always be delivered again"
    rig.fail(0)
    rig.work()
    assert rig.offsets() == [0]
    rig.hear(0)
    rig.work()
    assert rig.offsets() == list(range(10, 20))
    assert rig.spout.progress.uncommitted == 10


def test_one_partition_at_its_limit_does_not_hold_another() -> None:
    topics = filled(*range(30), source=2)
    topics.fill("source", 1, range(30))
    rig = Rig(topics, max_uncommitted_offsets=10)
    rig.work()
    rig.offsets()
    rig.hear(*range(10), partition=1)
    rig.work()
    assert rig.positions() == [(1, offset, 0) for offset in range(10, 20)]


def test_pending_trees_are_limited_and_replays_count() -> None:
    rig = Rig(filled(*range(30)), max_pending=5, retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == [0, 1, 2, 3, 4]
    rig.fail(0, 1)
    rig.work()
    assert len(rig.offsets()) == 2
    rig.work()
    rig.hear(2, 3, 4)
    rig.work()
    rig.work()
    assert rig.task.pending == 5
    assert 0 in rig.offsets()


def test_progress_says_how_far_it_is() -> None:
    rig = Rig(filled(*range(30)), max_uncommitted_offsets=10, retry=RetryPolicy(initial_delay=9))
    rig.work()
    rig.fail(3)
    assert (rig.spout.progress.lag, rig.spout.progress.uncommitted, rig.spout.progress.retries) == (20, 10, 1)
