"""The table of the ledger: any number of trees, growing, shrinking, crowded."""

import numpy as np
import pytest
from numpy.typing import NDArray

from acker_worker import kernels
from acker_worker.ledger import CHUNK, SMALLEST, LedgerSettings
from tests.unit.acker_worker.rule_ledger import INVERSE, RuleLedger
from tuple_tree.messages import SpoutAddress

SETTINGS = LedgerSettings(tick_ms=1_000, max_age_ms=300_000, orphan_timeout_ms=30_000)
SPOUT = SpoutAddress("t.notices.s", 0, 30_000)
Ids = NDArray[np.uint64]


def random_ids(rng: np.random.Generator, count: int) -> Ids:
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)


COUNT = 100_000
CROWD = 3 * kernels.SPARE


@pytest.mark.parametrize(
    "roots",
    [
        pytest.param(np.arange(COUNT, dtype=np.uint64) * np.uint64(1024) + np.uint64(5), id="of one ack partition"),
        pytest.param(np.array([(2**64 - 1 - n) * INVERSE % 2**64 for n in range(CROWD)], np.uint64), id="last home"),
    ],
)
def test_grows_and_shrinks_and_keeps_every_record(roots: Ids) -> None:
    """Roots of one residue class, or with the highest keys of all, which crowd over the end of the table."""
    rng, count = np.random.default_rng(7), len(roots)
    vals = random_ids(rng, count)
    ledger = RuleLedger(SETTINGS)
    small = ledger.table_bytes
    for part in np.array_split(np.arange(count), 10):
        ledger.init(roots[part], vals[part], SPOUT)
        assert ledger.load <= 0.67
    assert len(ledger) == count
    assert ledger.table_bytes <= max(48 * count, 2 * small)
    assert ledger.records() == {
        root: (val, True, False, False) for root, val in zip(roots.tolist(), vals.tolist(), strict=True)
    }
    order = rng.permutation(count)
    acked = [ledger.ack(roots[part], vals[part]) for part in np.array_split(order, 100)]
    assert np.array_equal(np.concatenate([part.roots for part in acked]), roots[order])
    assert len(ledger) == 0
    assert ledger.table_bytes <= 2 * small


def test_many_trees_expire_at_once() -> None:
    count = 3 * CHUNK + 17
    roots = random_ids(np.random.default_rng(3), count)
    ledger = RuleLedger(SETTINGS)
    ledger.init(roots, np.ones(count, dtype=np.uint64), SPOUT)
    assert not ledger.expires_by(30)
    assert ledger.expires_by(31)
    outcomes = ledger.advance(31)
    assert sorted(outcomes.roots.tolist()) == sorted(roots.tolist())
    assert (outcomes.kinds == kernels.TIMED_OUT).all()
    assert ledger.table_bytes < 48 * SMALLEST


def test_each_spout_has_its_own_timeout() -> None:
    ledger = RuleLedger(LedgerSettings(tick_ms=10, max_age_ms=1_000, orphan_timeout_ms=20))
    for number, timeout_ms in enumerate([10, 30, 200]):
        root = np.array([number], dtype=np.uint64)
        ledger.init(root, root + np.uint64(1), SpoutAddress("t.notices.s", number, timeout_ms))
    ended = {tick: ledger.advance(tick).roots.tolist() for tick in range(1, 30)}
    assert {tick: roots for tick, roots in ended.items() if roots} == {2: [0], 4: [1], 21: [2]}


def test_a_pause_longer_than_the_tick_span_expires_each_tree_once() -> None:
    ledger = RuleLedger(SETTINGS)
    root = np.array([4], dtype=np.uint64)
    for far in (1, 2, 3):
        ledger.init(root, root, SPOUT)
        outcomes = ledger.advance(far * (kernels.TICK_SPAN + 12_345))
        assert outcomes.kinds.tolist() == [kernels.TIMED_OUT]
        assert len(ledger) == 0


def test_the_oldest_trees_come_first_and_orphans_not_at_all() -> None:
    ledger = RuleLedger(LedgerSettings(tick_ms=1, max_age_ms=5_000, orphan_timeout_ms=500))
    # Across the tick at which births begin again at zero.
    first = kernels.TICK_SPAN - 2
    roots = random_ids(np.random.default_rng(7), 60)
    for number, root in enumerate(roots):
        ledger.advance(first + number // 10)
        ledger.init(root.reshape(1), np.array([5], dtype=np.uint64), SpoutAddress("t.notices.s", 0, 500))
    ledger.ack(np.array([1, 2], dtype=np.uint64), np.array([1, 2], dtype=np.uint64))
    ledger.ack(roots[:5], np.full(5, 5, dtype=np.uint64))
    oldest = ledger.oldest(8)
    assert [birth for _, birth in oldest] == [first] * 5 + [first + 1] * 3
    assert {root for root, _ in oldest[:5]} == set(roots[5:10].tolist())
    assert {root for root, _ in ledger.oldest(1_000)} == set(roots[5:].tolist())
    assert RuleLedger(ledger.settings).oldest(3) == []
