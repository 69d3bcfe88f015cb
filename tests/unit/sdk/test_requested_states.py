"""The messages that a spout emits in each requested state of its topology."""

from typing import Any

import pytest

from spout_sdk import RetryPolicy, Spout, TopologyBuilder, declare
from spout_sdk.testing import SimulatedCluster
from tests.components import Sink
from tests.unit.sdk.kafka_spout_rig import Rig
from tuple_tree.control import ControlState

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0)


@pytest.mark.parametrize(
    ("state", "emitted"), [("running", [1, 2, 3]), ("draining", [1]), ("paused", []), ("stopped", []), (None, [])]
)
def test_a_kafka_spout_emits_what_the_state_allows(state: ControlState | None, emitted: list[int]) -> None:
    rig = Rig([0, 1], retry=AT_ONCE)
    rig.work()
    assert rig.offsets() == [0, 1]
    rig.request(state)
    rig.fill((2, 3))
    rig.notify(0)
    rig.fail(1)
    rig.work(1)
    rig.work(1)
    assert sorted(rig.offsets()) == emitted
    assert rig.stats.pending == len(emitted)
    assert rig.stats.retrying == (0 if emitted else 1)
    assert rig.committed == 1, "what ends is committed in every state"
    rig.request("running")
    rig.work(1)
    assert sorted([*emitted, *rig.offsets()]) == [1, 2, 3]


@pytest.mark.parametrize("commits", [True, False])
def test_a_draining_successor_of_a_killed_process_emits_what_that_had_open(commits: bool) -> None:
    rig = Rig(range(200), topics={"source": 2}, max_pending=40)
    rig.fill(range(200), partition=1)
    rig.work()
    emitted = set(rig.positions())
    rig.notify(*{offset for partition, offset, _ in emitted if partition == 0 and offset % 2})
    if commits:
        rig.work(2)
        emitted |= set(rig.positions())
    left = {(partition, offset) for partition, offset, _ in emitted if partition or offset % 2 == 0 or not commits}
    limits = [rig.commit(partition).emitted_to for partition in (0, 1)]
    rig.restart()
    rig.request("draining")
    done: set[tuple[int, int]] = set()
    for _ in range(20):
        rig.work(0.1)
        again = [(partition, offset) for partition, offset, _ in rig.positions()]
        for partition in (0, 1):
            rig.notify(*(offset for at, offset in again if at == partition), partition=partition)
        done.update(again)
    assert (rig.stats.retrying, rig.stats.pending) == (0, 0)
    assert done >= left
    beyond = {(partition, offset) for partition, offset in done if offset >= limits[partition]}
    assert not beyond, "new messages as far as the killed process might have emitted them"
    rig.work(2)
    assert [rig.commit(partition).open_runs(200) for partition in (0, 1)] == [[], []]
    rig.request("running")
    rig.work()
    assert not {(partition, offset) for partition, offset, _ in rig.positions()} & (left | done)


def test_messages_that_wait_to_be_read_again_or_for_their_dead_letter_are_open() -> None:
    rig = Rig([0, 1], retry=RetryPolicy(max_retries=1))
    rig.sink.holds_back = True
    rig.work()
    rig.notify(1)
    rig.request("draining")
    rig.is_down = True
    rig.fail(0)
    assert (rig.stats.pending, rig.stats.retrying) == (0, 1), "it is being read"
    rig.is_down = False
    for seconds in (11, 1, 1):
        rig.work(seconds)
    assert (rig.stats.pending, rig.stats.retrying) == (1, 0)
    rig.fail(0)
    rig.work(2)
    assert len(rig.letters()) == 1
    assert (rig.stats.pending, rig.stats.retrying) == (0, 1)
    assert rig.commit().open_runs(2) == [(0, 1)]
    rig.sink.to(".dead-letters")[-1].deliver()
    rig.work(2)
    assert rig.stats.retrying == 0
    assert rig.commit().open_runs(2) == []


class Numbers(Spout):
    """Emits while some are left."""

    streams = (declare({"number": int}),)
    calls = left = 0

    def open(self, _context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.calls += 1
        if self.left:
            self.left -= 1
            self.collector.emit((self.left,), message_id=self.left)


def test_a_spout_is_called_only_while_the_topology_runs() -> None:
    builder = TopologyBuilder("t", ack_partitions=1)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("see", Sink).local_grouping("numbers")
    with SimulatedCluster(builder) as cluster:
        spout = cluster.spout("numbers")
        states: tuple[ControlState, ...] = ("draining", "running", "paused")
        for state in states:
            cluster.request(state)
            cluster.advance(0.5)
            spout.left, before = 5, spout.calls
            cluster.advance(0.5)
            assert (spout.left, spout.calls > before) == ((0, True) if state == "running" else (5, False))
        assert (cluster.stats("see").executed, cluster.pending("numbers")) == (10, [])
