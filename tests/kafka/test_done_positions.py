"""The commits of spouts as a bolt with a state reads them from a broker."""

import time
import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from spout_sdk import KafkaSpout, TopologyBuilder
from spout_sdk.state.done_positions import DonePositions
from tests.components import Sink
from tests.kafka.sdk_rig import Source
from tests.waiting import eventually
from tuple_tree.commit_metadata import ATTEMPT, Commit
from tuple_tree.done_sets import DoneSet


def test_commits_with_their_metadata_ends_and_topic_ids_are_read(bootstrap_servers: str) -> None:
    name = f"done-{uuid.uuid4().hex[:8]}"
    topics = [f"{name}-a", f"{name}-b"]
    builder = TopologyBuilder(name)
    builder.set_spout("lines", KafkaSpout(topics))
    builder.set_bolt("sink", Sink).shuffle_grouping("lines")
    source = Source(bootstrap_servers, builder.build(), dict.fromkeys(topics, 2))
    source.feed("abc", topics[1])
    positions = DonePositions(source.topology, "sink", source.bootstrap)
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
    metadata = [Commit.of(done, texts).metadata for texts in ({ATTEMPT: "4"}, {})]
    consumer = Consumer({**source.bootstrap, "group.id": f"{name}.lines"})
    consumer.commit(offsets=list(map(TopicPartition, topics, (1, 1), (1, 1), metadata)), asynchronous=False)
    consumer.close()
    eventually(look, "the commit")
    assert read == {1: done}
