"""The messages that a spout emits in each requested state of its topology."""

from typing import Any

import pytest

from spout_sdk import BasicBolt, RetryPolicy, Spout, TopologyBuilder, declare
from tests.unit.sdk.kafka_spout_rig import Rig, filled
from tests.unit.sdk.memory import Bench, made
from tuple_tree.control import ControlState

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0)


@pytest.mark.parametrize(
    ("state", "emitted"), [("running", [1, 2, 3]), ("draining", [1]), ("paused", []), ("stopped", []), (None, [])]
)
def test_a_kafka_spout_emits_what_the_state_allows(state: ControlState | None, emitted: list[int]) -> None:
    rig = Rig(filled(0, 1), retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == [0, 1]
    rig.task.control = state
    rig.topics.fill("source", 0, (2, 3))
    rig.notify(0)
    rig.fail(1)
    assert rig.task.retrying == 1
    rig.work(1)
    rig.work(1)
    assert sorted(rig.offsets()) == emitted
    assert rig.task.pending == len(emitted)
    assert rig.task.retrying == (0 if emitted else 1)
    assert rig.topics.committed("source") == 1, "what ends is committed in every state"
    rig.task.control = "running"
    rig.work(1)
    assert sorted([*emitted, *rig.offsets()]) == [1, 2, 3]


class Numbers(Spout):
    streams = (declare({"number": int}),)
    calls = 0

    def open(self, _context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.calls += 1
        self.collector.emit((self.calls,), message_id=self.calls)


class Executed(BasicBolt):
    executed = 0

    def execute(self, _tuple: Any, _collector: Any) -> None:
        type(self).executed += 1


def test_a_paused_spout_is_not_called_and_its_chained_bolts_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executed, "executed", 0)
    spouts: list[Numbers] = []
    builder = TopologyBuilder("t", ack_partitions=1, max_spout_pending=10)
    builder.set_spout("numbers", made(spouts, Numbers))
    builder.set_bolt("see", Executed).local_grouping("numbers")
    task = Bench(builder.build()).spout("numbers", 0)
    task.control = "draining"
    assert not task.emit(64)
    assert spouts[-1].calls == 0
    task.control = "running"
    task.emit(5)
    task.control = "paused"
    task.emit(64)
    task.flush()
    assert spouts[-1].calls == Executed.executed
    assert spouts[-1].calls
    assert task.pending == 0
