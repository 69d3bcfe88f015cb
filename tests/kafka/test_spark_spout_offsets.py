"""The offsets that a Spark spout commits in its group, without Spark."""

import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spark_jobs.message_table import Prefix
from spark_jobs.spout_offsets import SpoutOffsets
from tests.topics import create_topics


def test_offsets_of_an_idle_partition_are_committed_again_before_they_expire(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = uuid.uuid4().hex[:8]
    source, group = f"source-{unique}", f"group-{unique}"
    kafka: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers}
    admin = AdminClient(kafka)
    create_topics(kafka, [NewTopic(source, 2, 1)])
    written = {0: Prefix(7, 3, ((8, 300), (302, 303))), 1: Prefix(5, 2)}
    before = SpoutOffsets(kafka, group, source, (source, 0))
    before.commit(written)
    before.close()

    monkeypatch.setattr("spark_jobs.spout_offsets.REFRESH_SECONDS", 0.0)
    offsets = SpoutOffsets(kafka, group, source, (source, 0))
    try:
        assert offsets.committed([0, 1]) == written
        # As if both were about to expire; the spout has delivered nothing of them since it started.
        reset = [TopicPartition(source, number, 0) for number in range(2)]
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, reset)])[group].result(60)
        offsets.commit({0: Prefix(9, 4)})
        assert offsets.committed([0, 1]) == {0: Prefix(9, 4), 1: written[1]}
    finally:
        offsets.close()
