"""The executed tuples of a task and their time are counted in every way of execution."""

import math
from typing import Any

import pytest

from spout_sdk import ArrowBolt, BasicBolt, BatchBolt, Bolt, FailTupleError, TopologyBuilder, declare
from tests.components import source
from tests.packs import under_seed
from tests.unit.sdk.memory import Bench, ManualClock, execute

ROWS = declare({"row": int})
EACH = 0.25
"""Seconds that a tuple takes."""


Rows = source(ROWS)


class Slow:
    clock: ManualClock

    def take(self, tuples: int) -> None:
        self.clock.advance(EACH * tuples)


class Basic(Slow, BasicBolt):
    def execute(self, tuple_: Any, _collector: Any) -> None:
        self.take(1)
        if tuple_["row"] == 3:
            raise FailTupleError("later")


class Plain(Slow, Bolt):
    def execute(self, _tuple: Any) -> None:
        self.take(1)


class Batch(Slow, BatchBolt):
    def execute_batch(self, tuples: Any) -> None:
        self.take(len(tuples))


class Arrow(Slow, ArrowBolt):
    def execute_batch(self, batch: Any, _collector: Any) -> None:
        self.take(batch.num_rows)


@pytest.mark.parametrize("bolt", [Basic, Plain, Batch, Arrow])
def test_a_task_counts_its_tuples_and_the_time_that_they_took(bolt: Any) -> None:
    builder = TopologyBuilder("rows")
    builder.set_spout("rows", Rows)
    builder.set_bolt("slow", bolt, tasks=2).shuffle_grouping("rows")
    bench = Bench(builder.build())
    task: Any = bench.bolt("slow", 1)
    task.bolt.clock = bench.clock
    rows = [(row,) for row in range(30)]
    for several in (rows, rows[:1], rows[:5]):
        edges = under_seed(row + 1 for (row,) in several)
        record = bench.pack("slow", several, edges, source="rows/default", task=1)
        if task.takes != "tuples":
            execute(task, record)
        else:
            left = iter(task.read(record))
            while not task.execute(left, bench.clock() + 1):
                bench.clock.advance(7)  # what is done between tuples does not count
    assert math.isclose(bench.counters.load(1).busy_seconds, 36 * EACH)
    assert bench.counters.load(1).executed == bench.counters.executed == 36
    assert bench.counters.loads.keys() == {1}
