"""Workers ride out a restart of their only broker."""

import itertools
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from acker_worker.catalogue import Catalogue
from acker_worker.fold import Told
from acker_worker.notifier import Notifier
from acker_worker.stats import WorkerStats
from local_kafka import LocalKafka
from tests.kafka.ack_log import AckLog
from tests.kafka.test_service import running
from tests.waiting import eventually
from tuple_tree.client_settings import for_admin
from tuple_tree.codec import decode_notice_batch
from tuple_tree.messages import SpoutTask

STUCK_AFTER_S = 30
"""What `/health` calls stuck unless it is told otherwise."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    """One that can be stopped and started again with what it holds, at the same port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with LocalKafka(data_dir=tmp_path / "broker", port=port) as kafka:
        yield kafka


def acked(*roots: int) -> Told:
    told = Told()
    told.acked.append(np.array(roots, dtype=np.uint64))
    return told


def test_a_client_that_asks_a_broker_that_is_away_does_not_storm_it(broker: LocalKafka) -> None:
    connects = [0]

    def count(statistics: str) -> None:
        connects.append(sum(each["connects"] for each in json.loads(statistics)["brokers"].values()))

    kafka = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    settings: dict[str, Any] = {**for_admin(kafka), "statistics.interval.ms": 100, "stats_cb": count}
    admin = AdminClient(settings)
    # Which broker is to be asked is known from now on.
    admin.describe_cluster(request_timeout=10).result()
    broker.stop()
    asked = admin.describe_cluster(request_timeout=3)
    while not asked.done():
        admin.poll(0.1)
    with pytest.raises(KafkaException, match="Timed out"):
        asked.result()
    assert 2 < connects[-1] < 30


def test_outcomes_wait_for_a_broker_that_says_whether_their_spout_exists(broker: LocalKafka) -> None:
    with AckLog(broker.bootstrap_servers) as log:
        stranger = SpoutTask(f"{log.topology}.notices.stranger", 0, 1_000)
        notifier = Notifier(log.topology, log.kafka, Catalogue(log.kafka))
        broker.stop()
        notifier.tell(0, 7, {stranger: acked(5), log.spout: acked(2, 4)})
        notifier.tell(0, 8, {log.spout: acked(6)})
        assert not notifier.drain(0.1)
        assert (notifier.notices, notifier.undeliverable) == (0, 0)

        broker.start()

        def all_told() -> bool:
            notifier.poll()
            return notifier.drain(0.1)

        eventually(all_told, "the outcomes to be told")
        assert (notifier.notices, notifier.undeliverable, notifier.dead_letters) == (3, 1, 1)
        assert told_to(log) == [[2, 4], [6]]


def told_to(log: AckLog) -> list[list[int]]:
    """The acked roots in each notice to the log's spout, in order."""
    consumer = Consumer({**log.kafka, "group.id": f"{log.topology}-reader"})
    consumer.assign([TopicPartition(log.spout.topic, log.spout.task, 0)])
    found: list[list[int]] = []

    def read() -> bool:
        for message in consumer.consume(10, 0.1):
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            found.append(decode_notice_batch(value).acked_roots.tolist())
        return sum(map(len, found)) >= 3

    try:
        eventually(read, "the notices")
    finally:
        consumer.close()
    return found


def test_a_worker_goes_on_when_its_broker_is_back_and_its_loop_turns_meanwhile(broker: LocalKafka) -> None:
    with AckLog(broker.bootstrap_servers, timeout_ms=2_000) as log, running(broker.bootstrap_servers) as service:

        def stats() -> WorkerStats:
            return service.stats.get(log.topology, WorkerStats())

        log.say(3, init=5)
        log.say(3, ack=5)
        log.flush()
        log.await_notices([3])
        log.say(2, init=5)
        log.flush()
        eventually(lambda: stats().pending == 1, "the tree")
        broker.stop()
        down = time.monotonic()
        # The tree is due, so the worker asks for the end of the log again and again, and has to commit.
        eventually(lambda: service.said_at[-1] > down + 15, "the loop to turn while there is no broker", 120)
        assert 2 not in log.read_notices()
        broker.start()
        log.say(4, init=5)
        log.say(4, ack=5)
        log.flush()
        notices = log.await_notices([2, 4], deadline_s=180)
        assert notices[4] == ["ack"]
        assert set(notices[2]) == {"timeout"}
        assert max(after - before for before, after in itertools.pairwise(service.said_at)) < STUCK_AFTER_S
