"""Requests for the ends of a partition without a leader."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_clients.log_reader import watermarks


class Electing:
    """A consumer whose brokers answer with errors first."""

    def __init__(self, *errors: int) -> None:
        self.errors = [*errors]

    def get_watermark_offsets(self, partition: TopicPartition, **_: Any) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 5, 17


def test_a_leader_is_waited_for() -> None:
    electing: Any = Electing(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert watermarks(electing, TopicPartition("acks", 3), 60) == (5, 17)


def test_a_missing_leader_is_waited_for_until_the_deadline_and_other_errors_raise() -> None:
    for error, seconds in ((KafkaError.LEADER_NOT_AVAILABLE, 0), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 60)):
        electing: Any = Electing(error, error)
        with pytest.raises(KafkaException):
            watermarks(electing, TopicPartition("acks", 3), seconds)
        assert len(electing.errors) == 1
