"""Unread records in a consumer's statistics."""

import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_clients.librdkafka_bugs import BrokerMonitor
from tests.waiting import eventually

_RECORDS = 100


def test_records_wait_until_they_are_read_and_the_end_of_a_transaction_does_not(bootstrap_servers: str) -> None:
    kafka: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
    topic = f"unread-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer({**kafka, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(_RECORDS):
        producer.produce(topic, b"", partition=0)
    producer.commit_transaction(30)

    monitor, unread = BrokerMonitor(), list[int]()

    def on_stats(statistics: str) -> None:
        monitor.on_stats(statistics)
        unread.append(sum(monitor.unread.values()))

    settings = {**monitor.settings, "statistics.interval.ms": 20, "stats_cb": on_stats, "group.id": topic}
    consumer = Consumer({**kafka, **settings, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read = 0

        def read_some(most: int) -> bool:
            nonlocal read
            read += len(consumer.consume(most, 0.01))
            return read == _RECORDS

        eventually(lambda: not read_some(1) and any(unread), "records that wait")
        eventually(lambda: read_some(_RECORDS), "all to be read")
        eventually(lambda: consumer.poll(0.01) is None and not unread[-1], "no unread record: only a marker follows")
    finally:
        consumer.close()
