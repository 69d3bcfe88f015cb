"""After a restart only what is open is executed again, however much is done behind it."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from spout_sdk import Bolt, OutputCollector, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.testing import SimulatedCluster
from tests.components import source
from tuple_tree.manifest import Guarantee

Numbers = source(declare({"number": int}))


class Patient(Bolt):
    """Acks all inputs but the first of each task, which stays open for the first owner of the task."""

    def __init__(self, open_: dict[int, int], executed: Counter[int]) -> None:
        self.open, self.executed = open_, executed

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.task, self.collector = context.task, collector

    def execute(self, tuple_: Tuple) -> None:
        number = tuple_["number"]
        self.executed[number] += 1
        if self.open.setdefault(self.task, number) != number or self.executed[number] > 1:
            self.collector.ack(tuple_)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("end", ["restart", "kill"])
def test_only_the_open_inputs_are_executed_again(guarantee: Guarantee, end: str) -> None:
    tasks, messages = 10, 10_000 if guarantee == "at_least_once" else 2_000
    builder = TopologyBuilder("numbers", guarantee=guarantee, message_timeout=60)
    builder.set_spout("numbers", Numbers)
    open_, executed = dict[int, int](), Counter[int]()
    bolt: Any = partial(Patient, open_, executed)
    builder.set_bolt("patient", bolt, tasks=tasks).shuffle_grouping("numbers")
    sources = {"numbers": [(number,) for number in range(messages)]}
    with SimulatedCluster(builder.build(), sources=sources) as cluster:
        cluster.run_until(lambda: len(cluster.acked("numbers")) == messages - tasks)
        if end == "kill":
            cluster.advance(1.2)  # a commit and a bit
        for task in range(tasks):
            getattr(cluster, end)("patient", task)
        cluster.run_until(lambda: len(cluster.acked("numbers")) == messages)
    assert {number for number, times in executed.items() if times == 2} == set(open_.values())
    assert executed.total() == messages + tasks
