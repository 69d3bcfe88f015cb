"""An input that is neither acked nor failed holds the committed offset for a limited time."""

import logging

import pytest

from spout_sdk import (
    Bolt,
    OutputCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.testing import SimulatedCluster
from tests.components import passing, source
from tests.contract.components import Hold, alone

Numbers = source(declare({"n": int}))


class AckTogether(Bolt):
    """Acks its tuples when it has two."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self._collector, self._held = collector, list[Tuple]()

    def execute(self, tuple_: Tuple) -> None:
        self._held.append(tuple_)
        if len(self._held) == 2:
            for each in self._held:
                self._collector.ack(each)


def test_an_input_older_than_any_tree_is_settled_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    builder = TopologyBuilder("forgetful", message_timeout=2, max_tree_age=10, pack_tuples=1)
    messages, _ = alone(builder, Hold("forgotten"))
    for word in ("a", "forgotten", "b", "c"):
        messages.add(word)
    with SimulatedCluster(builder.build()) as cluster:
        cluster.advance(11)
        assert messages.failed_ids == ["forgotten"]
        assert cluster.committed("bolt") == {0: 1}
        stats = cluster.stats("bolt")
        assert stats.oldest_input == "forgetful.tuples.bolt[0] offset 1"
        assert 10 <= stats.oldest_input_seconds <= 11
        with caplog.at_level(logging.ERROR, "spout_sdk"):
            cluster.advance(3)
        assert cluster.committed("bolt") == {0: 4}
        assert cluster.stats("bolt").counters == {"expired inputs": 1}
        assert (cluster.stats("bolt").pending, cluster.stats("bolt").oldest_input) == (0, "")
    (record,) = caplog.records
    assert "1 inputs of forgetful.tuples.bolt[0] were neither acked nor failed" in record.getMessage()
    assert "the first at offset 1." in record.getMessage()
    assert record.getMessage().endswith("acker trace --tuple bolt/0@1")


def test_an_acked_input_whose_tuples_wait_in_the_chain_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    builder = TopologyBuilder("waits", message_timeout=2, max_tree_age=10)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("pass", passing(*Numbers.streams)).shuffle_grouping("numbers")
    builder.set_bolt("hold", AckTogether).local_grouping("pass")
    with SimulatedCluster(builder.build(), sources={"numbers": [(1,)]}) as cluster:
        cluster.advance(14)
        assert len(cluster.failed("numbers")) == 1
        counters = {name: cluster.stats(name).counters for name in ("pass", "hold")}
        assert counters == {"pass": {}, "hold": {"expired inputs": 1}}
    (line,) = [each.getMessage() for each in caplog.records if "were neither acked nor failed" in each.getMessage()]
    assert line.startswith("hold/0: 1 inputs")


@pytest.mark.parametrize("is_chained", [False, True])
def test_an_ack_of_an_expired_input_has_no_effect(is_chained: bool) -> None:
    builder = TopologyBuilder("late", message_timeout=2, max_tree_age=10)
    builder.set_spout("numbers", Numbers)
    bolt = builder.set_bolt("bolt", AckTogether)
    bolt.local_grouping("numbers") if is_chained else bolt.shuffle_grouping("numbers")
    with SimulatedCluster(builder.build(), sources={"numbers": []}) as cluster:
        cluster.feed("numbers", (1,))
        cluster.advance(15)
        cluster.feed("numbers", (2,))
        cluster.advance(1)
        assert len(cluster.failed("numbers")) == 1
        assert len(cluster.acked("numbers")) == 1
