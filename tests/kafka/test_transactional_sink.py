"""A transaction that cannot go on says why: another process has its id, or what Kafka did not take."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from spout_sdk.counters import Counters
from spout_sdk.delivery_reports import heard
from spout_sdk.errors import BrokerError, RolledBackError
from spout_sdk.transactional_sink import TransactionalSink
from tests.kafka.ack_log import AckLog
from tests.waiting import eventually
from tuple_tree.names import tuples_topic


def commit(sink: TransactionalSink, consumer: Consumer, topic: str) -> None:
    sink.commit([TopicPartition(topic, 0, 0)], consumer.consumer_group_metadata())


def commit_unheard(sink: TransactionalSink, consumer: Consumer, topic: str) -> None:
    """As where the client loses what it had to say to a line of librdkafka's log."""

    def lose(call: Callable[[], int]) -> tuple[int, None]:
        heard(call)
        return 1, None

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("spout_sdk.transactional_sink.heard", lose)
        commit(sink, consumer, topic)


def poll(sink: TransactionalSink, consumer: Consumer, topic: str) -> None:
    eventually(sink.poll, "what is fatal to be heard")


@pytest.mark.parametrize("hears", [commit, commit_unheard, poll])
def test_who_was_replaced_says_so(
    hears: Callable[[TransactionalSink, Consumer, str], None], bootstrap_servers: str
) -> None:
    with AckLog(bootstrap_servers) as log:
        topic = tuples_topic(log.topology, "b")
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{log.topology}.b"})
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the task")
        old = TransactionalSink(log.kafka, log.topology, "b", "0", Counters())
        new = TransactionalSink(log.kafka, log.topology, "b", "0", Counters())
        try:
            for _ in range(3):
                old.produce(topic, 0, None, b"x", [])
            with pytest.raises(BrokerError, match="b was put out of its transaction"):
                hears(old, consumer, topic)
        finally:
            old.close()
            new.close()
            consumer.close()
            log.catalogue.withdraw(log.topology)


class Late:
    """Takes no record because of one before it, of which it reports only after that."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._report = settings["on_delivery"]

    def produce(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE, "a transaction that must be aborted"))

    def poll(self, _seconds: float) -> int:
        refused = SimpleNamespace(topic=lambda: "t.tuples.c", partition=lambda: 0)
        self._report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), refused)
        return 1

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def abort_transaction(self, _seconds: float) -> None:
        self._report = lambda *_: None


def test_what_was_not_delivered_is_told_before_what_could_not_be_sent_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.transactional_sink.Producer", Late)
    sink = TransactionalSink({}, "t", "b", "0", Counters())
    assert sink.produce("t.tuples.c", 0, None, b"x", []) is None
    with pytest.raises(RolledBackError, match=r"a record for t\.tuples\.c\[0\] was not delivered: too large"):
        sink.poll()
    sink.abort()
    sink.poll()
    assert sink.produce("t.tuples.c", 0, None, b"x", []) is None
    with pytest.raises(RolledBackError, match="could not be sent: a transaction that must be aborted"):
        sink.poll()
