"""A process whose transactional id another one has ends with a line that says so, wherever it hears of it."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from spout_sdk.counters import Counters
from spout_sdk.errors import BrokerError
from spout_sdk.transactional_sink import TransactionalSink
from tests.kafka.ack_log import AckLog
from tests.waiting import eventually
from tuple_tree.names import tuples_topic


def commit(sink: TransactionalSink, consumer: Consumer, topic: str) -> None:
    sink.commit([TopicPartition(topic, 0, 0)], consumer.consumer_group_metadata())


def poll(sink: TransactionalSink, consumer: Consumer, topic: str) -> None:
    eventually(sink.poll, "what is fatal to be heard")


@pytest.mark.parametrize("hears", [commit, poll])
def test_who_was_replaced_says_so(
    hears: Callable[[TransactionalSink, Consumer, str], None], bootstrap_servers: str
) -> None:
    with AckLog(bootstrap_servers) as log:
        topic = tuples_topic(log.topology, "b")
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{log.topology}.b"})
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the task")
        old = TransactionalSink(log.kafka, log.topology, "b", "0", Counters())
        new = TransactionalSink(log.kafka, log.topology, "b", "0", Counters())
        try:
            for _ in range(3):
                old.produce(topic, 0, None, b"x", [])
            with pytest.raises(BrokerError, match="b was put out of its transaction"):
                hears(old, consumer, topic)
        finally:
            old.close()
            new.close()
            consumer.close()
            log.catalogue.withdraw(log.topology)
