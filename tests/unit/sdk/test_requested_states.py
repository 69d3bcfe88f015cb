"""The messages that a spout emits in each requested state of its topology."""

from typing import Any

import pytest

from spout_sdk import BasicBolt, RetryPolicy, Spout, TopologyBuilder, declare
from tests.unit.sdk.bench import made
from tests.unit.sdk.kafka_spout_rig import Rig, filled
from tests.unit.sdk.memory import Bench
from tuple_tree.control import ControlState
from tuple_tree.source_partition import LEAST_AHEAD

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


@pytest.mark.parametrize("commits", [True, False])
def test_a_draining_successor_of_a_killed_process_emits_what_that_had_open(commits: bool) -> None:
    topics = filled(*range(200), source=2)
    topics.fill("source", 1, range(200))
    rig = Rig(topics, max_pending=40)
    rig.work()
    emitted = set(rig.positions())
    rig.notify(*{offset for partition, offset, _ in emitted if partition == 0 and offset % 2})
    if commits:
        rig.work(2)
        emitted |= set(rig.positions())
    left = {(partition, offset) for partition, offset, _ in emitted if partition or offset % 2 == 0 or not commits}
    rig.restart()
    rig.task.control = "draining"
    done: set[tuple[int, int]] = set()
    for _ in range(20):
        rig.work(0.1)
        again = [(partition, offset) for partition, offset, _ in rig.positions()]
        for partition in (0, 1):
            rig.notify(*(offset for at, offset in again if at == partition), partition=partition)
        done.update(again)
    assert (rig.task.retrying, rig.task.pending) == (0, 0)
    assert done >= left
    assert len(done - left) <= 2 * 2 * LEAST_AHEAD, "new messages as far as the killed process might have emitted them"
    rig.work(2)
    assert all(commit.open_runs(200) == [] for commit in topics.commits.values())
    rig.task.control = "running"
    rig.work()
    assert not {(partition, offset) for partition, offset, _ in rig.positions()} & (left | done)


def test_messages_that_wait_to_be_read_again_or_for_their_dead_letter_are_open() -> None:
    rig = Rig(filled(0, 1), retry=RetryPolicy(max_retries=1))
    rig.bench.sink.holds_back = True
    rig.work()
    rig.notify(1)
    rig.task.control = "draining"
    rig.fail(0)
    rig.task.tick(rig.clock.advance(0))
    assert rig.source.wanted, "it is being read"
    assert (rig.task.pending, rig.task.retrying) == (0, 1)
    rig.work()
    assert (rig.task.pending, rig.task.retrying) == (1, 0)
    rig.fail(0)
    rig.work(2)
    assert len(rig.letters()) == 1
    assert (rig.task.pending, rig.task.retrying) == (0, 1)
    (commit,) = rig.topics.commits.values()
    assert commit.open_runs(2) == [(0, 1)]
    rig.bench.sink.to(".dead-letters")[-1].deliver()
    rig.work(2)
    assert rig.task.retrying == 0
    (commit,) = rig.topics.commits.values()
    assert commit.open_runs(2) == []


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
