"""The executed tuples of a task and their time are counted in every way of execution."""

from typing import Any

import pytest

from spout_sdk import FailTupleError, TopologyBuilder, declare
from tests.components import Emits, kinds, source
from tests.packs import under_seed
from tests.unit.sdk.bench import Bench, BenchClock

EACH = 0.25
"""Seconds that a tuple takes."""


class Here:
    clock: BenchClock


def work(values: Any, _context: Any) -> Emits:
    Here.clock.advance(EACH)
    if values == (29,):
        raise FailTupleError("later")
    return []


@pytest.mark.parametrize("bolt", kinds(work)[:4])
def test_a_task_counts_its_tuples_and_the_time_that_they_took(bolt: Any) -> None:
    builder = TopologyBuilder("rows")
    builder.set_spout("rows", source(declare({"row": int})))
    builder.set_bolt("slow", bolt, tasks=2).shuffle_grouping("rows")
    bench = Bench(builder.build())
    Here.clock = bench.clock
    task = bench.bolt("slow", 1)
    rows = [(row,) for row in range(30)]
    for several in (rows, rows[:1], rows[:5]):
        edges = under_seed(row + 1 for (row,) in several)
        bench.pack("slow", several, edges, source="rows/default", task=1)
        task.flush()
        bench.advance(7)  # what is done between tuples does not count
    stats = task.stats
    assert (stats.task_busy_ms["1"], stats.task_executed["1"], stats.executed) == (9_000, 36, 36)
