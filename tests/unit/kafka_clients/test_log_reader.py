"""Readers and writers with brokers that answer with rare errors."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_clients import log_reader, retriable
from kafka_clients.errors import GONE, BrokerUnreachableError
from kafka_clients.log_reader import LogReader, watermarks

PLACE = ("words.tuples.count", 3)


class Leaderless:
    """A consumer whose partition has no leader."""

    def __init__(self, _settings: object) -> None:
        self.error = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
        self.polls = 0
        self.assign = self.resume = lambda _partitions: None
        self.unassign = self.close = lambda: None

    def offsets_for_times(self, partitions: list[TopicPartition], **_: Any) -> list[Any]:
        return [
            SimpleNamespace(topic=each.topic, partition=each.partition, offset=-1001, error=self.error)
            for each in partitions
        ]

    def get_watermark_offsets(self, _partition: TopicPartition, **_: Any) -> tuple[int, int]:
        return 5, 17

    def poll(self, _seconds: float) -> Any:
        self.polls += 1
        assert self.polls < 10_000, "it never ends"
        return SimpleNamespace(topic=lambda: PLACE[0], partition=lambda: PLACE[1], error=lambda: self.error)

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={})

    def consume(self, _records: int, _seconds: float) -> list[Any]:
        return []


def test_a_partition_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its tuples would be missing in the tree, and the verdict would be wrong."""
    now = iter(range(1_000_000))
    monkeypatch.setattr(log_reader, "Consumer", Leaderless)
    monkeypatch.setattr("kafka_clients.log_reader.time.monotonic", lambda: next(now))
    with LogReader({}) as scan, pytest.raises(BrokerUnreachableError, match="try again when they are available"):
        scan.offset_ranges([PLACE], since_ms=1_000)
    message = r"no records of words\.tuples\.count came"
    with LogReader({}) as scan, pytest.raises(BrokerUnreachableError, match=message):
        scan.read("inboxes", {PLACE: range(5, 17)}, lambda _message: None)


class Electing:
    """A consumer whose brokers answer with errors first, and know partition 3 of `acks` in their metadata.

    If it is stale, it has new leader epochs only with new metadata.
    """

    def __init__(self, *errors: int, is_stale: bool = False) -> None:
        self.errors, self.is_stale = [*errors], is_stale
        self.now = 0.0

    def get_watermark_offsets(self, partition: TopicPartition, **_: Any) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        if self.is_stale:
            raise KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))
        return 5, 17

    def list_topics(self, **_: Any) -> Any:
        self.is_stale = False
        return SimpleNamespace(topics={"acks": SimpleNamespace(partitions={3: None})})

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def electing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a consumer by whose time requests are retried."""

    def make(*errors: int, is_stale: bool = False) -> Any:
        made = Electing(*errors, is_stale=is_stale)
        monkeypatch.setattr(retriable, "time", SimpleNamespace(monotonic=lambda: made.now, sleep=made.sleep))
        return made

    return make


def test_a_leader_is_waited_for(electing: Callable[..., Any]) -> None:
    errors = KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION
    assert watermarks(electing(*errors), TopicPartition("acks", 3), 60) == (5, 17)


def test_a_stale_leader_epoch_is_replaced_within_seconds(electing: Callable[..., Any]) -> None:
    stale = electing(is_stale=True)
    assert watermarks(stale, TopicPartition("acks", 3), 60) == (5, 17)
    assert stale.now < 2


def test_a_partition_that_the_metadata_has_is_not_taken_for_gone(electing: Callable[..., Any]) -> None:
    for error in GONE:
        assert watermarks(electing(error), TopicPartition("acks", 3), 60) == (5, 17)
        for topic, partition in (("other", 3), ("acks", 4)):
            gone = electing(error, error)
            with pytest.raises(KafkaException):
                watermarks(gone, TopicPartition(topic, partition), 60)
            assert gone.now < 2


def test_a_missing_leader_is_waited_for_until_the_deadline_and_other_errors_raise(electing: Callable[..., Any]) -> None:
    for error, seconds in ((KafkaError.LEADER_NOT_AVAILABLE, 0), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 60)):
        refusing = electing(error, error)
        with pytest.raises(KafkaException):
            watermarks(refusing, TopicPartition("acks", 3), seconds)
        assert len(refusing.errors) == 1
