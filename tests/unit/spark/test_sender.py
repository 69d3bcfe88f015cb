"""How executors send records, on a mock cluster of librdkafka."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from spark_jobs import entries
from spark_jobs.entries import KafkaSender
from spark_jobs.errors import SparkJobError
from tests.mock_cluster import mock_cluster

RECORDS = 1_000


def test_more_records_than_a_producer_takes_are_delivered_in_order() -> None:
    with mock_cluster("t") as cluster:
        send = KafkaSender({"bootstrap.servers": cluster.bootstrap, "queue.buffering.max.messages": 10})
        send([("t", 0, None, b"%d" % number, [("h", b"x")]) for number in range(RECORDS)])
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        try:
            consumer.assign([TopicPartition("t", 0, 0)])
            values: list[bytes | None] = []
            while len(values) < RECORDS:
                found = consumer.consume(RECORDS, 5)
                assert found
                values += [message.value() for message in found]
        finally:
            consumer.close()
    assert values == [b"%d" % number for number in range(RECORDS)]


def test_records_that_are_not_delivered_are_an_error_and_the_next_ones_have_a_new_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "_DELIVERY_SECONDS", 0.5)
    monkeypatch.setattr(entries, "_producers", {})
    with pytest.raises(
        SparkJobError, match=r"records for t could not be delivered .*check that the driver and the executors reach"
    ):
        KafkaSender({"bootstrap.servers": "127.0.0.1:1"})([("t", 0, None, b"", ())])
    assert not entries._producers
    too_large = [("t", 0, None, bytes(2_000_000), ())]
    with mock_cluster("t") as cluster, pytest.raises(SparkJobError, match=r"could not be delivered \(.*MSG_SIZE"):
        KafkaSender({"bootstrap.servers": cluster.bootstrap})(too_large)
    assert not entries._producers
