"""Topics of a simulated cluster that are not the topology's: what is read, written and refused, and when it begins."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest

from spout_sdk import FailReason, KafkaBolt, KafkaSpout, TopologyBuilder, Tuple
from spout_sdk.kafka_spout.translation import FirstPoll
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.kit_words import Hold
from tuple_tree.manifest import Guarantee


def cluster_of(spout: KafkaSpout, bolt: Callable[[], Any], **settings: Any) -> SimulatedCluster:
    builder = TopologyBuilder("topics", **settings)
    builder.set_spout("lines", spout)
    builder.set_bolt("bolt", bolt).shuffle_grouping("lines")
    return SimulatedCluster(builder.build(), topics={"text": 2, "out": 1})


def test_a_spout_with_too_many_uncommitted_offsets_rests_and_continues_after_an_ack() -> None:
    with cluster_of(KafkaSpout("text", max_uncommitted_offsets=2), Hold) as cluster:
        for number in range(4):
            cluster.produce("text", str(number))
        cluster.run_until_idle()
        assert cluster.emitted("lines") == [("0",), ("1",)]
        bolt = cluster.bolt("bolt")
        while bolt.held:
            bolt.ack(bolt.held[:1])
            cluster.advance(1)
        assert len(cluster.acked("lines")) == 4


@pytest.mark.parametrize("first_poll", get_args(FirstPoll))
def test_messages_that_a_test_appends_first_are_there_before_the_first_poll(first_poll: FirstPoll) -> None:
    with cluster_of(KafkaSpout("text", first_poll=first_poll), Hold) as cluster:
        cluster.produce("text", "earlier")
        cluster.run_until_idle()
        cluster.produce("text", "later")
        cluster.run_until_idle()
        begins_at_the_end = first_poll in ("latest", "uncommitted_latest")
        assert cluster.emitted("lines") == [("later",)] if begins_at_the_end else [("earlier",), ("later",)]


def published(guarantee: Guarantee, topic: str | Callable[[Tuple], Any], *values: str) -> SimulatedCluster:
    bolt = partial(KafkaBolt, topic, value=["value"], codec="bytes")
    with cluster_of(KafkaSpout("text"), bolt, guarantee=guarantee) as cluster:
        for value in values:
            cluster.produce("text", value)
        cluster.advance(0.01)
    return cluster


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("missing", "a record for topic missing was not delivered: .*Unknown topic"),
        (None, "TypeError: topic= of a KafkaBolt returned None: return the name of a topic"),
    ],
)
def test_a_record_for_a_topic_that_does_not_exist_fails_its_tuple(
    guarantee: Guarantee, topic: str | None, message: str
) -> None:
    done = published(guarantee, lambda tuple_: topic if tuple_["value"] == "bad" else "out", "good", "bad")
    assert [record.value() for record in done.records("out")] == [b"good"]
    assert len(done.acked("lines")) == 1
    reasons = {(failure.reason, failure.message) for _, failure in done.failed("lines")}
    ((reason, text),) = reasons
    assert reason is FailReason.FAILED
    assert re.match(message, text)


def test_the_topic_that_a_bolt_names_exists_as_with_acker_run_local() -> None:
    assert [record.value() for record in published("at_least_once", "named", "good").records("named")] == [b"good"]


class WriteElsewhere(Hold):
    def execute(self, tuple_: Tuple) -> None:
        self.collector.write(tuple_, "out", b"", partition=1)


def test_a_record_for_a_partition_that_does_not_exist_fails_its_tuple() -> None:
    with cluster_of(KafkaSpout("text"), WriteElsewhere) as cluster:
        cluster.produce("text", "x")
        cluster.run_until(lambda: cluster.failed("lines"))
        assert "Unknown partition" in cluster.failed("lines")[0][1].message
