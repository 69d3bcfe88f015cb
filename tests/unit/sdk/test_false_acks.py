"""Open children never complete their tree, whatever packs and attempts they belong to."""

from spout_sdk import BasicBolt, BasicCollector, Bolt, OutputCollector, TaskContext, Topology, TopologyBuilder, Tuple
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.kit_words import Hold, Lines, Split

CHILDREN = 300


class Many(BasicBolt):
    """Emits more tuples than a pack has."""

    streams = Split.streams

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        for number in range(CHILDREN):
            collector.emit((f"{tuple_['line']} {number}",))


def topology(split: type[BasicBolt | Bolt]) -> Topology:
    builder = TopologyBuilder("many")
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", split).shuffle_grouping("lines")
    builder.set_bolt("hold", Hold).shuffle_grouping("split")
    return builder.build()


def test_children_of_two_packs_do_not_cancel() -> None:
    with SimulatedCluster(topology(Many), sources={"lines": [("a",)]}) as cluster:
        cluster.run_until_idle()
        hold = cluster.bolt("hold")
        assert len(hold.held) == CHILDREN
        packs = {tuple_.offset for tuple_ in hold.held}
        assert len(packs) > 1
        # The first of each pack stays open.
        hold.ack([tuple_ for tuple_ in hold.held if tuple_.index])
        cluster.advance(1)
        assert len(hold.held) == len(packs)
        while hold.held:
            assert cluster.acked("lines") == []
            hold.ack(hold.held[:1])
            cluster.advance(0.5)
        assert cluster.acked("lines") == [0]


def test_children_of_an_earlier_attempt_do_not_cancel() -> None:
    """A bolt is killed when its tuple is sent, and before its input is acked: it reads the input again."""

    class First(Bolt):
        streams = Split.streams
        is_first = True

        def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
            self.collector = collector

        def execute(self, tuple_: Tuple) -> None:
            self.collector.emit((tuple_["line"],), anchors=tuple_)
            if not First.is_first:
                self.collector.ack(tuple_)
            First.is_first = False

    with SimulatedCluster(topology(First), sources={"lines": [("a",)]}) as cluster:
        cluster.run_until(lambda: cluster.bolt("hold").held)
        cluster.kill("split")
        hold = cluster.bolt("hold")
        cluster.run_until(lambda: len(hold.held) > 1)
        cluster.advance(0.5)
        for _ in range(2):
            assert cluster.acked("lines") == []
            hold.ack(hold.held[:1])
            cluster.advance(0.5)
        assert cluster.acked("lines") == [], "the first attempt was not acked, and its tuple was"
