"""The oldest open trees of a ledger, for inspection."""

import numpy as np

from acker_worker.kernels import TICK_SPAN
from acker_worker.ledger import Ledger, LedgerSettings
from tuple_tree.messages import SpoutTask

SPOUT = SpoutTask("t.notices.s", 0, 500)


def test_the_oldest_trees_come_first_and_orphans_not_at_all() -> None:
    ledger = Ledger(LedgerSettings(tick_ms=1, max_age_ms=5_000, orphan_timeout_ms=500))
    # Across the tick at which births begin again at zero.
    first = TICK_SPAN - 2
    roots = np.random.default_rng(7).integers(0, 2**64, 60, dtype=np.uint64)
    for number, root in enumerate(roots):
        ledger.advance(first + number // 10)
        ledger.init(root.reshape(1), np.array([5], dtype=np.uint64), SPOUT)
    ledger.ack(np.array([1, 2], dtype=np.uint64), np.array([1, 2], dtype=np.uint64))
    ledger.ack(roots[:5], np.full(5, 5, dtype=np.uint64))
    oldest = ledger.oldest(8)
    assert [birth for _, birth in oldest] == [first] * 5 + [first + 1] * 3
    assert {root for root, _ in oldest[:5]} == set(roots[5:10].tolist())
    assert {root for root, _ in ledger.oldest(1_000)} == set(roots[5:].tolist())
    assert Ledger(ledger.settings).oldest(3) == []
