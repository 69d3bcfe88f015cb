"""A topology that has fallen behind its message timeout completes trees again."""

from collections import deque

import pytest

from spout_sdk.pending_limit import LEAST, PendingLimit

TIMEOUT = 30.0
RATE = 300
"""Tuples a second that the topology processes, those of failed trees included."""


def acked_a_second(limit: PendingLimit, *, is_kept: bool) -> list[int]:
    """A topology that comes back to a queue of failed trees, with a spout that replays what times out."""
    queue: deque[tuple[int, float]] = deque((-1, 0.0) for _ in range(20_000))
    pending: dict[int, float] = {}
    tree, acked = 0, []
    for second in range(1_000):
        now = float(second)
        limit.tick(now)
        for late in [each for each, at in pending.items() if now - at > TIMEOUT]:
            del pending[late]
            limit.timed_out(len(pending))
        while len(pending) < (limit.most if is_kept else limit.value):
            tree += 1
            pending[tree] = now
            queue.append((tree, now))
        done = sum(pending.pop(queue.popleft()[0], None) is not None for _ in range(min(RATE, len(queue))))
        limit.acked(done)
        acked.append(done)
    return acked


def test_fewer_trees_are_open_while_they_time_out_and_all_again_later() -> None:
    limit = PendingLimit(10_000, TIMEOUT, 0.0)
    acked = acked_a_second(limit, is_kept=False)
    first = next(second for second, done in enumerate(acked) if done == RATE)
    assert first < 20_000 / RATE + 2 * TIMEOUT
    assert sum(acked[first + 60 :]) > 0.9 * RATE * len(acked[first + 60 :])


@pytest.mark.parametrize("most", [10, 10_000])
def test_a_tree_that_times_out_now_and_then_changes_nothing(most: int) -> None:
    limit = PendingLimit(most, TIMEOUT, 0.0)
    for second in range(100):
        limit.tick(float(second))
        limit.acked(1_000)
        assert not limit.timed_out(LEAST)
    assert limit.value == most
    assert not PendingLimit(most, TIMEOUT, 0.0).timed_out(LEAST - 1), "few trees are not the reason"
    assert PendingLimit(most, TIMEOUT, 0.0).timed_out(LEAST) == (most > LEAST)
