"""Messages that a spout has skipped change a state when they are read later, and messages that it has read do not."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spout_sdk import KafkaSpout, TopologyBuilder, declare
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.state_rig import Count, translate
from tuple_tree.source_commits import SourceCommit

GROUP = "skipping.lines"


def cluster_of(first_poll: Any) -> SimulatedCluster:
    builder = TopologyBuilder("skipping", ack_partitions=1)
    builder.set_spout(
        "lines", KafkaSpout("text", streams=[declare({"word": str})], translate=translate, first_poll=first_poll)
    )
    builder.set_bolt("count", Count).fields_grouping("lines", "word")
    return SimulatedCluster(builder.build())


def produce(cluster: SimulatedCluster, *words: str) -> None:
    for word in words:
        cluster.produce("text", word)
    cluster.advance(4)


def reset(cluster: SimulatedCluster, offset: int) -> None:
    """As a tool of Kafka does while the spout is stopped."""
    cluster.pause("lines")
    cluster.broker.commit(GROUP, [TopicPartition("text", 0, offset)])
    cluster.kill("lines")
    cluster.resume("lines")
    cluster.advance(4)


@pytest.mark.parametrize("kill", [True, False])
def test_messages_before_the_beginning_at_the_latest_one_count_when_they_are_read(kill: bool) -> None:
    with cluster_of("uncommitted_latest") as cluster:
        for word in ("a", "b"):
            cluster.produce("text", word)
        produce(cluster)
        produce(cluster, "c")
        if kill:
            cluster.kill("lines")
            cluster.advance(4)
        assert cluster.state("count") == {"c": 1}
        reset(cluster, 0)
        assert cluster.state("count") == {"a": 1, "b": 1, "c": 1}


def test_messages_that_an_operator_has_skipped_count_when_they_are_read() -> None:
    with cluster_of("uncommitted_earliest") as cluster:
        produce(cluster, "a")
        cluster.pause("lines")
        produce(cluster, "b", "c")
        reset(cluster, 2)
        assert cluster.state("count") == {"a": 1, "c": 1}
        commit = cluster.broker.committed(GROUP, "text", 0)
        assert commit is not None
        assert SourceCommit.read(commit.offset, commit.metadata).begin == 2
        reset(cluster, 0)
        assert cluster.state("count") == {"a": 1, "b": 1, "c": 1}
