"""The trees that all sides of a benchmark follow, and the rate that is made of the notices."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.ack_log import SilenceError, ToldNotice
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.worker import rate


def test_every_ack_is_of_a_tree_that_is_pending_by_then(tmp_path: Path) -> None:
    ids = WindowIds.drawn(pending=3 * BATCH + 7, turns=5 * BATCH)
    assert len(set(ids.roots.tolist())) == len(ids.roots) == ids.pending + ids.turns
    assert len(set(ids.order.tolist())) == ids.turns
    for start in range(0, ids.turns, BATCH):
        assert ids.order[start : start + BATCH].max() < ids.pending + start
    assert ids.order.tolist() != sorted(ids.order.tolist())

    ids.save(tmp_path / "ids")
    read = WindowIds.load(tmp_path / "ids", ids.pending, ids.turns)
    assert (read.roots == ids.roots).all()
    assert (read.vals == ids.vals).all()
    assert (read.order == ids.order).all()


class Filled:
    """A log of two partitions, ten records of a hundred entries in each."""

    def entries(self) -> list[NDArray[np.int64]]:
        return [np.arange(0, 1_100, 100), np.arange(0, 1_100, 100)]


def test_a_rate_begins_when_the_last_partition_has_told_something() -> None:
    notices = [
        ToldNotice(partition=0, position=2, at_ms=1_000, trees=1),
        ToldNotice(partition=0, position=4, at_ms=1_900, trees=1),
        ToldNotice(partition=1, position=3, at_ms=2_000, trees=1),
        ToldNotice(partition=0, position=10, at_ms=3_000, trees=1),
        ToldNotice(partition=1, position=10, at_ms=4_000, trees=1),
    ]
    # Six records of the first partition and seven of the second, in two seconds.
    assert rate(Filled(), notices) == pytest.approx(13 * 100 / 2)


def test_what_is_too_short_is_not_a_rate() -> None:
    notices = [ToldNotice(0, 2, 1_000, 1), ToldNotice(1, 10, 1_010, 1), ToldNotice(0, 10, 1_050, 1)]
    with pytest.raises(SilenceError, match="in 40 ms"):
        rate(Filled(), notices)
