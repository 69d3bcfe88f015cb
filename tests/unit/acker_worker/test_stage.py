"""Entries of many batches that are applied in one call."""

import numpy as np

from acker_worker import kernels
from acker_worker.ledger import FULL, Ledger, Stage
from tests.unit.acker_worker.folding import SETTINGS, SPOUT, Log, column, new_fold
from tuple_tree.messages import FailReason


def test_the_message_of_a_fail_survives_an_earlier_outcome() -> None:
    log = Log()
    log.send(inits=[(1, 5)], acks=[(1, 5)])
    log.send(fails=[1], message="too late")
    log.send(inits=[(1, 7)])
    notified = new_fold().apply(log.records).outcomes[SPOUT]
    assert ([roots.tolist() for roots in notified.acked], notified.failed) == (
        [[1]],
        [(1, FailReason.FAILED, "too late", "b/0")],
    )


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
