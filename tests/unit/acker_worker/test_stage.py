"""Entries that are applied in one go: nobody can tell from the outcomes."""

from collections.abc import Iterable

import numpy as np
import pytest

from acker_worker import kernels
from acker_worker.fold import LogRecord, PartitionFold
from acker_worker.ledger import Ledger
from acker_worker.progress import Progress
from acker_worker.stage import FULL, Stage
from tests.unit.acker_worker.folding import SETTINGS, SPOUT, TICK_MS, Log, column, new_fold
from tests.unit.acker_worker.random_log import random_scenario
from tuple_tree.messages import FailReason, SpoutTask

Said = tuple[list[int], list[tuple[int, FailReason, str]]]


def told_by(fold: PartitionFold, chunks: Iterable[list[LogRecord]]) -> dict[SpoutTask, Said]:
    """All that each spout is told, in order."""
    said: dict[SpoutTask, Said] = {}
    for chunk in chunks:
        for spout, told in fold.apply(chunk).told.items():
            acked, failed = said.setdefault(spout, ([], []))
            acked += [root for roots in told.acked for root in roots.tolist()]
            failed += told.failed
    return said


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_a_log_in_one_go_tells_what_it_tells_record_by_record(seed: int, faults: bool) -> None:
    records = random_scenario(seed, faults=faults).log.records
    whole, single = new_fold(), new_fold()
    assert told_by(whole, [records]) == told_by(single, [[record] for record in records])
    assert whole.counters == single.counters
    assert whole.progress == single.progress
    assert len(whole.ledger) == len(single.ledger)


@pytest.mark.parametrize("seed", range(40))
def test_a_rebuild_in_one_go_tells_what_it_tells_record_by_record(seed: int) -> None:
    records = random_scenario(seed, faults=True).log.records
    half = new_fold()
    half.apply(records[: len(records) // 2])
    committed = half.progress
    rest = records[committed.rebuild_from :]

    def taken_over(progress: Progress) -> PartitionFold:
        return PartitionFold(0, 1, SETTINGS, progress)

    whole, single = taken_over(committed), taken_over(committed)
    assert told_by(whole, [rest]) == told_by(single, [[record] for record in rest])
    assert whole.counters == single.counters
    assert whole.progress == single.progress


def test_what_a_bolt_says_of_a_fail_is_not_lost_to_an_outcome_before_it() -> None:
    log = Log()
    log.say(inits=[(1, 5)], acks=[(1, 5)])
    log.say(fails=[1], message="too late")
    log.say(inits=[(1, 7)])
    told = told_by(new_fold(), [log.records])
    assert told[SPOUT] == ([1], [(1, FailReason.FAILED, "too late")])


def test_entries_of_two_ticks_are_not_heard_at_one() -> None:
    log = Log()
    log.say(inits=[(1, 5)])
    log.now_ms += TICK_MS
    log.say(inits=[(2, 5)])
    fold = new_fold()
    fold.apply(log.records)
    # The lifetime of the first is over a tick before that of the second.
    lifetime_ms = SETTINGS.lifetime_ticks(SPOUT.timeout_ms) * TICK_MS
    (first,) = fold.advance(log.now_ms - TICK_MS + lifetime_ms).told.values()
    assert first.failed == [(1, FailReason.TIMEOUT, "")]
    (second,) = fold.advance(log.now_ms + lifetime_ms).told.values()
    assert second.failed == [(2, FailReason.TIMEOUT, "")]


def test_more_entries_and_runs_than_there_is_room_for() -> None:
    stage, ledger = Stage(), Ledger(SETTINGS)
    spout = ledger.index_of(SPOUT)
    roots = np.arange(1, 20 * FULL, dtype=np.uint64)
    for root in range(1, 300):
        stage.add(kernels.INIT, column(root), column(root), spout)
    stage.add(kernels.INIT, roots[299:].astype(">u8"), roots[299:].astype(">u8"), spout)
    assert stage.entries == len(roots)
    assert not len(ledger.apply(stage))
    assert len(ledger) == len(roots)
    stage.clear()
    assert not len(ledger.apply(stage))
    assert len(stage.roots) == FULL
    stage.add(kernels.ACK, roots, roots)
    assert ledger.apply(stage).roots.tolist() == roots.tolist()
    assert not len(ledger)


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 8, 1_000])
def test_strays(partitions: int) -> None:
    own = np.arange(100, dtype=np.uint64) * np.uint64(partitions) + np.uint64(2**63 // partitions * partitions)
    own += np.uint64(partitions - 1)

    def stray(roots: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> int:
        return int(kernels.stray(roots, np.uint64(partitions), np.uint64(partitions - 1)))

    assert stray(own) == -1
    if partitions > 1:
        own[57] += np.uint64(1)
        own[80] += np.uint64(1)
        assert stray(own) == 57
