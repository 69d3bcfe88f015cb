"""When a partition counts as read to its end, and the time of its idle clock."""

from acker_worker.owned import Owned
from tests.ack_log import START_MS, Log, new_fold


def test_the_end_of_a_partition_may_arrive_with_its_last_records() -> None:
    """A poll returns records and the end-of-partition event together; the end counts although records were read."""
    log, owned = Log(), Owned(new_fold(), None, since=0)
    at_end = [owned.at_end]
    records = [log.send(inits=[(1, 1)]), log.send(acks=[(1, 1)])]
    owned.end = 2
    owned.fold.apply(records)
    owned.read(1.0)
    at_end.append(owned.at_end)
    owned.fold.apply([log.send(inits=[(2, 2)])])
    owned.read(2.0)
    at_end.append(owned.at_end)
    assert at_end == [False, True, False]


def test_the_idle_clock_continues_from_the_last_append() -> None:
    log, owned = Log(), Owned(new_fold(), None, since=5.0)
    owned.fold.apply([log.send(inits=[(1, 1)])])
    owned.read(10.0)
    assert [owned.now_ms(10.0 + ms / 1000) for ms in range(1_000)] == [START_MS + ms for ms in range(1_000)]
    owned.fold.advance(START_MS + 200)
    owned.read(10.2)
    assert owned.now_ms(10.25) == START_MS + 250


def test_a_bolt_without_unread_records_has_no_lag() -> None:
    log, owned = Log(), Owned(new_fold(), None, since=0)
    assert owned.clock_lag_ms(START_MS + 9_000) == 0
    owned.fold.apply([log.send(inits=[(1, 1)])])
    assert owned.clock_lag_ms(START_MS + 9_000) == 9_000
    owned.end = 1
    assert owned.clock_lag_ms(START_MS + 9_000) == 0


def test_a_partition_that_is_not_read_is_stalled_until_the_next_record() -> None:
    log, owned = Log(), Owned(new_fold(), None, since=0)
    assert [owned.stalled_s(now) for now in (1.0, 11.0)] == [0, 10]
    owned.fold.apply([log.send(inits=[(1, 1)])])
    assert [owned.stalled_s(now) for now in (12.0, 15.0)] == [0, 3]
    owned.end = 1
    assert owned.stalled_s(90.0) == 0, "there is nothing more"
