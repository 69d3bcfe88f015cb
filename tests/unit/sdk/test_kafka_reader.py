"""What a reader does while a partition has no leader."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from spout_sdk.errors import BrokerError
from spout_sdk.kafka_reader import KafkaReader


class Electing:
    """A consumer whose brokers answer with errors first."""

    def __init__(self, *errors: int) -> None:
        self.errors = [*errors]
        self.assigned: list[TopicPartition] = []

    def get_watermark_offsets(self, partition: TopicPartition, **_: Any) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 0, 17

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned += partitions


@pytest.fixture
def taken() -> list[int]:
    return []


def nothing(_partitions: Sequence[int]) -> None: ...


@pytest.fixture
def reader(taken: list[int]) -> Iterator[KafkaReader]:
    reader = KafkaReader(
        {"bootstrap.servers": "127.0.0.1:1", "log_level": 0},
        "topic",
        "group",
        from_end=True,
        on_assigned=taken.extend,
        on_revoked=nothing,
        on_lost=nothing,
    )
    yield reader
    reader.close()


def test_a_partition_without_a_leader_is_waited_for(reader: KafkaReader, taken: list[int]) -> None:
    electing: Any = Electing(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    reader._assign(electing, [TopicPartition("topic", 3)])
    assert reader.read(1) == []
    assert [partition.offset for partition in electing.assigned] == [17]
    assert taken == [3]


def test_a_reader_that_has_lost_all_brokers_says_so(reader: KafkaReader) -> None:
    assert reader.read(1) == []
    for _ in range(2):
        reader._sight.hear('{"brokers": {}}')
    with pytest.raises(
        BrokerError, match=r"reading topic cannot go on: its client has lost all brokers.*start it again"
    ):
        reader.read(1)


def test_another_error_is_raised_where_it_is_read(reader: KafkaReader, taken: list[int]) -> None:
    electing: Any = Electing(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    reader._assign(electing, [TopicPartition("topic", 3)])
    with pytest.raises((BrokerError, KafkaException), match="TOPIC_AUTHORIZATION_FAILED"):
        reader.read(1)
    assert not taken
