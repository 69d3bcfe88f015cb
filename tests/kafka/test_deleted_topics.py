"""What is deleted under those who use it ends them, with a line that says so: they would wait for ever."""

import threading
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from acker_worker.errors import AckerWorkerError
from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker
from spout_sdk import ComponentRunner, SpoutSdkError, load_topology
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import Cluster
from tests.kafka.sdk_topologies import NAME
from tests.waiting import eventually

ENDLESS = "tests.kafka.sdk_topologies:endless"
# Of a machine that has a lot else to do.
SECONDS = 120


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuple_tree.topic_watch.WATCH_SECONDS", 0.5)


@pytest.fixture
def cluster(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv(NAME, f"deleted-{uuid.uuid4().hex[:8]}")
    cluster = Cluster(bootstrap_servers, load_topology(ENDLESS).manifest)
    cluster.create_topics()
    return cluster


def last_words(
    run: Callable[[], None], stop: Callable[[], None], is_ready: Callable[[], bool], end: Callable[[], None]
) -> str:
    """What something says that is ended, as it works, by something else."""
    said: list[str] = []

    def running() -> None:
        try:
            run()
        except (AckerWorkerError, SpoutSdkError) as error:
            said.append(str(error))

    thread = threading.Thread(target=running)
    thread.start()
    try:
        eventually(is_ready, "it works")
        end()
        thread.join(SECONDS)
        assert said, "it did not end"
    finally:
        stop()
        thread.join(60)
    return said[0]


@pytest.mark.parametrize(
    ("name", "used"),
    [("lines", "notices.lines"), ("lines", "tuples.split"), ("split", "tuples.split"), ("count", "dead-letters")],
)
def test_a_component_ends(cluster: Cluster, name: str, used: str) -> None:
    """Also one that has nothing to do: `split` and `count` hear of no tuple here."""
    topology = load_topology(ENDLESS)
    runner = ComponentRunner(topology, name, cluster.kafka)
    topic = f"{topology.name}.{used}"
    said = last_words(
        runner.run, runner.stop, lambda: len(runner.stats.tasks) == 2, lambda: cluster.delete_topic(topic)
    )
    # A reader that has not read anything yet hears of it by itself.
    assert said.startswith((f"topic {topic} was deleted: ", f"reading {topic} cannot go on: "))
    assert said.endswith(("acker topics create MODULE:TOPOLOGY, and start it again", "exists and may be read"))


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_worker_ends(bootstrap_servers: str, is_made_anew: bool) -> None:
    with AckLog(bootstrap_servers, timeout_ms=30_000) as log:
        heard: list[WorkerStats] = []
        worker = AckerWorker(log.topology, log.kafka, on_stats=heard.append)
        admin = AdminClient(log.kafka)

        def delete() -> None:
            admin.delete_topics([log.topic])[log.topic].result(30)
            if is_made_anew:
                eventually(lambda: log.topic not in log.catalogue.topics(), "the topic to be gone")
                log.catalogue.create_topics(log.manifest)

        log.say(2, init=5)
        log.flush()
        said = last_words(worker.run, worker.stop, lambda: bool(heard) and heard[-1].pending == 1, delete)
        # A commit may hear of it first.
        assert said.startswith((f"topic {log.topic} was deleted", f"topic {log.topic} is gone"))
        assert "acker topics create MODULE:TOPOLOGY" in said
