"""The statistics that a process sends, and that the process goes on if it cannot send them."""

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_clients.stats_publisher import StatsPublisher, producer_settings
from tuple_tree.errors import StatsRecordError
from tuple_tree.process_stats import StatsRecord


class RefusedError(Exception):
    """What the producer raises."""


class Wire:
    """A producer and a broker whose answers the test gives."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.asked: list[Future[str | None]] = []
        self.raises: Exception | None = None
        self.flushed = 0
        self._reports: list[Callable[[Any, Any], None]] = []

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        if self.raises is not None:
            raise self.raises
        self.sent.append((topic, key, value))
        self._reports.append(on_delivery)

    def poll(self, timeout: float) -> int:
        assert timeout == 0, "nothing may wait"
        return 0

    def flush(self, timeout: float) -> int:
        self.flushed += 1
        assert timeout <= 1
        return 0

    def ask(self, topic: str) -> Mapping[str, Future[Any]]:
        self.asked.append(Future())
        return {topic: self.asked[-1]}

    def refuse_last(self, code: int) -> None:
        self._reports[-1](KafkaError(code), None)

    @property
    def records(self) -> list[StatsRecord]:
        return [StatsRecord.of(key, value, 0) for _, key, value in self.sent]


def new_publisher(wire: Wire) -> StatsPublisher:
    return StatsPublisher("words", "component", "split", wire, wire.ask, Future.result, RefusedError, now=100.0)


@pytest.fixture
def wire() -> Wire:
    return Wire()


def stats() -> dict[str, Any]:
    return {"emitted": 7}


def found(wire: Wire, publisher: StatsPublisher, now: float = 100.0) -> None:
    publisher.look(now, stats)
    wire.asked[-1].set_result("an-id")


def test_a_record_a_second(wire: Wire) -> None:
    found(wire, publisher := new_publisher(wire))
    for tenth in range(1, 51):
        publisher.look(100 + tenth / 10, stats)
    assert [record.uptime_ms for record in wire.records] == [1000, 2000, 3000, 4000, 5000]
    assert {topic for topic, _, _ in wire.sent} == {"words.stats"}
    assert {(record.name, record.ended, record.stats["emitted"]) for record in wire.records} == {("split", False, 7)}
    assert len(wire.asked) == 1
    # After a pause there is one record, and not one for each second of it.
    for now in (200.0, 200.1, 200.2):
        publisher.look(now, stats)
    assert [record.uptime_ms for record in wire.records[5:]] == [100_000]


def test_nothing_is_sent_before_the_topic_is_known_to_be_there(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    publisher = new_publisher(wire)
    for now in range(100, 140):
        publisher.look(now, stats)
    publisher.end(140.0, stats())
    assert (wire.sent, wire.flushed, len(wire.asked)) == ([], 0, 1)
    for now in range(140, 180):
        if not wire.asked[-1].done():
            wire.asked[-1].set_result(None)
        publisher.look(now, stats)
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "said once, and looked for again"
    assert "topic words.stats does not exist: create it with acker topics create" in caplog.text
    assert len(wire.asked) == 5
    found(wire, publisher, 190.0)
    publisher.look(191.0, stats)
    assert len(wire.sent) == 1


def test_a_record_that_is_not_taken_is_no_matter_and_said_once(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    found(wire, publisher := new_publisher(wire))
    for wire.raises in (BufferError("full"), RefusedError("too large")):
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
    # A broker that is away is no missing ACL.
    found(wire, publisher := new_publisher(wire))
    caplog.clear()
    publisher.look(106.0, stats)
    wire.refuse_last(KafkaError._MSG_TIMED_OUT)
    assert "Message timed out): it is tried again every second" in caplog.text
    assert "--role" not in caplog.text


def test_only_how_to_reach_the_brokers_is_taken_from_the_settings() -> None:
    kafka = {"bootstrap.servers": "b:1", "sasl.username": "u", "transactional.id": "t", "acks": "all", "group.id": "g"}
    settings = producer_settings(kafka)
    assert (settings["bootstrap.servers"], settings["sasl.username"], settings["acks"]) == ("b:1", "u", 1)
    assert not {"transactional.id", "group.id"} & set(settings)


def test_the_last_record_says_so_and_two_starts_with_one_process_id_are_told_apart(wire: Wire) -> None:
    for _ in range(2):
        found(wire, one := new_publisher(wire))
        one.end(100.4, {"emitted": 9})
    first, second = wire.records
    assert (first.ended, first.uptime_ms, first.stats["emitted"], wire.flushed) == (True, 400, 9, 2)
    assert first.key == second.key
    assert first.run != second.run


def test_what_is_no_record_is_refused() -> None:
    key, value = b"component/split/host/1", b'{"v":1,"run":"a","uptime_ms":1,"ended":false,"stats":{}}'
    assert StatsRecord.of(key, value, 0).name == "split"
    keys = (None, b"component/split/host", b"component/split/host/one", b"job/split/host/1", b"component/\xff/host/1")
    changed = ((b'"v":1', b'"v":2'), (b'"stats":{}', b'"stats":[]'), (b'"uptime_ms":1', b'"uptime_ms":Infinity'))
    values = (None, b"{}", b"[]", b"[" * 100_000, *(value.replace(*each) for each in changed))
    for wrong in (*((each, value) for each in keys), *((key, each) for each in values)):
        with pytest.raises(StatsRecordError, match="do all processes run the same version"):
            StatsRecord.of(*wrong, 0)


def test_a_record_comes_back_as_it_was_written() -> None:
    written = StatsRecord("component", "split", "host", 7, "abc", 1500, True, {"emitted": 1})
    assert StatsRecord.of(b"component/split/host/7", written.to_json(), 99) == replace(written, at_ms=99)
    assert set(json.loads(written.to_json())) == {"v", "run", "uptime_ms", "ended", "stats"}
