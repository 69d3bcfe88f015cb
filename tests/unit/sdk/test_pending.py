"""The open trees of a spout task, and their limit while trees time out."""

from collections import deque
from itertools import repeat

import pytest

from spout_sdk.spouts.pending import LEAST, Pending, PendingLimit


def test_a_message_without_an_outcome_is_lost_after_the_timeout() -> None:
    for put_at in (0.0, 1.0, 4.9, 5.0, 7.3):
        lost: list[str] = []
        pending = Pending(10, 0.0, lost.append)
        pending.tick(put_at)
        pending.put(1, "m", put_at)
        now = put_at
        while not lost:
            now += 0.125
            pending.tick(now)
        assert 10 <= now - put_at <= 15.125
        assert len(pending) == 0


def test_after_a_long_pause_at_most_one_cohort_is_lost_before_the_notices_are_read() -> None:
    lost: list[str] = []
    pending = Pending(10, 0.0, lost.append)
    pending.put(1, "a", 0.0)
    pending.tick(6.0)
    pending.put(2, "b", 6.0)
    for now, expected in ((10_000.0, []), (10_005.0, ["a"]), (10_010.0, ["a", "b"])):
        pending.tick(now)
        assert lost == expected


TIMEOUT = 30.0
RATE = 300
"""Tuples a second that the topology processes, those of failed trees included."""


def acked_a_second(limit: PendingLimit) -> list[int]:
    """A topology with a queue of failed trees, and a spout that replays trees that time out."""
    queue: deque[tuple[int, float]] = deque((-1, 0.0) for _ in range(20_000))
    pending: dict[int, float] = {}
    tree, acked = 0, []
    for second in range(1_000):
        now = float(second)
        limit.tick(now, len(pending), lambda: iter(sorted(pending.values())))
        for late in [each for each, at in pending.items() if now - at > TIMEOUT]:
            del pending[late]
            limit.timed_out(len(pending))
        while len(pending) < limit.value:
            tree += 1
            pending[tree] = now
            queue.append((tree, now))
        done = sum(pending.pop(queue.popleft()[0], None) is not None for _ in range(min(RATE, len(queue))))
        limit.acked(done)
        acked.append(done)
    return acked


def test_timeouts_limit_the_open_trees_until_trees_complete() -> None:
    limit = PendingLimit(10_000, TIMEOUT, 0.0)
    acked = acked_a_second(limit)
    first = next(second for second, done in enumerate(acked) if done == RATE)
    assert first < 20_000 / RATE + 2 * TIMEOUT
    assert sum(acked[first + 60 :]) > 0.9 * RATE * len(acked[first + 60 :])


@pytest.mark.parametrize("most", [10, 10_000])
def test_single_timeouts_do_not_limit_the_spout(most: int) -> None:
    limit = PendingLimit(most, TIMEOUT, 0.0)
    for second in range(100):
        limit.tick(float(second), LEAST, lambda: repeat(second, LEAST))  # noqa: B023
        limit.acked(1_000)
        assert not limit.timed_out(LEAST)
    assert limit.value == most
    assert not PendingLimit(most, TIMEOUT, 0.0).timed_out(LEAST - 1), "few trees are not the reason"
    assert PendingLimit(most, TIMEOUT, 0.0).timed_out(LEAST) == (most > LEAST)


def test_trees_that_bolts_hold_make_room_and_are_reported_where_there_is_no_more() -> None:
    limit = PendingLimit(4 * LEAST, TIMEOUT, 0.0)
    limit.timed_out(4 * LEAST)
    assert limit.value == LEAST
    begun: list[float] = []

    def tick(now: float) -> bool:
        begun.extend(repeat(now, limit.value - len(begun)))
        return limit.tick(now, len(begun), lambda: iter(begun))

    assert not any(tick(float(now)) for now in range(int(1.5 * TIMEOUT)))
    assert limit.value == 4 * LEAST, "held trees are known soon after a timeout, and make room twice"
    reported = [now for now in range(int(1.5 * TIMEOUT), 1_000) if tick(float(now))]
    assert reported[0] < 3 * TIMEOUT
    for now in range(1_000, 2_000):
        begun.clear()
        assert not tick(float(now))
