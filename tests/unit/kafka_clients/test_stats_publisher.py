"""The statistics that a process sends; the process continues if it cannot send them."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from kafka_clients.stats_publisher import StatsPublisher, producer_settings
from tuple_tree.process_stats import StatsRecord


class Wire:
    """A producer and a broker whose answers the test chooses."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.requests: list[Future[Any]] = []
        self.raises: Exception | None = None
        self.flushed = 0
        self._reports: list[Callable[[Any, Any], None]] = []

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        if self.raises is not None:
            raise self.raises
        self.sent.append((topic, key, value))
        self._reports.append(on_delivery)

    def poll(self, timeout: float) -> int:
        assert timeout == 0, "no call may wait"
        return 0

    def flush(self, timeout: float) -> int:
        self.flushed += 1
        assert timeout <= 1
        return 0

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[Any]]:
        self.requests.append(Future())
        return {"words.stats": self.requests[-1]}

    def refuse_last(self, code: int) -> None:
        self._reports[-1](KafkaError(code), None)

    @property
    def records(self) -> list[StatsRecord]:
        return [StatsRecord.of(key, value, 0) for _, key, value in self.sent]


def new_publisher(wire: Wire) -> StatsPublisher:
    both: Any = wire
    return StatsPublisher("words", "component", "split", both, both, now=100.0)


@pytest.fixture
def wire() -> Wire:
    return Wire()


def stats() -> dict[str, Any]:
    return {"emitted": 7}


def found(wire: Wire, publisher: StatsPublisher, now: float = 100.0) -> None:
    publisher.look(now, stats)
    wire.requests[-1].set_result(SimpleNamespace(topic_id="an-id"))


def test_a_record_a_second(wire: Wire) -> None:
    found(wire, publisher := new_publisher(wire))
    for tenth in range(1, 51):
        publisher.look(100 + tenth / 10, stats)
    assert [record.uptime_ms for record in wire.records] == [1000, 2000, 3000, 4000, 5000]
    assert {topic for topic, _, _ in wire.sent} == {"words.stats"}
    assert {(record.name, record.ended, record.stats["emitted"]) for record in wire.records} == {("split", False, 7)}
    assert len(wire.requests) == 1
    # After a pause there is one record, and not one for each second of it.
    for now in (200.0, 200.1, 200.2):
        publisher.look(now, stats)
    assert [record.uptime_ms for record in wire.records[5:]] == [100_000]


def test_statistics_are_sent_once_the_topic_exists(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    publisher = new_publisher(wire)
    for now in range(100, 140):
        publisher.look(now, stats)
    publisher.end(140.0, stats())
    assert (wire.sent, wire.flushed, len(wire.requests)) == ([], 0, 1)
    for now in range(140, 180):
        if not wire.requests[-1].done():
            wire.requests[-1].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        publisher.look(now, stats)
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "one warning, and another look-up"
    assert "topic words.stats does not exist: create it with acker topics create" in caplog.text
    assert len(wire.requests) == 5
    found(wire, publisher, 190.0)
    publisher.look(191.0, stats)
    assert len(wire.sent) == 1


def test_rejected_statistics_are_logged_once_and_raise_nothing(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    found(wire, publisher := new_publisher(wire))
    for wire.raises in (BufferError("full"), KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))):
        publisher.look(101.0, stats)
        publisher.end(102.0, stats())
    wire.raises = None
    found(wire, publisher := new_publisher(wire))
    caplog.clear()
    for now in (103.0, 104.0, 105.0):
        publisher.look(now, stats)
        wire.refuse_last(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert len(wire.sent) == 3
    assert len(caplog.records) == 1
    assert "--role split" in caplog.text
    # A broker that is away is not a missing ACL.
    found(wire, publisher := new_publisher(wire))
    caplog.clear()
    publisher.look(106.0, stats)
    wire.refuse_last(KafkaError._MSG_TIMED_OUT)
    assert "Message timed out): it is tried again every second" in caplog.text
    assert "--role" not in caplog.text


def test_only_connection_settings_are_used() -> None:
    kafka = {"bootstrap.servers": "b:1", "sasl.username": "u", "transactional.id": "t", "acks": "all", "group.id": "g"}
    settings = producer_settings(kafka)
    assert (settings["bootstrap.servers"], settings["sasl.username"], settings["acks"]) == ("b:1", "u", 1)
    assert not {"transactional.id", "group.id"} & set(settings)


def test_the_last_record_is_marked_and_each_start_has_its_run_id(wire: Wire) -> None:
    for _ in range(2):
        found(wire, one := new_publisher(wire))
        one.end(100.4, {"emitted": 9})
    first, second = wire.records
    assert (first.ended, first.uptime_ms, first.stats["emitted"], wire.flushed) == (True, 400, 9, 2)
    assert first.key == second.key
    assert first.run != second.run
