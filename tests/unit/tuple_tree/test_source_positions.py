"""Which positions of a source are done, open or due again, against a plain model."""

import random

import numpy as np
import pytest

from tests.seeds import each_seed
from tuple_tree.messages import FailReason
from tuple_tree.source_positions import Prefix, SourcePositions

Taken = tuple[int, int, int, FailReason, str]
"""Partition, offset, attempt, reason and message of a replay."""


def take(positions: SourcePositions, limit: int, span: int) -> list[Taken]:
    return [
        (each.partition, offset, attempt, FailReason(reason), each.messages.get(offset, ""))
        for each in positions.take_due(limit, span)
        for offset, attempt, reason in zip(
            each.offsets.tolist(), each.attempts.tolist(), each.reasons.tolist(), strict=True
        )
    ]


def failed(
    positions: SourcePositions, partition: int, offset: int, attempt: int, reason: FailReason, message: str = ""
) -> bool:
    return bool(len(positions.failed(partition, [offset], [attempt], [reason], [message])))


def done(positions: SourcePositions, partition: int, *offsets: int) -> bool:
    return positions.done(partition, offsets)[0] == len(offsets)


@pytest.fixture
def positions() -> SourcePositions:
    return SourcePositions(lost_after=10.0, now=0.0)


def test_repeated_deliveries_are_ignored(positions: SourcePositions) -> None:
    positions.delivered(0, [1, 2, 5], mark=0)
    assert (positions.started(0), positions.started(1)) == (5, -1)
    assert positions.delivered(0, [1, 2, 5, 6, 7], mark=4) == 2
    assert positions.pending == 5


def test_the_mark_of_a_prefix_is_that_of_the_first_open_delivery(positions: SourcePositions) -> None:
    positions.delivered(0, range(10), mark=1)
    positions.delivered(0, range(10, 20), mark=2)
    positions.delivered(0, range(20, 30), mark=3)
    assert done(positions, 0, *range(12))
    assert positions.prefixes(9) == [Prefix(0, 12, 2)]
    assert done(positions, 0, *range(12, 30))
    assert positions.prefixes(9) == [Prefix(0, 30, 9)], "no message is open, so none has to be read again"


def test_failures_become_due_under_the_next_attempt(positions: SourcePositions) -> None:
    positions.delivered(0, range(3), mark=0)
    assert failed(positions, 0, 1, 0, FailReason.FAILED, "no")
    assert not failed(positions, 0, 1, 0, FailReason.FAILED), "a repeat"
    assert (positions.pending, positions.due) == (2, 1)
    assert take(positions, 10, 100) == [(0, 1, 1, FailReason.FAILED, "no")]
    assert (positions.pending, positions.due) == (3, 0)
    assert not failed(positions, 0, 1, 0, FailReason.TIMEOUT), "of an attempt that was given up"
    assert failed(positions, 0, 1, 1, FailReason.TIMEOUT)
    assert failed(positions, 0, 1, 4, FailReason.TIMEOUT), "of an attempt of an earlier process"
    assert done(positions, 0, 1), "an earlier attempt was acked meanwhile"
    assert take(positions, 10, 100) == []
    assert not failed(positions, 0, 1, 9, FailReason.FAILED), "it is done"
    assert not failed(positions, 5, 1, 0, FailReason.FAILED), "never delivered"
    assert done(positions, 0, 0, 2)
    positions.prefixes(0)
    assert not failed(positions, 0, 1, 9, FailReason.FAILED), "nothing is open"
    assert not done(positions, 0, 1)


def test_a_round_takes_the_offsets_within_its_span(positions: SourcePositions) -> None:
    positions.delivered(0, range(1000), mark=0)
    positions.delivered(1, range(1000), mark=0)
    for offset in (900, 5, 30, 104, 105):
        failed(positions, 0, offset, 0, FailReason.FAILED)
    for offset in (500, 900):
        failed(positions, 1, offset, 0, FailReason.FAILED)

    def taken(most: int, span: int) -> list[tuple[int, int]]:
        return [each[:2] for each in take(positions, most, span)]

    assert taken(10, 100) == [(0, 5), (0, 30), (0, 104), (1, 500)]
    assert [taken(1, 1000) for _ in range(4)] == [[(0, 105)], [(1, 900)], [(0, 900)], []], "no partition starves"


def test_messages_without_an_outcome_are_lost(positions: SourcePositions) -> None:
    positions.delivered(0, [0], mark=0)
    assert positions.tick(9.9) == 0
    positions.delivered(0, [1], mark=0)
    assert positions.tick(10.0) == 0
    assert positions.tick(15.0) == 1
    assert take(positions, 9, 9) == [(0, 0, 1, FailReason.LOST, "")]
    assert positions.tick(20.0) == 1, "and no later than half as long again"
    assert take(positions, 9, 9) == [(0, 1, 1, FailReason.LOST, "")]
    assert done(positions, 0, 0)
    assert done(positions, 0, 1)
    assert positions.prefixes(3) == [Prefix(0, 2, 3)]


def test_of_several_outcomes_of_a_position_each_counts_once(positions: SourcePositions) -> None:
    positions.delivered(0, range(4), mark=0, now=7.0)
    reasons = positions.failed(0, [1, 2, 1], [0, 0, 3], [FailReason.TIMEOUT, FailReason.FAILED, FailReason.FAILED])
    assert reasons.tolist() == [FailReason.FAILED, FailReason.FAILED]
    assert [each[:3] for each in take(positions, 9, 9)] == [(0, 1, 4), (0, 2, 1)]
    known, begun = positions.done(0, np.array([0, 0, 1, 9]), np.array([0, 0, 0, 0]))
    assert known == 2
    assert begun.tolist() == [7.0], "when the attempt that was acked was delivered"
    assert (positions.pending, positions.due) == (2, 0)


def check_against_a_model(seed: int) -> None:
    rng = random.Random(seed)
    positions = SourcePositions(lost_after=1e9, now=0.0)
    open_: dict[tuple[int, int], int] = {}
    due: set[tuple[int, int]] = set()
    log: dict[int, list[int]] = {}
    for _ in range(400):
        choice = rng.random()
        if choice < 0.3:
            partition, start = rng.randrange(3), 0
            start = log[partition][-1] + 1 if log.get(partition) else 0
            offsets = sorted(rng.sample(range(start, start + 20), rng.randrange(1, 10)))
            positions.delivered(partition, offsets, mark=0)
            log.setdefault(partition, []).extend(offsets)
            open_.update({(partition, offset): 0 for offset in offsets})
        elif choice < 0.6 and open_:
            at = rng.choice(sorted(open_))
            assert done(positions, *at)
            del open_[at]
            due.discard(at)
        elif choice < 0.8 and open_:
            at = rng.choice(sorted(open_))
            expected = at not in due
            assert failed(positions, *at, open_[at], FailReason.FAILED) == expected
            due.add(at)
        else:
            for partition, offset, attempt, *_ in take(positions, rng.randrange(5), rng.randrange(1, 30)):
                at = (partition, offset)
                due.remove(at)
                open_[at] += 1
                assert attempt == open_[at]
        assert (positions.pending, positions.due) == (len(open_) - len(due), len(due))
        for prefix in positions.prefixes(0):
            mine = [offset for partition, offset in open_ if partition == prefix.partition]
            done_to = min(mine) if mine else log[prefix.partition][-1] + 1
            behind = [offset for offset in log[prefix.partition] if prefix.offset <= offset < done_to]
            assert prefix.offset <= done_to
            assert not behind


def test_against_a_model() -> None:
    each_seed(check_against_a_model)
