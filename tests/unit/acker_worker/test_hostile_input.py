"""The cost of hostile input, or of a clock that jumps, is bounded in time and memory."""

import numpy as np

from acker_worker.ledger import Ledger
from acker_worker.owned import Owned
from tests.ack_log import SETTINGS, START_MS, TICK_MS, Log, column, new_fold, outcomes
from tests.unit.acker_worker.rule_ledger import RuleLedger
from tuple_tree.messages import SpoutAddress

GOLDEN = 0x9E3779B97F4A7C15


def longest_cluster(ledger: Ledger) -> int:
    taken = ledger._table.reshape(-1, 3)[:, 2] != 0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], taken.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max())


def test_roots_cannot_be_chosen_to_share_a_home() -> None:
    """With a fixed multiplier these 100,000 roots share one home slot, and expiry is quadratic."""
    inverse = pow(GOLDEN, -1, 2**64)
    roots = np.array([rank * inverse % 2**64 for rank in range(100_000)], dtype=np.uint64)
    ledger = RuleLedger(SETTINGS)
    ledger.init(roots, roots | np.uint64(1), SpoutAddress("t", 0, TICK_MS))
    assert longest_cluster(ledger) < 2_000
    expired = ledger.advance(100)
    assert sorted(expired.roots.tolist()) == sorted(roots.tolist())


def test_spout_tasks_without_open_trees_are_dropped() -> None:
    ledger = RuleLedger(SETTINGS)
    one = np.ones(1, dtype=np.uint64)
    kept = SpoutAddress("kept", 0, TICK_MS)
    ledger.init(column(1), one, kept)
    for tick in range(1, 6):
        for number in range(2_000):
            root = column(1_000_000 * tick + number)
            ledger.init(root, one, SpoutAddress(f"t{tick}", number, TICK_MS))
            ledger.ack(root, one)
        ledger.reset(column(1))
        ledger.advance(tick)
    assert len(ledger._spouts) < 5_000
    (outcome,) = [ledger.ack(column(1), one)]
    assert [ledger.spout(index) for index in outcome.spouts.tolist()] == [kept]


def test_a_clock_jump_of_the_broker_delays_no_timeout() -> None:
    log, owned = Log(), Owned(new_fold(), None, since=0.0)
    fold = owned.fold
    log.now_ms = START_MS + 3_600_000
    fold.apply([log.send(inits=[(1, 1)], acks=[(1, 1)])])
    owned.read(0.0)
    log.now_ms = START_MS
    fold.apply([log.send(inits=[(2, 5)])])
    timed_out: list[int] = []
    for tenth in range(1, 30):
        # Other trees come and go, with append times that the ledger's clock has passed.
        log.now_ms += TICK_MS
        fold.apply([log.send(inits=[(100 + tenth, 1)], acks=[(100 + tenth, 1)])])
        now = tenth * TICK_MS / 1000
        owned.read(now)
        timed_out += [root for _, root, what in outcomes(fold.advance(owned.now_ms(now))) if what == "timeout"]
    assert timed_out == [2]
    assert fold.progress.rebuild_from > 2
