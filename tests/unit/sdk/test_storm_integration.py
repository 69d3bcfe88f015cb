"""Storm's integration tests of acking with several anchors and cycles, on the simulated cluster."""

from functools import partial

from spout_sdk import Bolt, OutputCollector, Spout, TaskContext, TopologyBuilder, Tuple, declare
from spout_sdk.testing import SimulatedCluster
from tests.seeds import each_seed

NUMBER = (declare({"number": int}),)


class Numbers(Spout):
    streams = NUMBER

    def next_tuple(self) -> None:
        """Has nothing to emit."""


class Branch(Bolt):
    """Emits so many tuples anchored to its input."""

    streams = NUMBER

    def __init__(self, branches: int) -> None:
        self.branches = branches

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        for branch in range(self.branches):
            self.collector.emit((branch,), tuple_)
        self.collector.ack(tuple_)


class Aggregate(Branch):
    """Emits one tuple anchored to three inputs."""

    def execute(self, tuple_: Tuple) -> None:
        self.held.append(tuple_)
        if len(self.held) == 3:
            self.collector.emit((len(self.held),), self.held)
            self.collector.ack_all(self.held)
            self.held.clear()


def test_fan_outs_into_a_multi_anchoring_aggregator() -> None:
    """Three spouts, branched 2, 4 and 1 times into an aggregator of three, branched twice again."""
    builder = TopologyBuilder("fan-out")
    aggregate = builder.set_bolt("aggregate", partial(Aggregate, 0))
    for spout, branches in (("a", 2), ("b", 4), ("c", 1)):
        builder.set_spout(spout, Numbers)
        builder.set_bolt(f"branch-{spout}", partial(Branch, branches)).shuffle_grouping(spout)
        aggregate.shuffle_grouping(f"branch-{spout}")
    builder.set_bolt("branch-all", partial(Branch, 2)).shuffle_grouping("aggregate")
    builder.set_bolt("ack", partial(Branch, 0)).shuffle_grouping("branch-all")
    topology = builder.build()

    # What is acked must not depend on the order in which tasks run.
    def check(seed: int) -> None:
        with SimulatedCluster(topology, sources={"a": [], "b": [], "c": []}, seed=seed) as cluster:
            # In the aggregator are then 2, 0, 2, 0, 1, 2, 0, 1 (of b's tree), 0 tuples.
            acked = ["", "ab", "ab", "aabc", "aabc", "aabc", "aabcccc", "aabcccc", "aaabbcccc"]
            for spout, expected in zip("abaccccba", acked, strict=True):
                cluster.feed(spout, (1,))
                cluster.run_until_idle()
                assert "".join(name * len(cluster.acked(name)) for name in "abc") == expected
            assert not any(cluster.pending(spout) or cluster.failed(spout) for spout in "abc")

    each_seed(check)
