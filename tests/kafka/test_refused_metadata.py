"""Kafka refuses metadata of commits that are too large: the room shrinks, with each kind of commit."""

import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from kafka_clients.group_consumer import GroupConsumer
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.commit_metadata import LARGEST_METADATA


def test_a_broker_refuses_metadata_that_is_too_large_and_the_room_shrinks(bootstrap_servers: str) -> None:
    unique = uuid.uuid4().hex[:8]
    kafka: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers}
    create_topics(kafka, [NewTopic(f"in-{unique}", 1, 1)])
    settings = {**kafka, "group.id": f"group-{unique}", "enable.auto.commit": False}
    too_large = TopicPartition(f"in-{unique}", 0, 0, "x" * (LARGEST_METADATA + 4))

    member = GroupConsumer(settings, "in")
    assert not member.commit_and_wait([too_large], 10.0)
    assert member.metadata_room == LARGEST_METADATA // 2
    member.close()

    member = GroupConsumer(settings, "in")
    member.commit_changed([too_large])

    def is_refused() -> bool:
        member.serve()
        return member.metadata_room < LARGEST_METADATA

    eventually(is_refused, "the answer to a commit in the background")
    member.close()

    producer = Producer({**kafka, "transactional.id": unique})
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = Consumer(settings)
    with pytest.raises(KafkaException) as raised:
        producer.send_offsets_to_transaction([too_large], consumer.consumer_group_metadata(), 30)
    error = raised.value.args[0]
    assert (error.code(), error.txn_requires_abort()) == (KafkaError.OFFSET_METADATA_TOO_LARGE, True)
    producer.abort_transaction(30)
    consumer.close()
