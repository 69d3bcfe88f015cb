"""The executed tuples of a task and their time are counted in every way of execution."""

import math
from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import FailTupleError, TopologyBuilder, declare
from tests.components import Emits, kinds, source
from tests.packs import under_seed
from tests.unit.sdk.memory import Bench, ManualClock

EACH = 0.25
"""Seconds that a tuple takes."""

clock = ManualClock()


def work(values: Any, _context: Any) -> Emits:
    clock.advance(EACH)
    if values == (29,):
        raise FailTupleError("later")
    return []


@pytest.mark.parametrize("bolt", kinds(work)[:4])
def test_a_task_counts_its_tuples_and_the_time_that_they_took(bolt: Any) -> None:
    builder = TopologyBuilder("rows")
    builder.set_spout("rows", source(declare({"row": int})))
    builder.set_bolt("slow", bolt, tasks=2).shuffle_grouping("rows")
    bench = Bench(builder.build())
    bench.environment = replace(bench.environment, clock=clock)
    task: Any = bench.bolt("slow", 1)
    rows = [(row,) for row in range(30)]
    for several in (rows, rows[:1], rows[:5]):
        edges = under_seed(row + 1 for (row,) in several)
        record = bench.pack("slow", several, edges, source="rows/default", task=1)
        task.read(record)
        while not task.run(clock() + 1):
            clock.advance(7)  # what is done between tuples does not count
    assert math.isclose(bench.counters.load(1).busy_seconds, 36 * EACH)
    assert bench.counters.load(1).executed == bench.counters.executed == 36
    assert bench.counters.loads.keys() == {1}
