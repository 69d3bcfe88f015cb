"""A producer that can neither commit nor abort its transaction is replaced, in the same process."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kafka_clients.client_settings import CLIENT_CLASSES
from spout_sdk.delivery import transactional_sink
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.errors import BrokerError, RolledBackError

FENCED = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=False)
ABORTABLE = KafkaError(KafkaError.ILLEGAL_GENERATION, "another generation", txn_requires_abort=True)
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "all are down")
INVALID = KafkaError(KafkaError.INVALID_TXN_STATE, "invalid state")
OFFSETS = [TopicPartition("t.tuples.b", 0, 7)]


class Record:
    """The messages that librdkafka reports as undelivered."""

    def topic(self) -> str:
        return "t.acks"

    def partition(self) -> int:
        return 3


class Fake:
    """librdkafka's producer; `fails` has what its methods raise, by their names."""

    made: ClassVar[list["Fake"]] = []
    fails: ClassVar[dict[str, KafkaError]] = {}
    gate: ClassVar[threading.Event] = threading.Event()
    hangs: ClassVar[bool] = False

    def __init__(self, settings: dict[str, Any]) -> None:
        self.id = settings["transactional.id"]
        self.on_error, self.on_undelivered = settings["error_cb"], settings["on_delivery"]
        self.reports: list[Callable[[], None]] = []
        self.calls: list[str] = []
        self.made.append(self)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise KafkaException(self.fails[name])

    def produce(self, *_: Any) -> None:
        self._call("produce")

    def list_topics(self, _topic: str, timeout: float) -> None: ...

    def poll(self, _seconds: float) -> int:
        while self.reports:
            self.reports.pop()()
        return 0

    def flush(self, _seconds: float) -> int:
        return self.poll(0)

    def init_transactions(self, _seconds: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets_to_transaction(self, _offsets: Any, _group: Any, _seconds: float) -> None:
        self._call("offsets")
        if self.hangs:
            self.gate.wait()

    def commit_transaction(self, _seconds: float) -> None:
        self._call("commit")

    def abort_transaction(self, _seconds: float) -> None:
        self._call("abort")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Fake]]:
    gate = threading.Event()
    for name, value in {"made": [], "fails": {}, "gate": gate, "hangs": False}.items():
        monkeypatch.setattr(Fake, name, value)
    monkeypatch.setattr(transactional_sink, "_OFFSETS_SECONDS", 0.0)
    monkeypatch.setattr(transactional_sink, "_FLUSH_SECONDS", 0.01)
    yield Fake
    gate.set()


def new_sink() -> TransactionalSink:
    sink = TransactionalSink({CLIENT_CLASSES: {Producer: Fake}}, "t", "b", "0")
    produce(sink)
    return sink


def produce(sink: TransactionalSink) -> None:
    assert sink.produce("t.acks", 3, None, b"x", []) is None


def test_a_transaction_that_is_aborted_keeps_its_producer(fake: type[Fake]) -> None:
    sink = new_sink()
    fake.fails = {"offsets": ABORTABLE}
    with pytest.raises(RolledBackError, match="another generation"):
        sink.commit(OFFSETS, "group")
    fake.fails = {}
    sink.abort()
    sink.commit(OFFSETS, "group")
    (producer,) = fake.made
    assert producer.calls[2:] == ["produce", "offsets", "abort", "begin", "offsets", "commit", "begin"]


@pytest.mark.parametrize(
    "fails", [{"offsets": FENCED}, {"offsets": TIMED_OUT}, {"commit": INVALID}, {"commit": TIMED_OUT}]
)
def test_a_commit_without_a_known_outcome_replaces_the_producer(fake: type[Fake], fails: dict[str, KafkaError]) -> None:
    """`init_transactions` of the new one ends the transaction, before anything is read again."""
    sink = new_sink()
    fake.fails = fails
    with pytest.raises(RolledBackError):
        sink.commit(OFFSETS, "group")
    fake.fails = {}
    sink.abort()
    old, new = fake.made
    assert "abort" not in old.calls
    assert new.calls == ["init", "begin"]
    assert old.id == new.id
    produce(sink)
    sink.commit(OFFSETS, "group")
    assert new.calls[2:] == ["produce", "offsets", "commit", "begin"]


def test_an_abort_that_is_refused_replaces_the_producer(fake: type[Fake]) -> None:
    sink = new_sink()
    fake.fails = {"offsets": ABORTABLE, "abort": INVALID}
    with pytest.raises(RolledBackError):
        sink.commit(OFFSETS, "group")
    sink.abort()
    assert [producer.calls[-1] for producer in fake.made] == ["abort", "begin"]


def test_offsets_that_hang_replace_the_producer_and_are_never_committed(fake: type[Fake]) -> None:
    sink = new_sink()
    fake.hangs = True
    with pytest.raises(RolledBackError, match="the offsets of its inputs were not taken"):
        sink.commit(OFFSETS, "group")
    sink.abort()
    fake.hangs = False
    fake.gate.set()
    produce(sink)
    sink.commit(OFFSETS, "group")
    old, new = fake.made
    assert "commit" not in old.calls
    assert new.calls == ["init", "begin", "produce", "offsets", "commit", "begin"]


def test_many_producers_that_hang_end_the_process(fake: type[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_sink, "_MOST_HANGING", 2)
    sink = new_sink()
    fake.hangs = True

    def hang() -> None:
        with pytest.raises(RolledBackError):
            sink.commit(OFFSETS, "group")
        sink.abort()

    hang()
    with pytest.raises(BrokerError, match="2 producers of b hang"):
        hang()


def test_a_transaction_ends_when_all_brokers_are_gone(fake: type[Fake]) -> None:
    """To flush it, or to abort it, would wait for what the broker aborts by itself."""
    sink = new_sink()
    fake.made[0].reports = [lambda: fake.made[0].on_error(ALL_DOWN)]
    with pytest.raises(RolledBackError, match="no broker could be reached"):
        sink.commit(OFFSETS, "group")
    sink.abort()
    assert fake.made[0].calls[-1] == "produce"
    assert fake.made[1].calls == ["init", "begin"]


def test_an_unused_producer_is_replaced_before_the_next_records(fake: type[Fake]) -> None:
    sink = new_sink()
    sink.commit(OFFSETS, "group")
    fake.made[0].reports = [lambda: fake.made[0].on_error(ALL_DOWN)]
    sink.poll()
    sink.refresh()
    sink.refresh()
    assert [producer.calls[:2] for producer in fake.made] == [["init", "begin"]] * 2


def test_a_record_that_times_out_replaces_the_producer(fake: type[Fake]) -> None:
    """Its transaction has timed out as well: to abort it would be refused."""
    sink = new_sink()
    late = KafkaError(KafkaError._MSG_TIMED_OUT, "message timed out")
    fake.made[0].reports = [lambda: fake.made[0].on_undelivered(late, Record())]
    with pytest.raises(RolledBackError, match=r"t\.acks\[3\] was not delivered: message timed out"):
        sink.poll()
    sink.abort()
    assert "abort" not in fake.made[0].calls
    assert len(fake.made) == 2


def test_a_topic_that_may_not_be_written_ends_the_process(fake: type[Fake]) -> None:
    sink = new_sink()
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied")
    fake.made[0].reports = [lambda: fake.made[0].on_undelivered(denied, Record())]
    for step in (sink.poll, sink.abort):
        with pytest.raises(BrokerError, match=r"topic t\.acks may not be written by this user"):
            step()
    assert len(fake.made) == 1


def test_brokers_that_do_not_come_back_end_the_process(fake: type[Fake]) -> None:
    sink = new_sink()
    fake.fails = {"commit": FENCED, "init": TIMED_OUT}
    with pytest.raises(RolledBackError, match="b was fenced"):
        sink.commit(OFFSETS, "group")
    with pytest.raises(BrokerError, match=r"does not know how its transaction went .* restart the process"):
        sink.abort()
