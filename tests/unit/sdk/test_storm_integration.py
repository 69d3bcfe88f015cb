"""What Storm's own integration tests check of a topology, on the simulated cluster."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailReason,
    Failure,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.testing import SimulatedCluster, complete_topology

NUMBER = declare({"number": int})
WORD = declare({"word": str})


class Words(Spout):
    streams = (WORD,)

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Numbers(Spout):
    streams = (NUMBER,)

    def next_tuple(self) -> None:
        """Has nothing to emit."""


# What is checked must not depend on who has a turn when.
in_all_orders = pytest.mark.parametrize("seed", range(10))


class WordCounter(BasicBolt):
    streams = (declare({"word": str, "count": int}),)

    def prepare(self, context: TaskContext) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.counts[tuple_["word"]] += 1
        collector.emit((tuple_["word"], self.counts[tuple_["word"]]))


class GlobalCount(BasicBolt):
    streams = (NUMBER,)

    def prepare(self, context: TaskContext) -> None:
        self.count = 0

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.count += 1
        collector.emit((self.count,))


class Acking(Bolt):
    """What the bolts here have in common."""

    streams = (NUMBER,)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context = context
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        """Is never run here."""


class Branch(Acking):
    """Emits so many tuples anchored to its input."""

    def __init__(self, branches: int) -> None:
        self.branches = branches

    def execute(self, tuple_: Tuple) -> None:
        for branch in range(self.branches):
            self.collector.emit((branch,), tuple_)
        self.collector.ack(tuple_)


class Aggregate(Acking):
    """Emits one tuple anchored to so many inputs."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        if len(self.held) == self.size:
            self.collector.emit((len(self.held),), self.held)
            for held in self.held:
                self.collector.ack(held)
            self.held.clear()


class AnchorTwice(Acking):
    """Emits a tuple anchored twice to the same input."""

    def execute(self, tuple_: Tuple) -> None:
        self.collector.emit((0,), [tuple_, tuple_])
        self.collector.ack(tuple_)


class Ack(Acking):
    def execute(self, tuple_: Tuple) -> None:
        self.collector.ack(tuple_)


@in_all_orders
def test_basic_topology(seed: int) -> None:
    builder = TopologyBuilder("basic")
    builder.set_spout("words", Words, tasks=3)
    builder.set_bolt("count", WordCounter, tasks=4).fields_grouping("words", "word")
    builder.set_bolt("all-words", GlobalCount).global_grouping("words")
    builder.set_bolt("all-counts", GlobalCount).global_grouping("count")
    words = ("nathan", "bob", "joey", "nathan")
    done = complete_topology(builder.build(), sources={"words": [(word,) for word in words]}, seed=seed)
    assert sorted(done.emitted("words")) == sorted((word,) for word in words)
    assert sorted(done.emitted("count")) == [("bob", 1), ("joey", 1), ("nathan", 1), ("nathan", 2)]
    assert done.emitted("all-words") == done.emitted("all-counts") == [(1,), (2,), (3,), (4,)]
    assert sorted(done.acked("words")) == [0, 1, 2, 3]
    assert not done.failed("words")
    counters = [done.bolt("count", task).counts for task in range(4)]
    assert sum(counters, Counter()) == Counter(words)


def test_every_task_receives_a_copy_with_an_all_grouping() -> None:
    class Tell(Acking):
        def execute(self, tuple_: Tuple) -> None:
            self.collector.emit((self.context.task,), tuple_)
            self.collector.ack(tuple_)

    builder = TopologyBuilder("tasks")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("tell", Tell, tasks=3).all_grouping("numbers")
    builder.set_bolt("again", Tell, tasks=2).all_grouping("tell")
    done = complete_topology(builder.build(), sources={"numbers": [(7,)]})
    assert sorted(done.emitted("tell")) == [(0,), (1,), (2,)]
    assert sorted(done.emitted("again")) == [(0,)] * 3 + [(1,)] * 3
    assert done.acked("numbers") == [0]


class Tracker:
    """What was acked since it was last asked, as Storm's tests count it."""

    def __init__(self, cluster: SimulatedCluster, spout: str) -> None:
        self.cluster = cluster
        self.spout = spout
        self.seen = 0

    def feed(self) -> None:
        self.cluster.feed(self.spout, (1,))
        self.cluster.run_until_idle()

    def new_acks(self) -> int:
        before, self.seen = self.seen, len(self.cluster.acked(self.spout))
        return self.seen - before


def fan_out() -> Topology:
    """Three spouts, branched 2, 4 and 1 times into an aggregator of three, branched twice again."""
    builder = TopologyBuilder("fan-out")
    for spout, branches in (("a", 2), ("b", 4), ("c", 1)):
        builder.set_spout(spout, Numbers)
        builder.set_bolt(f"branch-{spout}", partial(Branch, branches)).shuffle_grouping(spout)
    aggregate = builder.set_bolt("aggregate", partial(Aggregate, 3))
    for spout in "abc":
        aggregate.shuffle_grouping(f"branch-{spout}")
    builder.set_bolt("branch-all", partial(Branch, 2)).shuffle_grouping("aggregate")
    builder.set_bolt("ack", Ack).shuffle_grouping("branch-all")
    return builder.build()


@in_all_orders
def test_acking_of_fan_outs_into_a_multi_anchoring_aggregator(seed: int) -> None:
    with SimulatedCluster(fan_out(), sources={"a": [], "b": [], "c": []}, seed=seed) as cluster:
        a, b, c = (Tracker(cluster, spout) for spout in "abc")
        a.feed()  # 2 in the aggregator
        assert a.new_acks() == 0
        b.feed()  # 6, and so none
        assert (a.new_acks(), b.new_acks()) == (1, 1)
        a.feed()  # 2
        assert a.new_acks() == 0
        c.feed()  # 3, and so none
        assert (a.new_acks(), b.new_acks(), c.new_acks()) == (1, 0, 1)
        c.feed()
        c.feed()  # 2
        assert c.new_acks() == 0
        c.feed()
        assert c.new_acks() == 3
        b.feed()  # 4, and so 1, of a tree that is still open
        assert b.new_acks() == 0
        a.feed()  # 3, and so none
        assert (a.new_acks(), b.new_acks()) == (1, 1)
        assert not any(cluster.pending(spout) or cluster.failed(spout) for spout in "abc")


@in_all_orders
def test_ack_branching(seed: int) -> None:
    builder = TopologyBuilder("branching")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("left", partial(Branch, 1)).shuffle_grouping("numbers")
    builder.set_bolt("right", partial(Branch, 1)).shuffle_grouping("numbers")
    aggregate = builder.set_bolt("aggregate", partial(Aggregate, 4))
    aggregate.shuffle_grouping("left").shuffle_grouping("right")
    with SimulatedCluster(builder.build(), sources={"numbers": []}, seed=seed) as cluster:
        tracker = Tracker(cluster, "numbers")
        for _ in range(2):
            tracker.feed()
            assert tracker.new_acks() == 0
            tracker.feed()
            assert tracker.new_acks() == 2


def test_the_same_anchor_twice() -> None:
    builder = TopologyBuilder("twice")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("twice", AnchorTwice).shuffle_grouping("numbers")
    builder.set_bolt("ack", Ack).shuffle_grouping("twice")
    with SimulatedCluster(builder.build(), sources={"numbers": []}) as cluster:
        tracker = Tracker(cluster, "numbers")
        for _ in range(2):
            tracker.feed()
            assert tracker.new_acks() == 1
        (first, _) = cluster.emissions("twice")
        assert len(first.anchors) == 2
        assert first.roots == cluster.emissions("numbers")[0].roots


def test_a_bolt_anchors_to_what_it_sends_itself() -> None:
    class Countdown(Acking):
        def execute(self, tuple_: Tuple) -> None:
            if tuple_["number"]:
                self.collector.emit((tuple_["number"] - 1,), tuple_)
            self.collector.ack(tuple_)

    builder = TopologyBuilder("self")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("down", Countdown, tasks=2).shuffle_grouping("numbers").shuffle_grouping("down")
    done = complete_topology(builder.build(), sources={"numbers": [(5,)]})
    assert sorted(done.executed("down")) == [(number,) for number in range(6)]
    assert done.acked("numbers") == [0]


class AckEveryOther(Acking):
    """Acks the first tuple, forgets the second, and so on."""

    forgets = False

    def execute(self, tuple_: Tuple) -> None:
        if not self.forgets:
            self.collector.ack(tuple_)
        self.forgets = not self.forgets


def test_timeout() -> None:
    builder = TopologyBuilder("timeout", message_timeout=10)
    builder.set_spout("words", Words)
    builder.set_bolt("ack", AckEveryOther).global_grouping("words")
    with SimulatedCluster(builder.build(), sources={"words": []}) as cluster:
        for message_id, word in enumerate("abc", start=1):
            cluster.feed("words", (word,), message_id=message_id)
        cluster.advance(9)
        assert sorted(cluster.acked("words")) == [1, 3]
        assert not cluster.failed("words")
        assert cluster.pending("words") == [2]
        cluster.advance(2)
        assert cluster.failed("words") == [(2, Failure(FailReason.TIMEOUT))]
        assert not cluster.pending("words")


class KeepTheFirst(Acking):
    """Holds the first two tuples; each later one restarts the first one's clock, until the fifth acks it."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        super().prepare(context, collector)
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["word"] in "ab":
            self.held.append(tuple_)
            return
        if tuple_["word"] == "e":
            self.collector.ack(self.held[0])
        else:
            self.collector.reset_timeout(self.held[0])
        self.collector.ack(tuple_)


def test_reset_timeout() -> None:
    builder = TopologyBuilder("reset", message_timeout=10)
    builder.set_spout("words", Words)
    builder.set_bolt("keep", KeepTheFirst).global_grouping("words")
    with SimulatedCluster(builder.build(), sources={"words": []}) as cluster:
        for word in "ab":
            cluster.feed("words", (word,), message_id=word)
        for word in "cd":
            cluster.advance(9)
            cluster.feed("words", (word,), message_id=word)
        cluster.advance(2)
        assert cluster.acked("words") == ["c", "d"]
        assert [message_id for message_id, _ in cluster.failed("words")] == ["b"]
        cluster.feed("words", ("e",), message_id="e")
        cluster.run_until_idle()
        assert sorted(cluster.acked("words")) == ["a", "c", "d", "e"]
        assert len(cluster.failed("words")) == 1


def test_inactive_start() -> None:
    builder = TopologyBuilder("inactive", message_timeout=10)
    builder.set_spout("words", Words)
    builder.set_bolt("ack", Ack).global_grouping("words")
    with SimulatedCluster(builder.build(), sources={"words": [("a",)]}, paused=["words"]) as cluster:
        cluster.advance(60)
        assert not cluster.emitted("words")
        assert not cluster.executed("ack")
        cluster.resume("words")
        cluster.run_until_idle()
        assert cluster.emitted("words") == cluster.executed("ack") == [("a",)]
        assert cluster.acked("words") == [0]


class Replaying(Spout):
    """Emits ten words, and again those that fail."""

    streams = (WORD,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.left = [str(number) for number in range(10)]

    def next_tuple(self) -> None:
        if self.left:
            word = self.left.pop()
            self.collector.emit((word,), message_id=word)

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.left.append(message_id)


@in_all_orders
@pytest.mark.parametrize("victim", ["branch", "acker"])
def test_what_is_killed_on_the_way_is_made_up_for(seed: int, victim: str) -> None:
    builder = TopologyBuilder("killed")
    builder.set_spout("words", Replaying)
    builder.set_bolt("branch", partial(Branch, 2), tasks=2).shuffle_grouping("words")
    builder.set_bolt("ack", Ack, tasks=2).shuffle_grouping("branch")
    with SimulatedCluster(builder.build(), seed=seed) as cluster:
        opened = cluster.broker.appended
        for records in (5, 15, 25):
            cluster.run_until(lambda at=opened + records: cluster.broker.appended >= at)  # type: ignore[misc]
            if victim == "acker":
                cluster.kill_acker()
            else:
                opened += cluster.topology.manifest.ack_partitions  # the successor's session
                cluster.kill("branch", task=seed % 2)
        cluster.advance(120)
        assert sorted(cluster.acked("words")) == [str(number) for number in range(10)]
        assert not cluster.pending("words")
