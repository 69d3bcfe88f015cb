"""The trees that all sides of a benchmark follow, the rates made of notices, and the arithmetic of many machines."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.ack_log import SilenceError, ToldNotice
from benchmarks.ledger_ids import BATCH, WindowIds
from benchmarks.scale import Assumptions, Costs, ack_bytes, notice_bytes, record_bytes, scale, varint
from benchmarks.worker import rate


def test_every_ack_is_of_a_tree_that_is_pending_by_then(tmp_path: Path) -> None:
    ids = WindowIds.drawn(pending=3 * BATCH + 7, turns=5 * BATCH)
    assert len(set(ids.roots.tolist())) == len(ids.roots) == ids.pending + ids.turns
    assert len(set(ids.order.tolist())) == ids.turns
    for start in range(0, ids.turns, BATCH):
        assert ids.order[start : start + BATCH].max() < ids.pending + start
    ids.save(tmp_path / "ids")
    read = WindowIds.load(tmp_path / "ids", ids.pending, ids.turns)
    for name in ("roots", "vals", "order"):
        assert (getattr(read, name) == getattr(ids, name)).all()


class Filled:
    """A log of two partitions, ten records of a hundred entries in each."""

    def entries(self) -> list[NDArray[np.int64]]:
        return [np.arange(0, 1_100, 100), np.arange(0, 1_100, 100)]


def test_a_rate_begins_with_the_first_notice_of_the_last_partition() -> None:
    notices = [
        ToldNotice(partition=0, position=2, at_ms=1_000, trees=1),
        ToldNotice(partition=0, position=4, at_ms=1_900, trees=1),
        ToldNotice(partition=1, position=3, at_ms=2_000, trees=1),
        ToldNotice(partition=0, position=10, at_ms=3_000, trees=1),
        ToldNotice(partition=1, position=10, at_ms=4_000, trees=1),
    ]
    # Six records of the first partition and seven of the second, in two seconds.
    assert rate(Filled(), notices) == pytest.approx(13 * 100 / 2)
    short = [ToldNotice(0, 2, 1_000, 1), ToldNotice(1, 10, 1_010, 1), ToldNotice(0, 10, 1_050, 1)]
    with pytest.raises(SilenceError, match="in 40 ms"):
        rate(Filled(), short)


def test_what_a_million_trees_a_second_take() -> None:
    # An entry is sixteen bytes and a notice eight; what is around the columns grows by a byte or two.
    assert ack_bytes(4_000, inits=True) - ack_bytes(2_000, inits=True) == pytest.approx(16 * 2_000, abs=8)
    assert notice_bytes(4_000) - notice_bytes(2_000) == pytest.approx(8 * 2_000, abs=8)
    assert [varint(number) for number in (-1, 0, 63, 64, 8_191, 8_192)] == [1, 1, 1, 2, 2, 3]
    # Length, attributes, time, offset, no key, value, no headers.
    assert record_bytes(5, {}, 0) == 1 + 1 + 1 + 1 + 1 + (1 + 5) + 1
    costs = Costs(spout=6, bolt=5, last=4, ack_record=10, ack_entry=0.05)
    found = scale(Assumptions(rate=1e6, hops=3, partitions=8, linger_ms=5, use=0.5), costs)
    assert (found.spouts, found.bolts, found.lasts, found.writers) == (12, 20, 8, 40)
    assert found.ack_batches == 40 * 8 * 200
    assert found.entries_a_batch == pytest.approx(4e6 / 64_000)
    assert found.acker_processors == pytest.approx(0.64 + 0.2)
    assert found.ackers == 2
    # Half a processor, less the entries of a partition, over 200 batches a second of 10 microseconds.
    assert found.most_writers == int((0.5 - 0.025) / 0.002)
    assert found.ledger_mb == pytest.approx(1e5 * 48 / 1e6)
