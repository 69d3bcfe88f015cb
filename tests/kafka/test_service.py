"""One worker of all topologies: it serves those that are there and those that come, and none can take it down.

On a broker of its own, for it would serve what other tests have left as well.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from acker_worker import worker
from acker_worker.ack_log import AckLogReader
from acker_worker.catalogue import Catalogue
from acker_worker.errors import BrokerUnreachableError
from acker_worker.published import PublishedTopologies
from acker_worker.service import AckerService
from acker_worker.stats import WorkerStats
from acker_worker.worker import WorkerSettings
from local_kafka import LocalKafka
from tests.kafka.ack_log import AckLog, manifest_of
from tests.waiting import eventually
from tuple_tree.names import TOPOLOGIES_TOPIC, acker_group, dead_letters_topic


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalKafka() as kafka:
        yield kafka.bootstrap_servers


class ServiceThread:
    """The service in a thread, and what its workers said last."""

    def __init__(self, servers: str) -> None:
        self.stats: dict[str, WorkerStats] = {}
        self.turns = 0
        self.said_at: list[float] = []
        self.error: BaseException | None = None
        kafka: dict[str, str | int | float | bool] = {
            "bootstrap.servers": servers,
            "log_level": 2,
            "session.timeout.ms": 12_000,
        }
        settings = WorkerSettings(commit_interval_s=0.2, stats_interval_s=0.05)
        self.service = AckerService(kafka, settings, self._keep, self._turn)
        self.thread = threading.Thread(target=self._run, name="service")

    def owns(self, log: AckLog) -> bool:
        """Whether it owns all partitions of a topology."""
        return self.of(log).partitions == log.manifest.ack_partitions

    def of(self, log: AckLog) -> WorkerStats:
        """What its worker of a topology said last; nothing but zeros before it has said anything."""
        return self.stats.get(log.topology) or WorkerStats()

    def _keep(self, topology: str, stats: WorkerStats) -> None:
        self.stats[topology] = stats
        self.said_at.append(time.monotonic())

    def _turn(self) -> None:
        self.turns += 1

    def _run(self) -> None:
        try:
            self.service.run()
        except BaseException as error:  # noqa: BLE001  # kept for the test's own thread
            self.error = error


@contextmanager
def running(servers: str) -> Iterator[ServiceThread]:
    """The service at work; stopped cleanly at the end."""
    thread = ServiceThread(servers)
    thread.thread.start()
    try:
        eventually(lambda: thread.turns or thread.error, "the service to start")
        yield thread
    finally:
        thread.service.stop()
        thread.thread.join(60)
    assert not thread.thread.is_alive()
    assert thread.error is None, thread.error


@contextmanager
def topology_of(servers: str, timeout_ms: int = 120_000) -> Iterator[AckLog]:
    """A topology that is withdrawn at the end, so that no later test serves it."""
    with AckLog(servers, timeout_ms=timeout_ms) as log:
        try:
            yield log
        finally:
            log.catalogue.withdraw(log.topology)


def is_served(log: AckLog, root: int) -> None:
    """Waits until a tree of the topology has had its outcome."""
    log.say(root, init=5)
    log.say(root, ack=5)
    log.flush()
    assert log.await_notices([root])[root] == ["ack"]


def test_what_is_published_while_it_runs_is_served_beside_the_rest(servers: str) -> None:
    with topology_of(servers) as first, running(servers) as service:
        is_served(first, 2)
        with topology_of(servers) as second:
            is_served(second, 2)
            is_served(first, 4)
            assert set(service.service.topologies()) == {first.topology, second.topology}
            assert set(service.service.silences()) == {first.topology, second.topology}

            def acked() -> list[int]:
                return [service.of(log).trees_acked for log in (first, second)]

            eventually(lambda: acked() == [2, 1], "the numbers of both")


def test_it_starts_before_there_is_anything_to_serve() -> None:
    with LocalKafka() as kafka:
        assert TOPOLOGIES_TOPIC not in Catalogue({"bootstrap.servers": kafka.bootstrap_servers}).topics()
        with running(kafka.bootstrap_servers), topology_of(kafka.bootstrap_servers) as log:
            is_served(log, 2)


def test_it_survives_the_loss_of_all_manifests() -> None:
    with LocalKafka() as kafka, topology_of(kafka.bootstrap_servers) as old, running(kafka.bootstrap_servers):
        is_served(old, 2)
        for _ in range(5):
            old.catalogue.publish(old.manifest)
        old.delete_topic(TOPOLOGIES_TOPIC)
        with topology_of(kafka.bootstrap_servers) as new:
            # At an offset that the old topic had as well.
            is_served(new, 2)
            is_served(old, 4)


def test_without_a_broker_it_does_not_start() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1"):
        AckerService({"bootstrap.servers": "127.0.0.1:1", "log_level": 2}).run()


def test_a_topology_whose_ack_log_is_deleted_ends_alone_and_comes_back(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    with topology_of(servers) as broken, topology_of(servers) as other, running(servers) as service:
        is_served(broken, 2)
        is_served(other, 2)
        broken.delete_topic(broken.topic)
        served = service.service.topologies()[broken.topology]
        eventually(lambda: served.problem, "the worker to notice", 120)
        assert f"topic {broken.topic}" in served.problem
        told = f"topology {broken.topology} is not served, tried again in "
        eventually(lambda: told in caplog.text, "that to be logged, which comes after it")
        is_served(other, 4)
        broken.catalogue.create_topics(broken.manifest)
        eventually(lambda: service.owns(broken) and not served.problem, "it to be served again", 120)
        is_served(broken, 4)
        is_served(other, 6)


@pytest.mark.parametrize("value", [b"no manifest", manifest_of("another-name").to_json()])
def test_a_manifest_that_cannot_be_used_is_said_and_passed_over(
    servers: str, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer({"bootstrap.servers": servers})
    with topology_of(servers) as log, running(servers) as service:
        producer.produce(TOPOLOGIES_TOPIC, key=b"broken", value=value, partition=0)
        assert producer.flush(30) == 0
        eventually(lambda: "topology broken cannot be served as it was published" in caplog.text, "it to be said")
        assert service.service.topologies()["broken"].problem
        is_served(log, 2)
        log.catalogue.withdraw("broken")
        eventually(lambda: "broken" not in service.service.topologies(), "it to be forgotten")


@pytest.mark.parametrize(
    ("fault", "value", "said"),
    [
        ("unanswered_s", 5.0, "a commit has had no answer for 5 s"),
        ("lost", True, "its client has lost all brokers, as librdkafka may"),
    ],
)
def test_what_a_client_does_not_recover_from_starts_the_worker_again(
    servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str, value: Any, said: str
) -> None:
    """It happens when a broker goes or comes at the wrong moment, which no broker does on demand."""
    with topology_of(servers) as log, running(servers) as service:
        is_served(log, 2)
        with monkeypatch.context() as patched:
            patched.setattr(worker, "ANSWER_S", 1.0)
            patched.setattr(AckLogReader, fault, value)
            eventually(lambda: said in caplog.text, "the worker to give up")
        eventually(lambda: service.owns(log), "it to be served again")
        is_served(log, 4)


def test_manifests_are_read_by_another_client_if_one_has_lost_its_brokers(servers: str) -> None:
    published = PublishedTopologies({"bootstrap.servers": servers, "log_level": 2})
    published.open()

    def followed(log: AckLog) -> bool:
        return log.topology in {change.topology for change in published.poll(0.2)}

    with topology_of(servers) as old:
        eventually(lambda: followed(old), "what is published")
        for _ in range(2):
            published._sight.hear('{"brokers": {}}')
        with topology_of(servers) as new:
            eventually(lambda: followed(new), "what is published from now on")
    published.close()


def test_a_consumer_that_waits_for_ever_is_not_waited_for(
    servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = AckLogReader("nobody", {"bootstrap.servers": servers}, lambda _reached: None, time.monotonic)
    monkeypatch.setattr(AckLogReader, "unanswered_s", 31.0)
    reader.close()
    assert "nobody.acks: a consumer is given up" in caplog.text


def test_what_is_withdrawn_is_let_go_of_and_the_rest_is_served(servers: str) -> None:
    with topology_of(servers) as kept, topology_of(servers) as gone, running(servers) as service:
        is_served(kept, 2)
        is_served(gone, 2)
        gone.catalogue.withdraw(gone.topology)
        eventually(lambda: set(service.service.topologies()) == {kept.topology}, "it to be let go of")
        # What it has told is committed.
        assert sum(offset for offset, _ in gone.committed().values() if offset > 0) == sum(gone.end_offsets().values())
        is_served(kept, 4)
        gone.catalogue.publish(gone.manifest)
        is_served(gone, 4)
        assert gone.read_notices()[2] == ["ack"], "nothing is told twice"


def test_other_time_outs_are_taken_up(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with topology_of(servers) as log, running(servers) as service:
        is_served(log, 2)
        log.say(4, init=5)
        log.flush()
        eventually(lambda: service.of(log).pending == 1, "the tree")
        log.catalogue.publish(log.manifest.model_copy(update={"tick_ms": 100}))
        started = f"acker worker of {log.topology} started"
        eventually(lambda: caplog.messages.count(started) == 2, "the new worker")
        eventually(lambda: service.of(log).pending == 1, "the tree in the new ledger")
        log.say(4, ack=5)
        log.flush()
        assert log.await_notices([4])[4] == ["ack"]


def test_topologies_without_ackers_are_passed_over(servers: str) -> None:
    untracked = manifest_of("untracked").model_copy(update={"guarantee": "at_most_once"})
    with topology_of(servers) as log, running(servers) as service:
        log.catalogue.publish(untracked)
        is_served(log, 2)
        assert set(service.service.topologies()) == {log.topology}
        log.catalogue.withdraw("untracked")


def test_two_services_share_the_partitions(servers: str) -> None:
    with topology_of(servers) as log, running(servers) as one:
        eventually(lambda: one.owns(log), "one to own all")
        with running(servers) as other:

            def partitions() -> list[int]:
                return [each.of(log).partitions for each in (one, other)]

            eventually(lambda: partitions() == [1, 1], "each to own one", 120)
            is_served(log, 2)
            is_served(log, 3)
        eventually(lambda: one.owns(log), "one to own all again")
        is_served(log, 5)


def test_it_commits_and_releases_all_at_its_end(servers: str) -> None:
    with topology_of(servers) as first, topology_of(servers) as second:
        with running(servers):
            is_served(first, 2)
            is_served(second, 3)
        admin = AdminClient(first.kafka)
        for log in (first, second):
            group = acker_group(log.topology)
            assert admin.describe_consumer_groups([group])[group].result().members == []
            committed = sum(offset for offset, _ in log.committed().values() if offset > 0)
            assert committed == sum(log.end_offsets().values())
            assert log.dead_letters() == [], dead_letters_topic(log.topology)
