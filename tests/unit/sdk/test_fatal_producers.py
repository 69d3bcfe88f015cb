"""A producer that cannot go on ends its process, also where a bolt's execute was the first to meet it."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spout_sdk.counters import Counters
from spout_sdk.errors import BrokerError
from spout_sdk.kafka_sink import KafkaSink
from spout_sdk.transactional_sink import TransactionalSink

FATAL = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


class Dead:
    """Is full at first; it says once that it cannot go on, to whoever asks for reports, and refuses records then."""

    def __init__(self, _settings: dict[str, Any]) -> None:
        self.is_known = False

    def produce(self, *_: Any) -> None:
        if self.is_known:
            raise FATAL
        raise BufferError

    def poll(self, _seconds: float) -> int:
        if self.is_known:
            return 0
        self.is_known = True
        raise FATAL

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...


def test_of_a_process_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Dead)
    sink = KafkaSink({}, Counters())
    # What happens in an execute counts as the bolt's failure, and the bolt is called again.
    for _ in range(2):
        with pytest.raises(BrokerError):
            sink.send("t.tuples.b", 0, None, b"x", [])
    sink._acks.is_known = True  # type: ignore[attr-defined]
    with pytest.raises(BrokerError, match=r"the producer cannot go on: fenced; restart the process"):
        sink.poll()


def test_of_a_process_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.transactional_sink.Producer", Dead)
    sink = TransactionalSink({}, "t", "b", "0", Counters())
    assert sink.produce("t.tuples.c", 0, None, b"x", []) is None
    with pytest.raises(BrokerError, match="b was put out of its transaction"):
        sink.poll()


class Unheard(Dead):
    """Refuses records by the code that says that something is fatal, and says what when it is asked for reports."""

    def produce(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))


def test_the_cause_is_told_where_a_record_is_the_first_to_meet_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Unheard)
    monkeypatch.setattr("spout_sdk.transactional_sink.Producer", Unheard)
    counters = Counters()
    sink = KafkaSink({}, counters)
    for _ in range(2):
        with pytest.raises(BrokerError, match="the producer cannot go on: fenced; restart the process"):
            sink.send("t.tuples.b", 0, None, b"x", [])
    transactions = TransactionalSink({}, "t", "b", "0", counters)
    for _ in range(2):
        transactions.for_task().send("t.tuples.c", 0, None, b"x", [])
    with pytest.raises(BrokerError, match="b was put out of its transaction"):
        transactions.poll()
    assert counters.undelivered == 0


class Interrupted(Dead):
    """Says it amid its reports, which are called for nevertheless."""

    def flush(self, _seconds: float) -> int:
        raise SystemError("a report was called for") from FATAL


@pytest.mark.parametrize("serve", [lambda sink: sink.flush(1), lambda sink: sink.push()])
def test_amid_reports(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush that ended so has delivered nothing for sure, so it must not look as if nothing were left."""
    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Interrupted)
    counters = Counters()
    sink = KafkaSink({}, counters)
    counters.transferred += 1
    with pytest.raises(BrokerError, match=r"the producer cannot go on: fenced; restart the process"):
        serve(sink)


def test_other_errors_of_a_system_are_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_seconds: float) -> int:
        raise SystemError("something else")

    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Dead)
    sink = KafkaSink({}, Counters())
    monkeypatch.setattr(sink._tuples, "flush", fail, raising=False)
    with pytest.raises(SystemError, match="something else"):
        sink.flush(1)


def test_what_the_client_has_lost_is_not_taken_for_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of librdkafka's log amid a fatal error takes the exception away; the next call has it again."""

    def lose(_seconds: float) -> int:
        raise SystemError("<method 'flush' of 'cimpl.Producer'> returned NULL without setting an exception")

    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Dead)
    sink = KafkaSink({}, Counters())
    monkeypatch.setattr(sink._tuples, "flush", lose, raising=False)
    monkeypatch.setattr(sink._acks, "flush", lambda _seconds: 0, raising=False)
    assert sink.flush(1) == 1


class Refusing:
    """Takes nothing: all is too large."""

    def __init__(self, _settings: dict[str, Any]) -> None: ...

    def produce(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))

    def poll(self, _seconds: float) -> int:
        return 0

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...


def test_an_untracked_tuple_that_is_not_taken_is_counted_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spout_sdk.transactional_sink.Producer", Refusing)
    monkeypatch.setattr("spout_sdk.kafka_sink.Producer", Refusing)
    counters = Counters()
    of_transactions = TransactionalSink({}, "t", "b", "0", counters).for_task()
    for sink in (of_transactions, KafkaSink({}, counters)):
        sink.send("t.tuples.c", 0, None, b"x", [])
    assert counters.undelivered == 2
    assert "an untracked tuple was not delivered and is gone" in caplog.text
