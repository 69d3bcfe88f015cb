"""A producer that can neither commit nor abort its transaction is replaced, in the same process."""

import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from spout_sdk.delivery import transactional_sink
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.errors import BrokerError, RolledBackError
from tests.unit.sdk.fake_producer import FakeProducers

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=False))
ABORTABLE = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION, "another generation", txn_requires_abort=True))
INVALID = KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "invalid state"))
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "all are down")
OFFSETS, COMMIT, ABORT = "send_offsets_to_transaction", "commit_transaction", "abort_transaction"
WHOLE = ["send_offsets_to", "commit", "begin"]


class Rig:
    """A sink that has sent a record, and the producers that it makes."""

    def __init__(self) -> None:
        self.producers = FakeProducers()
        self.made = self.producers.made
        self.sink = TransactionalSink(self.producers.settings, "t", "b", "0")
        self.produce()

    def produce(self) -> None:
        assert self.sink.produce("t.acks", 3, None, b"x", []) is None

    def commit(self) -> None:
        self.sink.commit([TopicPartition("t.tuples.b", 0, 7)], "group")

    def fail(self, match: str = ".", fails: dict[str, Exception] | None = None) -> None:
        """A commit that fails; until it has returned, methods raise these errors."""
        self.producers.fails = fails or {}
        with pytest.raises(RolledBackError, match=match):
            self.commit()
        self.producers.fails = {}

    def report_error(self) -> None:
        """All brokers are down, as the next poll reports."""
        self.made[0].reports = [lambda: self.made[0].settings["error_cb"](ALL_DOWN)]

    def report_undelivered(self, code: int, text: str) -> None:
        """The record is not delivered, as the next poll reports."""
        record = SimpleNamespace(topic=lambda: "t.acks", partition=lambda: 3)
        self.made[0].reports = [lambda: self.made[0].settings["on_delivery"](KafkaError(code, text), record)]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(transactional_sink, "_OFFSETS_SECONDS", 0.0)
    monkeypatch.setattr(transactional_sink, "_FLUSH_SECONDS", 0.01)
    return Rig()


def test_a_transaction_that_is_aborted_keeps_its_producer(rig: Rig) -> None:
    rig.fail("another generation", {OFFSETS: ABORTABLE})
    rig.sink.abort()
    rig.commit()
    (producer,) = rig.made
    assert producer.calls == ["init", "begin", "produce", "send_offsets_to", "abort", "begin", *WHOLE]


@pytest.mark.parametrize("fails", [{OFFSETS: FENCED}, {OFFSETS: TIMED_OUT}, {COMMIT: INVALID}, {COMMIT: TIMED_OUT}])
def test_a_commit_without_a_known_outcome_replaces_the_producer(rig: Rig, fails: dict[str, Exception]) -> None:
    """`init_transactions` of the new one ends the transaction, before anything is read again."""
    rig.fail(fails=fails)
    rig.sink.abort()
    old, new = rig.made
    assert "abort" not in old.calls
    assert new.calls == ["init", "begin"]
    assert old.settings["transactional.id"] == new.settings["transactional.id"]
    rig.produce()
    rig.commit()
    assert new.calls[2:] == ["produce", *WHOLE]


def test_an_abort_that_is_refused_replaces_the_producer(rig: Rig) -> None:
    rig.fail(fails={OFFSETS: ABORTABLE})
    rig.producers.fails = {ABORT: INVALID}
    rig.sink.abort()
    assert [producer.calls[-1] for producer in rig.made] == ["abort", "begin"]


def test_offsets_that_hang_replace_the_producer_and_are_never_committed(rig: Rig) -> None:
    rig.producers.gate = gate = threading.Event()
    rig.fail("the offsets of its inputs were not taken")
    rig.sink.abort()
    rig.producers.gate = None
    gate.set()  # They are taken late, while the next transaction is open.
    rig.produce()
    rig.commit()
    old, new = rig.made
    assert "commit" not in old.calls
    assert new.calls == ["init", "begin", "produce", *WHOLE]


def test_many_producers_that_hang_end_the_process(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_sink, "_MOST_HANGING", 2)
    rig.producers.gate = gate = threading.Event()
    rig.fail("the offsets of its inputs were not taken")
    rig.sink.abort()
    rig.fail()
    with pytest.raises(BrokerError, match="2 producers of b hang"):
        rig.sink.abort()
    gate.set()


def test_a_transaction_ends_when_all_brokers_are_gone(rig: Rig) -> None:
    """To flush it, or to abort it, would wait for what the broker aborts by itself."""
    rig.report_error()
    rig.fail("no broker could be reached")
    rig.sink.abort()
    assert [producer.calls for producer in rig.made] == [["init", "begin", "produce"], ["init", "begin"]]


def test_an_unused_producer_is_replaced_before_the_next_records(rig: Rig) -> None:
    rig.commit()
    rig.report_error()
    rig.sink.poll()
    rig.sink.refresh()
    rig.sink.refresh()
    assert [producer.calls[:2] for producer in rig.made] == [["init", "begin"]] * 2


def test_a_record_that_times_out_replaces_the_producer(rig: Rig) -> None:
    """Its transaction has timed out as well: to abort it would be refused."""
    rig.report_undelivered(KafkaError._MSG_TIMED_OUT, "message timed out")
    with pytest.raises(RolledBackError, match=r"t\.acks\[3\] was not delivered: message timed out"):
        rig.sink.poll()
    rig.sink.abort()
    assert "abort" not in rig.made[0].calls
    assert len(rig.made) == 2


def test_a_topic_that_may_not_be_written_ends_the_process(rig: Rig) -> None:
    rig.report_undelivered(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied")
    for step in (rig.sink.poll, rig.sink.abort):
        with pytest.raises(BrokerError, match=r"topic t\.acks may not be written by this user"):
            step()
    assert len(rig.made) == 1


def test_brokers_that_do_not_come_back_end_the_process(rig: Rig) -> None:
    rig.fail("b was fenced", {COMMIT: FENCED})
    rig.producers.fails = {"init_transactions": TIMED_OUT}
    with pytest.raises(BrokerError, match=r"does not know the result of its transaction .* restart the process"):
        rig.sink.abort()
