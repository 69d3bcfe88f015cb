"""The commits of spouts as a bolt with a state reads them from a broker."""

import time
import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, TopologyBuilder, Tuple
from spout_sdk.state.done_positions import DonePositions
from tests.kafka.sdk_rig import write
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.commit_metadata import ATTEMPT, Commit
from tuple_tree.done_sets import DoneSet


class Sink(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Acks."""


def test_commits_with_their_metadata_ends_and_topic_ids_are_read(bootstrap_servers: str) -> None:
    name = f"done-{uuid.uuid4().hex[:8]}"
    topics = [f"{name}-a", f"{name}-b"]
    kafka = {"bootstrap.servers": bootstrap_servers}
    create_topics(kafka, [NewTopic(topic, 2, 1) for topic in topics])
    write(kafka, topics[1], "abc", 2)
    builder = TopologyBuilder(name)
    builder.set_spout("lines", KafkaSpout(topics))
    builder.set_bolt("sink", Sink).shuffle_grouping("lines")
    positions = DonePositions(builder.build(), "sink", kafka)
    read: dict[int, DoneSet] = {}

    def look() -> Mapping[int, DoneSet]:
        read.update(positions.look(time.monotonic()) or {})
        return read

    eventually(lambda: look() or positions.offsets, "the ends")
    assert (read, positions.offsets) == ({}, {0: (0, 0), 1: (0, 0), 2_048: (0, 2), 2_049: (0, 1)})
    ids = positions.topics["lines"]
    assert [*ids] == topics
    assert len({*ids.values()}) == 2

    done = DoneSet(1, [(3, 5)])
    commits = [
        TopicPartition(topic, 1, 1, Commit.of(done, texts).metadata)
        for topic, texts in zip(topics, ({ATTEMPT: "4"}, {}), strict=True)
    ]
    consumer = Consumer({**kafka, "group.id": f"{name}.lines"})
    consumer.commit(offsets=commits, asynchronous=False)
    consumer.close()
    eventually(look, "the commit")
    assert read == {1: done}
