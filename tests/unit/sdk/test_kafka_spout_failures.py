"""A Kafka spout's task: replays, their roots and their end; limits."""

from itertools import pairwise

import pytest

from spout_sdk import FailReason, RetryPolicy
from spout_sdk.errors import DeliveryError
from tests.unit.sdk.kafka_spout_rig import Rig
from tests.unit.sdk.sent_records import NOT_DELIVERED
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.source_commits import SourceCommit

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0, max_retries=2)
FOR_EVER = RetryPolicy(initial_delay=0, delay_period=0, max_retries=None)


def test_a_failed_message_is_read_again_and_delivered_under_another_root() -> None:
    rig = Rig([0, 1, 2], retry=AT_ONCE)
    rig.work()
    assert rig.positions() == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    rig.notify(0, 2)
    for attempt, reason in enumerate((FailReason.FAILED, FailReason.TIMEOUT), start=1):
        rig.fail(1, reason=reason)
        rig.work()
        assert rig.positions() == [(0, 1, attempt)]
    assert rig.values(rig.sink.tuples[-1]) == ("source/0@1",)
    assert dict(rig.stats.counters) == {"replayed": 2}
    rig.notify(1)
    rig.work(2)
    assert rig.committed == 3


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (RetryPolicy(initial_delay=0, delay_period=4, max_delay=30, max_retries=None), [0, 8, 16, 30, 30]),
        (RetryPolicy(initial_delay=0.5, delay_period=4, max_delay=10, max_retries=1), [0.5, None]),
        (RetryPolicy(initial_delay=60, max_delay=10, max_retries=0), [None]),
        (RetryPolicy(initial_delay=60, max_delay=10), [10]),
    ],
)
def test_delays_back_off_exponentially_up_to_the_cap_until_the_last_retry(
    policy: RetryPolicy, delays: list[float | None]
) -> None:
    assert [policy.delay(failures) for failures, _ in enumerate(delays, start=1)] == delays


def test_an_outage_of_ten_minutes_drops_no_message() -> None:
    rig = Rig(range(20))
    for _ in range(60):
        rig.work(10)
        rig.fail(*rig.pending)
    rig.offsets()
    rig.work(45)
    rig.notify(*range(20))
    rig.work(2)
    assert (rig.letters(), rig.committed) == ([], 20)


def test_of_more_than_one_read_takes_those_that_are_due_longest_are_delivered_first() -> None:
    rig = Rig(range(251), retry=RetryPolicy(initial_delay=1))
    rig.work()
    rig.offsets()
    rig.fail(250)
    rig.clock.advance(0.5)
    rig.fail(*range(250))
    rig.work(1)
    assert rig.offsets() == [*range(199), 250, *range(199, 250)]


def test_messages_far_apart_are_delivered_in_the_order_in_which_they_are_due() -> None:
    rig = Rig([0, 5_000, 10_000], retry=RetryPolicy(initial_delay=1))
    rig.work()
    rig.offsets()
    for offset in (10_000, 5_000, 0):
        rig.fail(offset)
        rig.clock.advance(0.1)
    delivered: list[int] = []
    rig.clock.advance(1)
    while len(delivered) < 6:
        rig.work()
        delivered += (offsets := rig.offsets())
        if 0 in offsets:
            rig.fail(0)
        rig.clock.advance(0.5)
    assert delivered == [10_000, 5_000, 0, 0, 0, 0]


def test_no_message_waits_for_others_that_time_out_again_and_again() -> None:
    far = 1_500
    rig = Rig([*range(400), far], retry=RetryPolicy())
    deliveries: list[float] = []
    began: dict[int, float] = {}  # of open trees that will time out
    for _ in range(40):
        rig.work(0.5)
        now = rig.clock.now
        failed: dict[int, str] = {}
        for root in rig.roots():
            began[root] = now
            if rig.position(root).offset == far:
                deliveries.append(now)
                del began[root]
                failed[root] = "no"
        rig.handle([], failed)
        old = [root for root, since in began.items() if now - since > 2]
        rig.handle([], dict.fromkeys(old, ""), FailReason.TIMEOUT)
        for root in old:
            del began[root]
    waited = [later - before for before, later in pairwise(deliveries)]
    assert waited == [0.5, 0.5, 0.5, 1.0, 2.0, 3.5, 6.5], "the delays of its policy, and the step of this test"


def test_a_retry_waits_for_its_delay_and_new_messages_do_not() -> None:
    rig = Rig([0], retry=RetryPolicy(initial_delay=1, delay_period=2, max_delay=100, max_retries=None))
    rig.work()
    rig.offsets()
    for new, delay in enumerate((1, 4, 8), start=1):
        rig.fail(0)
        rig.fill([new])
        rig.work(delay - 0.1)
        assert rig.offsets() == [new]
        assert rig.stats.retrying == 1
        rig.work(0.2)
        assert rig.offsets() == [0]


def test_after_the_last_retry_a_message_is_committed_once_its_dead_letter_is_delivered() -> None:
    rig = Rig([0, 1], retry=AT_ONCE)
    rig.work()
    rig.notify(1)
    rig.sink.holds_back = True
    for _ in range(3):
        rig.notify(failed={0: "no room"})
        rig.work(2)
    assert rig.positions() == [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2)]
    (letter,) = rig.sink.to(".dead-letters")
    assert letter.value == b"source/0@0"
    assert {name.removeprefix("dead-letter."): text.decode() for name, text in letter.header.items()} == {
        "topic": "source",
        "partition": "0",
        "offset": "0",
        "reason": "retries-exhausted",
        "detail": "all 3 attempts failed, the last one with reason failed: no room",
        "by": "lines/0",
    }
    assert rig.committed == 0
    letter.deliver()
    rig.work(2)
    assert rig.committed == 2


def test_a_dead_letter_that_is_not_delivered_stops_the_process() -> None:
    rig = Rig([0], retry=RetryPolicy(max_retries=0))
    rig.work()
    rig.sink.holds_back = True
    rig.fail(0)
    rig.work()
    rig.sink.to(".dead-letters")[0].deliver(NOT_DELIVERED)
    with pytest.raises(DeliveryError, match=r"a dead letter for t\.dead-letters"):
        rig.work(2)
    assert rig.committed == 0


@pytest.mark.parametrize("retention", [True, False])
def test_a_failed_message_that_was_deleted_is_a_dead_letter_without_value(retention: bool) -> None:
    rig = Rig([0, 1, 2], retry=AT_ONCE)
    rig.work()
    rig.notify(0, 2)
    rig.broker.delete("source", 0, 0 if retention else 1, 2)
    rig.fail(1)
    rig.work(2)
    rig.work(2)
    assert (rig.letters(), rig.stats.dead_letters) == ([(None, "gone")], 1)
    assert rig.committed == 3


def test_a_message_that_cannot_be_read_by_position_now_is_read_later() -> None:
    rig = Rig([0], retry=AT_ONCE)
    rig.work()
    rig.is_down = True
    rig.fail(0)
    assert rig.offsets() == [0]
    rig.is_down = False
    rig.work(11)
    rig.work(1.5)
    assert rig.offsets() == [0]


def test_attempts_are_used_once_they_are_committed_and_never_by_two_owners() -> None:
    rig = Rig([0], retry=FOR_EVER)
    rig.work()
    for _ in range(3):
        rig.fail(0)
        rig.work()
    rig.refuses_commits = True
    rig.fail(0)
    rig.work()
    assert rig.attempts() == [0, 1, 2, 3]
    rig.refuses_commits = False
    rig.work(2)
    rig.work()
    assert rig.attempts() == [4]
    rig.restart()
    rig.work()
    assert rig.attempts() == [8]


def test_attempt_numbers_wrap_around() -> None:
    rig = Rig([0], retry=FOR_EVER)
    rig.set_commit(SourceCommit(DoneSet(0), 62))
    rig.work()
    for _ in range(20):
        rig.fail(0)
        rig.work()
    # Sixteen of its own, and then these again but for the first.
    assert rig.attempts() == [62, 63, *range(14), *[63, 0, 1, 2, 3]]
    rig.work(2)
    assert rig.commit().next_attempt == 14


def test_the_metadata_of_a_committed_offset_may_be_anything() -> None:
    assert [SourceCommit.read(5, metadata).next_attempt for metadata in ("2:attempt=7", "2:attempt=71")] == [7, 7]
    for metadata in ("", None, "2:attempt=", "2:attempt=-1", "1:other=5", "2:attempt=²"):
        assert SourceCommit.read(5, metadata) == SourceCommit(DoneSet(5), None)
    with pytest.raises(CommitError, match=r"offset 5 has metadata of version 1, .* reads version 2"):
        SourceCommit.read(5, "1:attempt=7")
    with pytest.raises(CommitError, match="the commit at offset 5 has a set that cannot be read"):
        SourceCommit.read(5, "2:attempt=7;done=AQ")


def test_failures_of_a_message_that_compaction_deleted_between_two_owners_are_forgotten() -> None:
    rig = Rig([0, 1, 2, 3], retry=RetryPolicy(initial_delay=60))
    rig.work()
    rig.fail(0, 1, 3)
    rig.work(2)
    assert rig.commit().done == DoneSet(0, [], failures={0: 1, 1: 1, 3: 1})
    rig.restart()
    rig.broker.delete("source", 0, 1, 2)
    rig.work()
    rig.notify(0)
    rig.work(2)
    assert rig.commit().done == DoneSet(2, [], failures={3: 1})


def test_a_limit_of_uncommitted_offsets_never_keeps_a_new_owner_from_reading_what_is_open() -> None:
    rig = Rig(range(20))
    rig.work()
    rig.notify(*range(1, 20))
    rig.work(2)
    commit = rig.commit()
    rig = Rig(range(20), max_uncommitted_offsets=5)
    rig.set_commit(commit)
    rig.work()
    assert rig.offsets() == [0]
    rig.notify(0)
    rig.work(2)
    assert rig.committed == 20


def test_uncommitted_offsets_are_limited_by_partition_and_replays_are_not() -> None:
    rig = Rig(range(30), topics={"source": 2}, max_uncommitted_offsets=10, retry=AT_ONCE)
    rig.fill(range(30), partition=1)
    rig.work()
    assert sorted(rig.offsets()) == sorted([*range(10)] * 2)
    rig.notify(*range(1, 10))
    rig.notify(*range(10), partition=1)
    rig.work(2)
    assert rig.positions() == [(1, offset, 0) for offset in range(10, 20)], "nine are acked, after an open one"
    rig.fail(0)
    rig.work()
    assert rig.positions() == [(0, 0, 1)]
    rig.notify(0)
    rig.work()
    assert rig.positions() == [(0, offset, 0) for offset in range(10, 20)]


def test_pending_trees_are_limited_and_replays_count() -> None:
    rig = Rig(range(30), max_pending=5, retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == [0, 1, 2, 3, 4]
    rig.fail(0, 1)
    rig.work()
    assert (len(rig.pending), len(rig.offsets())) == (5, 2)


@pytest.mark.parametrize("limit", [1, 4])
def test_messages_that_have_failed_often_leave_half_of_the_trees_to_new_ones(limit: int) -> None:
    retry = RetryPolicy(initial_delay=60, delay_period=60, max_delay=60)
    rig = Rig(range(20), max_pending=limit, retry=retry)
    for _ in range(4):
        rig.work()
        while failing := rig.pending:
            rig.fail(*failing)
            rig.work()
        rig.clock.advance(60)
    rig.fill(range(20, 60))
    done = 0
    while done < 40:
        rig.work()
        new = [offset for offset in rig.pending if offset >= 20]
        again = [offset for offset in rig.pending if offset < 20]
        assert len(again) <= max(1, limit // 2)
        if not new:
            rig.fail(*again)
        rig.notify(*new)
        done += len(new)
    assert rig.committed == 0
