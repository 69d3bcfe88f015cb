"""A deleted topic ends the components and workers that use it, with a log line."""

import pytest

from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker
from spout_sdk.runtime import ComponentRunner
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import Threaded, Use
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_clients.topic_watch.WATCH_SECONDS", 0.5)


@pytest.mark.parametrize(
    ("used", "components"),
    [
        ("dead-letters", ("lines", "split", "count")),
        pytest.param("tuples.split", ("lines", "split"), marks=pytest.mark.exhaustive),
        pytest.param("notices.lines", ("lines",), marks=pytest.mark.exhaustive),
    ],
)
def test_a_component_ends(use: Use, used: str, components: tuple[str, ...]) -> None:
    """Also an idle one: without `lines` no tuple reaches `count`."""
    cluster = use("endless")
    topology = cluster.topology
    runners = [ComponentRunner(topology, name, cluster.bootstrap) for name in components]
    threads = [Threaded(runner) for runner in runners]
    try:
        eventually(lambda: all(len(runner.stats.tasks) == 2 for runner in runners), "all tasks at work")
        topic = f"{topology.name}.{used}"
        cluster.delete_topic(topic)
        for thread in threads:
            message = thread.wait_for_error()
            # A reader that has not read anything yet notices it by itself.
            assert message.startswith((f"topic {topic} was deleted: ", f"reading {topic} cannot continue: "))
            assert message.endswith(("MODULE:TOPOLOGY, and start it again", "continues from what is committed"))
    finally:
        for thread in threads:
            thread.stop()


@pytest.mark.parametrize("is_made_anew", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_worker_ends(log: AckLog, is_made_anew: bool) -> None:
    received: list[WorkerStats] = []
    log.send(2, init=5)
    log.flush()
    thread = Threaded(AckerWorker(log.topology, log.kafka, on_stats=received.append))
    try:
        eventually(lambda: bool(received) and received[-1].pending == 1, "an open tree")
        log.delete_topic(log.topic)
        if is_made_anew:
            log.catalogue.create_topics(log.manifest)
        message = thread.wait_for_error()
    finally:
        thread.stop()
    # A commit may notice it first.
    assert message.startswith((f"topic {log.topic} was deleted", f"topic {log.topic} is gone"))
    assert "acker topics create MODULE:TOPOLOGY" in message
