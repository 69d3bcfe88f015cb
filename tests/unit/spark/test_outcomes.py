"""The outcomes of a spout: open messages, waits for room, and outcomes that are read before a task's report."""

import threading

import numpy as np
import pytest

from spark_jobs.delivering import SourceRange, SourceRoots
from spark_jobs.errors import StoppedBetweenBatches
from spark_jobs.outcomes import Outcomes
from tests.waiting import eventually
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import Position, positional_root, topic_key
from tuple_tree.source_positions import Prefix, SourcePositions

KEY = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes(SourcePositions(1_000.0, 0.0), SourceRoots(3, KEY, 8), 100, lambda: 7.0)


def roots(*positions: Position) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array([positional_root(position, KEY, 8) for position in positions], np.uint64)


def found(partition: int, offsets: range) -> SourceRange:
    return SourceRange(partition, np.array(offsets), np.empty(0, np.int64), len(offsets))


def test_outcomes_that_come_before_the_report_count(outcomes: Outcomes) -> None:
    with outcomes.writing(20, lambda: 40, lambda: False) as delivered:
        acked = roots(Position(3, 1, 10), Position(3, 1, 12), Position(2, 1, 10))
        failed = roots(Position(3, 1, 11))
        reasons = np.array([FailReason.FAILED], np.uint8)
        outcomes.read(
            NoticeBatch(0, 0, acked_roots=acked, failed_roots=failed, fail_reasons=reasons, fail_messages=("no",))
        )
        assert (outcomes.acked, outcomes.failed, outcomes.ignored) == (0, 0, 1)
        delivered.append(found(1, range(10, 20)))
    assert (outcomes.acked, outcomes.failed, outcomes.ignored) == (2, 1, 1)
    assert (outcomes.outstanding, outcomes.due) == (7, 1)
    (replays,) = outcomes.take_due(10, 10)
    assert (replays.partition, replays.offsets.tolist(), replays.attempts.tolist()) == (1, [11], [1])
    assert replays.messages == {11: "no"}
    assert outcomes.prefixes(50) == [Prefix(1, 11, 40)], "outcomes that were read during the write are read again"


def test_outcomes_of_unreported_deliveries_are_ignored(outcomes: Outcomes) -> None:
    def fails() -> None:
        with outcomes.writing(20, lambda: 0, lambda: False):
            outcomes.read(NoticeBatch(0, 0, acked_roots=roots(Position(3, 1, 10))))
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        fails()
    assert (outcomes.acked, outcomes.ignored, outcomes.outstanding) == (0, 1, 0)


def test_a_micro_batch_waits_for_room(outcomes: Outcomes) -> None:
    with outcomes.writing(60, lambda: 0, lambda: False) as delivered:
        delivered.append(found(0, range(60)))
    entered = threading.Event()

    def next_one() -> None:
        with outcomes.writing(60, lambda: 0, lambda: False):
            entered.set()

    thread = threading.Thread(target=next_one)
    thread.start()
    outcomes.done(0, range(19))
    assert outcomes.outstanding == 41
    assert not entered.is_set()
    outcomes.done(0, [19])
    eventually(entered.is_set, "room for 60 of 100")
    thread.join()
    with pytest.raises(StoppedBetweenBatches), outcomes.writing(61, lambda: 0, lambda: True):
        pass


def test_a_thousand_notices_are_columns(outcomes: Outcomes) -> None:
    with outcomes.writing(50, lambda: 0, lambda: False) as delivered:
        delivered += [found(number, range(5_000)) for number in range(2)]
    each = [Position(3, number % 2, number // 2) for number in range(10_000)]
    outcomes.read(NoticeBatch(0, 0, acked_roots=roots(*each)))
    assert (outcomes.acked, outcomes.ignored, outcomes.idle) == (10_000, 0, True)
    outcomes.read(NoticeBatch(0, 0, acked_roots=roots(*each)))
    assert (outcomes.acked, outcomes.ignored) == (10_000, 10_000)
    assert sum(outcomes.stats()["complete_latency"].values()) == 10_000
    assert outcomes.prefixes(9) == [Prefix(0, 5_000, 9), Prefix(1, 5_000, 9)]
