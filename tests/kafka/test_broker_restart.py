"""Workers and components ride out a restart of their only broker, and can be stopped while there is none."""

import itertools
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from acker_worker.catalogue import Catalogue
from acker_worker.fold import Told
from acker_worker.notifier import Notifier
from acker_worker.service import AckerService
from local_kafka import LocalKafka
from spout_sdk import ComponentRunner, Stats, Topology, load_topology
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_topologies import NAME
from tests.waiting import eventually
from tuple_tree.codec import decode_notice_batch
from tuple_tree.messages import SpoutTask

STUCK_AFTER_S = 30
"""What `/health` calls stuck unless it is told otherwise."""
STOPPED_S = 60
"""How long everything may take to stop where no broker answers."""


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
    with AckLog(broker.bootstrap_servers, timeout_ms=2_000) as log:
        turns: list[float] = []
        with log.worker(lambda _stats: turns.append(time.monotonic())) as worker:
            log.say(3, init=5)
            log.say(3, ack=5)
            log.flush()
            log.await_notices([3])
            log.say(2, init=5)
            log.flush()
            eventually(lambda: worker.stats.pending == 1, "the tree")
            broker.stop()
            down = time.monotonic()
            # The tree is due, so the worker asks for the end of the log again and again, and has to commit.
            eventually(lambda: turns[-1] > down + 15, "the loop to turn while there is no broker", 120)
            assert 2 not in log.read_notices()
            broker.start()
            log.say(4, init=5)
            log.say(4, ack=5)
            log.flush()
            notices = log.await_notices([2, 4], deadline_s=120)
            assert (notices[2], notices[4]) == (["timeout"], ["ack"])
            assert worker.error is None
        assert max(after - before for before, after in itertools.pairwise(turns)) < STUCK_AFTER_S


class RunningComponent:
    """A component in a thread, and when it said something of itself."""

    def __init__(self, topology: Topology, name: str, kafka: dict[str, Any]) -> None:
        self.turns: list[float] = []
        self.stats = Stats(name)
        self.error: BaseException | None = None
        self._runner = ComponentRunner(topology, name, kafka, on_stats=self._keep)
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def stop(self) -> None:
        self._runner.stop()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _keep(self, stats: Stats) -> None:
        self.turns.append(time.monotonic())
        self.stats = stats

    def _run(self) -> None:
        try:
            self._runner.run()
        except BaseException as error:  # noqa: BLE001  # kept for the test's own thread
            self.error = error


def turning(part: RunningComponent, since: float) -> Callable[[], bool]:
    return lambda: part.turns[-1] > since


def test_components_go_on_when_their_broker_is_back(broker: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, f"restart-{uuid.uuid4().hex[:8]}")
    topology = load_topology("tests.kafka.sdk_topologies:endless")
    kafka: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 2}
    catalogue = Catalogue(kafka)
    catalogue.create_topics(topology.manifest)
    catalogue.publish(topology.manifest)
    # One that is started again if librdkafka does not get over it.
    worker = AckerService(kafka)
    following = threading.Thread(target=worker.run, name="worker")
    following.start()
    parts = [RunningComponent(topology, part.name, kafka) for part in topology.manifest.components]
    spout = parts[0]
    with ExitStack() as cleaning:
        for part in parts:
            cleaning.callback(part.join, STOPPED_S)
            cleaning.callback(part.stop)
        cleaning.callback(following.join, STOPPED_S)
        cleaning.callback(worker.stop)
        eventually(lambda: spout.stats.acked > 100, "lines to be acked", 120)
        broker.stop()
        down = time.monotonic()
        for part in parts:
            eventually(turning(part, down + 15), f"{part.stats.component} to turn its loop", 120)
        broker.start()
        before = spout.stats.acked
        eventually(lambda: spout.stats.acked > before + 100, "more lines to be acked", 300)
        broker.stop()
        began = time.monotonic()
        worker.stop()
        for part in parts:
            part.stop()
        assert [part.stats.component for part in parts if not part.join(STOPPED_S)] == []
        following.join(STOPPED_S)
        assert not following.is_alive()
        assert time.monotonic() - began < STOPPED_S
    for part in parts:
        assert max(after - before for before, after in itertools.pairwise(part.turns)) < STUCK_AFTER_S
