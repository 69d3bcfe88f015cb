"""A producer that has lost the leader of a partition, as its statistics and another client show."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import pytest

from acker_worker.fold import LogRecord, Rejected
from acker_worker.notifier import Notifier
from kafka_clients import delivery_monitor
from kafka_clients.delivery_monitor import DeliveryMonitor, answering_leaders
from kafka_clients.log_reader import Place
from kafka_clients.producer import ServedProducer
from spout_sdk.errors import BrokerError
from spout_sdk.kafka.kafka_sink import KafkaSink
from tests.mock_cluster import MockCluster, mock_cluster
from tests.waiting import eventually
from tuple_tree.names import dead_letters_topic

TOPIC = "t.tuples.sink"
PLACE = (TOPIC, 0)
ISSUE = "https://github.com/confluentinc/librdkafka/issues/5430"


class Cluster:
    """Leaders by partition, as another client gets them, and the monitor that asks for them.

    The first statistics with a partition are reported already.
    """

    def __init__(self, leaders: Mapping[Place, int] | None, **first: Any) -> None:
        self.leaders = leaders
        self._asked = SimpleQueue[None]()
        self.monitor = DeliveryMonitor({}, self._ask)
        self.report(1, asks=False, **first)

    def _ask(self, places: Collection[Place]) -> Mapping[Place, int]:
        try:
            if self.leaders is None:
                raise RuntimeError("the client is broken")
            return {place: leader for place, leader in self.leaders.items() if place in places}
        finally:
            self._asked.put(None)

    def report(self, count: int, *, asks: bool = True, state: str = "Assigned", **partition: Any) -> str:
        """Statistics with one partition in this state; returns the error, if it is stuck."""
        whole = {"partition": 0, "msgq_cnt": 3, "xmit_msgq_cnt": 0, "msgs_inflight": 0, "txmsgs": 10, **partition}
        topics = {TOPIC: {"topic": TOPIC, "partitions": {str(whole["partition"]): whole}}}
        for _ in range(count):
            self.monitor.on_stats(json.dumps({"eos": {"idemp_state": state}, "topics": topics}))
            if asks:
                self._asked.get(timeout=10)
                eventually(lambda: self.monitor._answer is not None, "the answer")
        return "" if self.monitor.stuck is None else self.monitor.stuck.str()


def test_a_partition_whose_leader_answers_others_for_20_s_is_stuck() -> None:
    cluster = Cluster({PLACE: 2})
    assert not cluster.report(4)
    assert cluster.report(1, asks=False) == (
        f"no record for {TOPIC}[0] was sent for 25 s although its leader, broker 2, answers: librdkafka has lost the "
        f"leader of this partition ({ISSUE}). A restart continues from what is committed"
    )
    assert cluster.monitor.stuck is not None
    assert cluster.monitor.stuck.fatal()


@pytest.mark.parametrize("leaders", [{}, {("other", 0): 1}, None])
def test_a_partition_without_a_leader_waits(leaders: Mapping[Place, int] | None) -> None:
    assert not Cluster(leaders).report(20)


def test_the_leader_has_to_answer_several_times_in_a_row() -> None:
    """A client that works takes a moment until it has found a new leader."""
    cluster = Cluster({})
    cluster.report(20)
    for leaders in ({PLACE: 1}, {}, {PLACE: 3}):
        cluster.leaders = leaders
        cluster.report(3)
    assert not cluster.report(1)
    assert cluster.report(1, asks=False)


@pytest.mark.parametrize("progress", [{"txmsgs": 11}, {"msgq_cnt": 0}, {"msgs_inflight": 5}])
def test_a_partition_that_makes_progress_is_not_stuck(progress: dict[str, Any]) -> None:
    """Also one whose records were sent and are refused, or not acknowledged yet: they were sent to a broker."""
    cluster = Cluster({PLACE: 2})
    cluster.report(4)
    assert not cluster.report(1, asks=False, **progress)
    cluster.report(1, asks=False, txmsgs=12)
    assert not cluster.report(4, txmsgs=12)


@pytest.mark.parametrize("reported", [{"state": "WaitPID"}, {"partition": -1}], ids=["no producer id", "no partition"])
def test_records_that_do_not_wait_for_a_leader_are_not_stuck(reported: dict[str, Any]) -> None:
    leaders = {(TOPIC, reported.get("partition", 0)): 2}
    assert not Cluster(leaders, **reported).report(20, asks=False, **reported)


@pytest.fixture
def brokers() -> Iterator[MockCluster]:
    with mock_cluster(TOPIC) as cluster:
        yield cluster


def settings_of(brokers: MockCluster) -> dict[str, Any]:
    return {"bootstrap.servers": brokers.bootstrap, "topic.metadata.refresh.interval.ms": 50, "log_level": 0}


def test_a_leader_that_answers_is_found(brokers: MockCluster) -> None:
    settings = {"bootstrap.servers": brokers.bootstrap, "enable.idempotence": True, "linger.ms": 0, "stats_cb": print}
    assert answering_leaders(settings, [PLACE, (TOPIC, 7)]) == {PLACE: 1}


def test_no_leader_answers_where_no_broker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_monitor, "_ANSWER_SECONDS", 0.01)
    assert answering_leaders({"bootstrap.servers": "127.0.0.1:1"}, [PLACE]) == {}


@pytest.mark.parametrize("producer", ["tuples", "tuples at most once", "ack batches"])
def test_a_sink_whose_producer_has_lost_a_leader_ends(
    brokers: MockCluster, monkeypatch: pytest.MonkeyPatch, producer: str
) -> None:
    """With the real client, which keeps the metadata that it was given by mistake."""
    monkeypatch.setattr(delivery_monitor, "_STATISTICS_MS", 50)
    sink = KafkaSink(settings_of(brokers), never_twice=producer == "tuples at most once")
    send = sink.send_reported if producer == "ack batches" else sink.send
    failures: list[Any] = []

    def send_one() -> None:
        send(TOPIC, 0, None, b"x", [], lambda error, _message: failures.append(error))

    send_one()
    assert sink.flush(10) == 0
    # The other producer does not know the topic, and asks for no metadata of it.
    brokers.answer_next_metadata(leader=-1, epoch=100)
    words = f"the producer cannot continue: no record for {TOPIC}\\[0\\] was sent for .* broker 1, answers: .*{ISSUE}"
    with pytest.raises(BrokerError, match=words):
        until_it_ends(send_one, sink.poll)
    # The last flush of the process delivers what can be delivered, and does not raise; and the error stays.
    assert sink.flush(0.1) > 0
    with pytest.raises(BrokerError, match=words):
        sink.poll()
    assert set(failures) <= {None}


def test_an_acker_whose_producer_has_lost_a_leader_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_monitor, "_STATISTICS_MS", 50)
    rejected = Rejected(LogRecord(0, 0, b"x"), "undecodable", "no ack batch")
    with mock_cluster(dead_letters_topic("t")) as brokers:
        notifier = Notifier("t", settings_of(brokers), Mock())

        def turn(seconds: float) -> None:
            notifier.drain(seconds)
            notifier.poll()

        notifier.reject(0, rejected)
        assert notifier.drain(10)
        brokers.answer_next_metadata(leader=-1, epoch=100)
        words = rf"cannot be sent any more: no record for t.dead-letters\[0\] .*{ISSUE}.*; start the worker again"
        with pytest.raises(BrokerError, match=words):
            until_it_ends(lambda: notifier.reject(0, rejected), turn)


def test_a_transactional_producer_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records may wait for the coordinator of transactions; another one replaces it."""
    client = Mock()
    monkeypatch.setattr("kafka_clients.producer.Producer", client)
    ServedProducer({"transactional.id": "t"}, lambda _reason: None)
    ServedProducer({}, lambda _reason: None)
    assert ["stats_cb" in settings for ((settings,), _) in client.call_args_list] == [False, True]


def until_it_ends(send: Callable[[], Any], poll: Callable[[float], object]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        send()
        poll(0.02)
