"""Entries that are applied in one go have the same outcomes as one by one."""

import random
from collections.abc import Iterable

import numpy as np

from acker_worker import kernels
from acker_worker.fold import LogRecord, PartitionFold
from acker_worker.ledger import Ledger
from acker_worker.progress import Progress
from acker_worker.stage import FULL, Stage
from tests.seeds import each_seed
from tests.unit.acker_worker.folding import SETTINGS, SPOUT, Log, column, new_fold
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


def test_a_log_in_one_go_tells_what_it_tells_record_by_record() -> None:
    """From its beginning, and from what was committed at the half of it."""

    def check(seed: int) -> None:
        rng = random.Random(seed)
        for round_ in range(12):
            records = random_scenario(rng.getrandbits(32), faults=round_ % 3 > 0).log.records
            committed: Progress | None = None
            if round_ % 2:
                half = new_fold()
                half.apply(records[: len(records) // 2])
                committed = half.progress
                records = records[committed.rebuild_from :]
            whole, single = (PartitionFold(0, 1, SETTINGS, committed) for _ in range(2))
            assert told_by(whole, [records]) == told_by(single, [[record] for record in records])
            assert whole.counters == single.counters
            assert whole.progress == single.progress
            assert len(whole.ledger) == len(single.ledger)

    each_seed(check)


def test_what_a_bolt_says_of_a_fail_is_not_lost_to_an_outcome_before_it() -> None:
    log = Log()
    log.say(inits=[(1, 5)], acks=[(1, 5)])
    log.say(fails=[1], message="too late")
    log.say(inits=[(1, 7)])
    told = told_by(new_fold(), [log.records])
    assert told[SPOUT] == ([1], [(1, FailReason.FAILED, "too late")])


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
    assert len(stage.roots) == FULL
    stage.add(kernels.ACK, roots, roots)
    assert ledger.apply(stage).roots.tolist() == roots.tolist()
    assert not len(ledger)
