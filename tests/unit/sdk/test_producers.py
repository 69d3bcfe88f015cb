"""A fenced producer without transactions ends its process, also if a bolt's `execute` was the first to call it."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spout_sdk.chains.head_task import HeadTask, open_sessions
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
from tests.waiting import eventually

FATAL = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


class Fake:
    """librdkafka's producer, fenced: its first `poll` after a record raises that, and then it refuses records."""

    refuses_with: Exception = BufferError()

    def __init__(self, settings: dict[str, Any]) -> None:
        self.is_of_acks = not settings["delivery.report.only.error"]
        self.is_used = self.is_known = False

    def produce(self, *_: Any) -> None:
        self.is_used = True
        raise FATAL if self.is_known else self.refuses_with

    def poll(self, _seconds: float) -> int:
        if self.is_used and not self.is_known:
            self.is_known = True
            raise FATAL
        return 0

    def flush(self, _seconds: float) -> int:
        return 0

    def list_topics(self, _topic: str, timeout: float) -> None: ...

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...


class Unread(Fake):
    """Refuses records with the code for some fatal error; `poll` raises which one."""

    refuses_with = KafkaException(KafkaError(KafkaError._FATAL))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Fake]], None]:
    def replace(producer: type[Fake]) -> None:
        monkeypatch.setattr("kafka_clients.producer.Producer", producer)

    return replace


@pytest.mark.parametrize("producer", [Fake, Unread])
def test_a_fenced_producer_ends_the_process(producer: type[Fake], use: Callable[[type[Fake]], None]) -> None:
    use(producer)
    sink = KafkaSink({})
    undelivered: list[Any] = []
    # An exception in an execute counts as the bolt's failure, and the bolt is called again.
    for _ in range(2):
        with pytest.raises(BrokerError):
            sink.send("t.tuples.b", 0, None, b"x", [], lambda *report: undelivered.append(report))
    with pytest.raises(BrokerError, match="the producer cannot continue: fenced; restart the process"):
        sink.poll()
    assert not undelivered


def flushing(error: Exception, cause: Exception | None = None) -> type[Fake]:
    class Flushing(Fake):
        def flush(self, _seconds: float) -> int:
            if self.is_of_acks:
                return 0
            raise error from cause

    return Flushing


def test_a_fatal_error_amid_delivery_reports_ends_the_process(use: Callable[[type[Fake]], None]) -> None:
    use(flushing(SystemError("a report was called for"), FATAL))
    sink = KafkaSink({})
    with pytest.raises(BrokerError, match="fenced"):
        sink.send("t.tuples.b", 0, None, b"x", [], lambda *_: None)
    with pytest.raises(BrokerError, match="the producer cannot continue: fenced; restart the process"):
        sink.flush(1)


def test_a_flush_that_loses_its_exception_counts_as_undelivered(use: Callable[[type[Fake]], None]) -> None:
    # A log line of librdkafka during a fatal error swallows the exception; the next call raises it again.
    use(flushing(SystemError("<method 'flush' of 'cimpl.Producer'> returned NULL without setting an exception")))
    assert KafkaSink({}).flush(1) == 1
    use(flushing(SystemError("something else")))
    with pytest.raises(SystemError, match="something else"):
        KafkaSink({}).flush(1)


def test_a_record_that_is_too_large_is_reported(use: Callable[[type[Fake]], None]) -> None:
    class Refusing(Fake):
        refuses_with = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))

        def poll(self, _seconds: float) -> int:
            return 0

    use(Refusing)
    undelivered: list[Any] = []
    for sink in (TransactionalSink({}, "t", "b", "0"), KafkaSink({})):
        sink.send("t.tuples.c", 0, None, b"x", [], lambda *report: undelivered.append(report))
    assert [str(error) for error, _ in undelivered] == [str(Refusing.refuses_with.args[0])] * 2


class Silent(HeadTask):
    """Sends nothing."""

    failure = None

    def __init__(self) -> None: ...

    def open_session(self) -> None: ...


def test_a_session_is_open_when_its_ack_batches_are_delivered(
    use: Callable[[type[Fake]], None],
) -> None:
    class Half(Fake):
        delivers_acks = True

        def flush(self, _seconds: float) -> int:
            return int(self.is_of_acks != self.delivers_acks)

    use(Half)
    sink = KafkaSink({})
    assert sink.flush(0) == 1
    open_sessions(sink, [Silent()])
    Half.delivers_acks = False
    with pytest.raises(BrokerError, match="the sessions of 1 tasks could not be opened: 1 ack batches were not"):
        open_sessions(sink, [Silent()])


MEDDLING = {
    "bootstrap.servers": "kafka:9092",
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": True,
    "enable.idempotence": False,
    "acks": "1",
    "transactional.id": "mine",
}


def test_settings_of_the_guarantees_cannot_be_overridden() -> None:
    reads = consumer_settings(MEDDLING, "group")
    assert (reads["isolation.level"], reads["enable.auto.commit"]) == ("read_committed", False)
    assert "transactional.id" not in reads
    writes = transactional_settings(MEDDLING, "words.split.1")
    assert (writes["transactional.id"], writes["enable.idempotence"], writes["acks"]) == ("words.split.1", True, "all")
    assert "isolation.level" not in writes


def test_the_transaction_timeout_can_be_configured() -> None:
    assert transactional_settings({}, "id")["transaction.timeout.ms"] == TRANSACTION_MS
    assert transactional_settings({"transaction.timeout.ms": 60_000}, "id")["transaction.timeout.ms"] == 60_000


def test_at_most_once_records_never_expire_in_the_producer() -> None:
    """A record that librdkafka gives up begins a new epoch, in which it sends others again."""
    reports: dict[bool, list[Any]] = {False: [], True: []}
    sinks = {}
    for never_twice, failed in reports.items():
        kafka = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100, "log_level": 0}
        sinks[never_twice] = KafkaSink(kafka, never_twice=never_twice)
        sinks[never_twice].send("t.tuples.b", 0, None, b"x", [], lambda *report, to=failed: to.append(report))

    def given_up() -> bool:
        for sink in sinks.values():
            sink.poll()
        return bool(reports[False])

    eventually(given_up, "a tuple to be given up")
    assert not reports[True]
    assert sinks[True].flush(0.3) == 1, "it still waits for a broker"


def test_a_record_for_a_missing_topic_is_refused_before_a_transaction_or_a_tree_times_out() -> None:
    for settings in (tuple_producer_settings({}), ack_producer_settings({}), transactional_settings({}, "id")):
        assert settings["topic.metadata.propagation.max.ms"] < TRANSACTION_MS
