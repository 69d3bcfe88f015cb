"""A fenced producer without transactions ends its process, also if a bolt's `execute` was the first to call it."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spout_sdk.bolts.head_task import open_sessions
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.errors import BrokerError
from spout_sdk.kafka.kafka_settings import (
    TRANSACTION_MS,
    ack_producer_settings,
    consumer_settings,
    transactional_settings,
    tuple_producer_settings,
)
from spout_sdk.kafka.kafka_sink import KafkaSink
from tests.unit.sdk.fake_producer import FakeProducers
from tests.waiting import eventually

FATAL = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
# Some fatal error: `poll` raises which one.
UNREAD = KafkaException(KafkaError(KafkaError._FATAL))
TOO_LARGE = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
CANNOT_CONTINUE = "the producer cannot continue: fenced; restart the process"


def sent(sink: KafkaSink | TransactionalSink) -> list[Any]:
    """Sends a record; returns its reports."""
    reports: list[Any] = []
    sink.send("t.tuples.b", 0, None, b"x", [], lambda *report: reports.append(report))
    return reports


@pytest.mark.parametrize("refuses_with", [BufferError(), UNREAD])
def test_a_fenced_producer_ends_the_process(refuses_with: Exception) -> None:
    producers = FakeProducers(fails={"produce": refuses_with, "poll": FATAL})
    sink = KafkaSink(producers.settings)
    # An exception in an execute counts as the bolt's failure, and the bolt is called again.
    for _ in range(2):
        with pytest.raises(BrokerError):
            sent(sink)
        # It raises that once, and refuses records from then on.
        producers.fails = {"produce": FATAL}
    with pytest.raises(BrokerError, match=CANNOT_CONTINUE):
        sink.poll()


def test_a_fatal_error_during_delivery_reports_ends_the_process() -> None:
    raised = SystemError("a report was called for")
    raised.__cause__ = FATAL
    with pytest.raises(BrokerError, match=CANNOT_CONTINUE):
        KafkaSink(FakeProducers(fails={"flush": raised}).settings).flush(1)


def test_a_flush_that_loses_its_exception_counts_as_undelivered() -> None:
    # A log line of librdkafka during a fatal error swallows the exception; the next call raises it again.
    lost = SystemError("<method 'flush' of 'cimpl.Producer'> returned NULL without setting an exception")
    assert KafkaSink(FakeProducers(fails={"flush": lost}).settings).flush(1) > 0
    with pytest.raises(SystemError, match="something else"):
        KafkaSink(FakeProducers(fails={"flush": SystemError("something else")}).settings).flush(1)


def test_a_record_that_is_too_large_is_reported() -> None:
    settings = FakeProducers(fails={"produce": TOO_LARGE}).settings
    for sink in (TransactionalSink(settings, "t", "b", "0"), KafkaSink(settings)):
        assert sent(sink) == [(TOO_LARGE.args[0], None)]


def test_a_session_is_open_when_its_ack_batches_are_delivered() -> None:
    class Silent:
        failure = None

        def open_session(self) -> None: ...

    tasks: list[Any] = [Silent()]
    producers = FakeProducers()
    sink = KafkaSink(producers.settings)
    of_tuples, of_acks = producers.made
    of_tuples.left = 1
    assert sink.flush(0) == 1
    open_sessions(sink, tasks)
    of_acks.left = 1
    with pytest.raises(BrokerError, match="the sessions of 1 tasks could not be opened: 1 ack batches were not"):
        open_sessions(sink, tasks)


def test_settings_of_the_guarantees_cannot_be_overridden() -> None:
    user = {
        "bootstrap.servers": "kafka:9092",
        "isolation.level": "read_uncommitted",
        "enable.auto.commit": True,
        "enable.idempotence": False,
        "acks": "1",
        "transactional.id": "mine",
    }
    reads = consumer_settings(user, "group")
    assert (reads["isolation.level"], reads["enable.auto.commit"]) == ("read_committed", False)
    assert "transactional.id" not in reads
    writes = transactional_settings(user, "words.split.1")
    assert (writes["transactional.id"], writes["enable.idempotence"], writes["acks"]) == ("words.split.1", True, "all")
    assert "isolation.level" not in writes


def test_the_transaction_timeout_can_be_configured() -> None:
    assert transactional_settings({}, "id")["transaction.timeout.ms"] == TRANSACTION_MS
    assert transactional_settings({"transaction.timeout.ms": 60_000}, "id")["transaction.timeout.ms"] == 60_000


def test_at_most_once_records_never_expire_in_the_producer() -> None:
    """A record that librdkafka gives up begins a new epoch, in which it sends others again."""
    kafka = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100, "log_level": 0}
    expiring, waiting = (KafkaSink(kafka, never_twice=never_twice) for never_twice in (False, True))
    given_up, reported = sent(expiring), sent(waiting)

    def polled() -> list[Any]:
        expiring.poll()
        waiting.poll()
        return given_up

    eventually(polled, "a tuple to be given up")
    assert not reported
    assert waiting.flush(0.3) == 1, "it still waits for a broker"


def test_a_record_for_a_missing_topic_is_refused_before_a_transaction_or_a_tree_times_out() -> None:
    for settings in (tuple_producer_settings({}), ack_producer_settings({}), transactional_settings({}, "id")):
        assert settings["topic.metadata.propagation.max.ms"] < TRANSACTION_MS
