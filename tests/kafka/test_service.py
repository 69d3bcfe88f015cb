"""One worker of all topologies: it serves existing and new ones, and each fails alone.

On a broker of its own, because it serves all topologies of a cluster, and because one test stops the broker.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from acker_worker import acker_loop
from acker_worker.acker_loop import AckerLoop
from acker_worker.fold import SpoutOutcomes
from acker_worker.notifier import Notifier
from acker_worker.service import AckerService
from acker_worker.stats import WorkerStats
from kafka_clients.catalogue import Catalogue
from kafka_clients.client_settings import for_admin
from kafka_clients.librdkafka_bugs import BrokerMonitor
from local_kafka import LocalKafka
from tests.broker import KILLED
from tests.kafka.ack_log import FAST, AckLog, Clock, manifest_of, settled
from tests.kafka.sdk_rig import QUICK, Threaded
from tests.waiting import eventually
from tuple_tree.messages import SpoutAddress
from tuple_tree.names import TOPOLOGIES_TOPIC, acker_group

pytestmark = pytest.mark.xdist_group("acker-service")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker that can be stopped and restarted with its data, at the same port."""
    with LocalKafka(data_dir=tmp_path_factory.mktemp("broker") / "data", properties=KILLED) as kafka:
        yield kafka
        kafka.kill()


@pytest.fixture
def servers(broker: LocalKafka) -> str:
    return broker.bootstrap_servers


class ServiceThread:
    """The service in a thread, and the last statistics of its workers."""

    def __init__(self, servers: str, clock: Callable[[], float], session_ms: int) -> None:
        self.stats: dict[str, WorkerStats] = {}
        self.turns = 0
        self.snapshots = 0
        sessions = {"session.timeout.ms": session_ms, "max.poll.interval.ms": session_ms, "heartbeat.interval.ms": 300}
        kafka = {**FAST, "bootstrap.servers": servers, **sessions}
        self.service = AckerService(kafka, QUICK, self._keep, self._turn, clock)
        self.thread = Threaded(self.service)

    def of(self, log: AckLog) -> WorkerStats:
        """The last statistics of its worker of a topology; zeros before there are any."""
        return self.stats.get(log.topology) or WorkerStats()

    def stop(self) -> None:
        self.thread.stop()
        self.thread.join()

    def _keep(self, topology: str, stats: WorkerStats) -> None:
        self.stats[topology] = stats
        self.snapshots += 1

    def _turn(self) -> None:
        self.turns += 1


@contextmanager
def running(
    servers: str, clock: Callable[[], float] = time.monotonic, session_ms: int = 12_000
) -> Iterator[ServiceThread]:
    service = ServiceThread(servers, clock, session_ms)
    try:
        eventually(lambda: service.turns or service.thread.error, "the service to start")
        yield service
    finally:
        service.stop()


def is_logged(caplog: pytest.LogCaptureFixture, text: str, times: int = 1) -> None:
    """Waits until a text was logged that often."""
    eventually(lambda: caplog.text.count(text) >= times, f"{text!r} to be logged")


def is_committed(log: AckLog) -> bool:
    """Whether all of the ack log is committed."""
    return sum(offset for offset, _ in log.committed().values() if offset > 0) == sum(log.end_offsets().values())


def test_new_topologies_are_served_and_deleted_ones_released(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    """It begins without topologies, and survives invalid manifests and the deletion of all of them."""
    catalogue, admin = Catalogue({"bootstrap.servers": servers}), AdminClient({"bootstrap.servers": servers})
    if TOPOLOGIES_TOPIC in catalogue.topics():
        admin.delete_topics([TOPOLOGIES_TOPIC])[TOPOLOGIES_TOPIC].result()
        eventually(lambda: TOPOLOGIES_TOPIC not in catalogue.topics(), "the topic to be gone")
    with running(servers) as service, AckLog(servers) as kept:
        served = service.service.topologies
        kept.complete(2)
        with AckLog(servers) as gone:
            gone.complete(2)
            kept.catalogue.publish(manifest_of("untracked").model_copy(update={"guarantee": "at_most_once"}))
            for times, value in enumerate([b"no manifest", manifest_of("another-name").to_json()], start=1):
                kept.produce(TOPOLOGIES_TOPIC, 0, value, key=b"broken")
                is_logged(caplog, "topology broken cannot be served as it was published", times)
            assert set(served()) == {kept.topology, gone.topology, "broken"}
            eventually(lambda: [service.of(log).trees_acked for log in (kept, gone)] == [1, 1], "the counts of both")
            for topology in ("broken", gone.topology):
                gone.catalogue.withdraw(topology)
            eventually(
                lambda: set(served()) == set(service.service.heartbeat_ages()) == {kept.topology}, "the others to end"
            )
            assert is_committed(gone)
            kept.complete(4)
            gone.catalogue.publish(gone.manifest)
            gone.complete(4)
            assert gone.read_notices()[2] == ["ack"], "no outcome is repeated"
        kept.delete_topic(TOPOLOGIES_TOPIC)
        with AckLog(servers) as new:
            new.complete(2)
            kept.complete(6)
        service.stop()
        assert is_committed(kept)
        group = acker_group(kept.topology)
        assert admin.describe_consumer_groups([group])[group].result().members == []


def test_a_client_that_does_not_recover_restarts_the_worker(
    servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It depends on the moment at which a broker stops or starts, which a test cannot choose."""
    with AckLog(servers) as log, running(servers) as service:
        log.complete(2)
        with monkeypatch.context() as patched:
            patched.setattr(acker_loop, "ANSWER_SECONDS", 1.0)
            patched.setattr(AckerLoop, "unanswered_s", 5.0)
            is_logged(caplog, "a commit has had no answer for 5 s")
        log.complete(4)
        with monkeypatch.context() as patched:
            patched.setattr(BrokerMonitor, "lost", True)
            is_logged(caplog, "its client has lost all brokers, as librdkafka may")
        log.complete(6)
        caplog.clear()
        caplog.set_level("INFO")
        log.send(8, init=5)
        log.flush()
        eventually(lambda: service.of(log).pending == 1, "the tree")
        # Other time-outs start it again as well, and its open trees are rebuilt.
        log.catalogue.publish(log.manifest.model_copy(update={"tick_ms": 100}))
        eventually(lambda: f"acker worker of {log.topology} started" in caplog.messages, "the new worker")
        log.send(8, ack=5)
        assert log.await_notices([8])[8] == ["ack"]


def acked(*roots: int) -> SpoutOutcomes:
    outcomes = SpoutOutcomes()
    outcomes.acked.append(np.array(roots, dtype=np.uint64))
    return outcomes


class Requests:
    """Requests of an admin client without an answer, and how often it has connected."""

    def __init__(self, servers: str) -> None:
        self.connects = 0
        settings: dict[str, Any] = {
            **for_admin({"bootstrap.servers": servers, "log_level": 0}),
            "stats_cb": self._count,
        }
        self._admin = AdminClient({**settings, "statistics.interval.ms": 100})
        # From now on the client has the address of the broker.
        self._admin.describe_cluster(request_timeout=10).result()

    def send(self) -> None:
        future = self._admin.describe_cluster(request_timeout=1)
        while not future.done():
            self._admin.poll(0.1)
        with pytest.raises(KafkaException, match="Timed out"):
            future.result()

    def _count(self, statistics: str) -> None:
        self.connects = sum(each["connects"] for each in json.loads(statistics)["brokers"].values())


class Forgetful(Catalogue):
    """A catalogue whose first answers contain no topics, as those of a broker that has just started."""

    def __init__(self, kafka: dict[str, Any], answers: int) -> None:
        super().__init__(kafka)
        self.left = answers

    def topics(self, contact_s: float | None = None) -> dict[str, int]:
        self.left -= 1
        return super().topics(contact_s) if self.left < 0 else {}


def test_outcomes_wait_for_a_topic_that_is_missing_for_a_moment(servers: str) -> None:
    clock = Clock()
    with AckLog(servers) as log:
        notifier = Notifier(log.topology, log.kafka, Forgetful(log.kafka, 2), clock)
        for root in (2, 4):
            notifier.notify(0, 7, {log.spout: acked(root)})
            assert not notifier.drain(0)
            clock.ahead_s += 1
        assert notifier.drain(10)
        assert log.await_notices([2, 4]) == {2: ["ack"], 4: ["ack"]}
        stranger = SpoutAddress(f"{log.topology}.notices.stranger", 0, 1_000)
        notifier.notify(0, 8, {stranger: acked(5), log.spout: acked(6)})
        assert log.await_notices([6])[6] == ["ack"]
        assert notifier.undeliverable == 0
        clock.ahead_s += 5
        assert notifier.drain(10)
        assert notifier.undeliverable == 1


# `acker top` and the dashboard send this request every few seconds.
_READ_LAGS = """
import sys
import threading
import time
from contextlib import suppress

from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import BrokerError
from inspection.topology_status import ClusterStatus

kafka, pause = {"bootstrap.servers": sys.argv[1]}, threading.Event()
status, manifest = ClusterStatus(kafka), Catalogue(kafka, first_s=60).manifest(sys.argv[2])
while True:
    with suppress(BrokerError):
        status.lags(manifest, {})
        print(time.monotonic(), flush=True)
    pause.wait(0.05)
"""


@contextmanager
def reading_lags(servers: str, topology: str) -> Iterator[Iterator[float]]:
    """Times of the answers to a process that requests lags continuously, by the monotonic clock."""
    command = [sys.executable, "-c", _READ_LAGS, servers, topology]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield map(float, process.stdout)
        finally:
            process.kill()


@pytest.mark.exhaustive
def test_workers_and_outcomes_wait_for_the_broker_with_backoff(
    broker: LocalKafka, servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acker_loop, "CONTACT_SECONDS", 0.5)
    monkeypatch.setattr("acker_worker.notifier._LOOK_UP_SECONDS", 0.2)
    clock, waiting, requests = Clock(), Clock(), Requests(servers)
    # Longer than the broker is away, so that the worker keeps its partitions.
    serving = running(servers, clock, session_ms=120_000)
    with (
        AckLog(servers) as log,
        AckLog(servers) as other,
        serving as service,
        reading_lags(servers, other.topology) as answers,
    ):
        log.complete(3)
        next(answers)
        log.send(2, init=5, to=SpoutAddress(log.spout.topic, log.spout.task, 30_000))
        log.flush()
        eventually(lambda: settled(service.of(log), 1), "the tree, all of it committed")
        stranger = SpoutAddress(f"{other.topology}.notices.stranger", 0, 1_000)
        notifier = Notifier(other.topology, other.kafka, Catalogue(other.kafka), waiting)
        broker.kill()
        try:
            notifier.notify(0, 7, {stranger: acked(5), other.spout: acked(2, 4)})
            notifier.notify(0, 8, {other.spout: acked(6)})
            assert not notifier.drain(0.1)
            assert (notifier.notices, notifier.undeliverable) == (0, 0)
            # The tree is due, so the worker requests the end of the log, while its loop turns.
            clock.ahead_s += 600
            is_logged(caplog, f"{log.topic}[0]: the clock does not advance")
            before = service.snapshots
            eventually(lambda: service.snapshots > before + 1, "the loop to turn")
            assert caplog.text.count(f"{log.topic}[0]: the clock does not advance") == 1
            assert 2 not in log.read_notices()
            requests.send()
            assert 0 < requests.connects < 60, requests.connects
        finally:
            broker.start()
        restarted = time.monotonic()

        def all_delivered() -> bool:
            notifier.poll()
            waiting.ahead_s += 1
            return notifier.drain(0.1)

        eventually(all_delivered, "the outcomes to be delivered")
        # librdkafka aborts a process that requests groups in another way.
        assert any(at > restarted for at in answers)
        assert (notifier.notices, notifier.undeliverable, notifier.dead_letters) == (3, 1, 1)
        assert other.await_notices([2, 4, 6]) == {2: ["ack"], 4: ["ack"], 6: ["ack"]}
        log.send(5, init=0)
        outcomes = log.await_notices([2, 5])
        assert (set(outcomes[2]), set(outcomes[5])) == ({"timeout"}, {"ack"})
