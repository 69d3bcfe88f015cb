"""Entries of many batches that are applied in one call."""

import numpy as np

from acker_worker import kernels
from acker_worker.fold import FULL
from acker_worker.ledger import Ledger, Run
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


def test_entries_of_many_runs_and_byte_orders() -> None:
    ledger = Ledger(SETTINGS)
    spout = ledger.index_of(SPOUT)
    roots = np.arange(1, 20 * FULL, dtype=np.uint64)
    runs = [Run(kernels.INIT, column(root), column(root), spout) for root in range(1, 300)]
    others = roots[299:].astype(">u8")
    assert not len(ledger.apply([*runs, Run(kernels.INIT, others, others, spout)]))
    assert len(ledger) == len(roots)
    assert ledger.apply([Run(kernels.ACK, roots, roots)]).roots.tolist() == roots.tolist()
    assert not len(ledger)
