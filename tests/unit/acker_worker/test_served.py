"""One topology of several: when its worker is started, stopped, and started again."""

import threading
from collections.abc import Iterator

import pytest

from acker_worker.service import OnStats, Served
from acker_worker.stats import WorkerStats
from kafka_clients import repeated_lines
from kafka_clients.errors import TopicsError
from tests.manifests import bolt, manifest, spout
from tests.waiting import eventually
from tuple_tree.manifest import Manifest


def manifest_of(ack_partitions: int = 2, tick_ms: int = 1_000, timeout_ms: int = 30_000) -> Manifest:
    lines, count = spout("lines", timeout_ms=timeout_ms), bolt("count", "lines")
    return manifest(lines, count, ack_partitions=ack_partitions, tick_ms=tick_ms)


class PlayedWorker:
    """A worker that ends when the test ends it."""

    def __init__(self, manifest: Manifest, on_stats: OnStats) -> None:
        self.manifest, self.on_stats = manifest, on_stats
        self.error: Exception | None = None
        self.end = threading.Event()

    def run(self) -> None:
        self.end.wait(60)
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.end.set()


class Rig:
    """A topology that is served by fake workers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.workers: list[PlayedWorker] = []
        self.published: list[WorkerStats] = []
        self.served = Served("words", self._make, self.published.append, lambda: self.now)

    def _make(self, manifest: Manifest, on_stats: OnStats) -> PlayedWorker:
        self.workers.append(PlayedWorker(manifest, on_stats))
        return self.workers[-1]

    def publish(self, manifest: Manifest | None = None) -> None:
        self.served.publish(manifest or manifest_of())
        self.served.check()

    def ends(self) -> None:
        """Waits until the worker has ended, and calls `look`."""
        eventually(lambda: not self.served.serving, "the worker to end")
        self.served.check()

    def fails(self, error: Exception) -> None:
        self.workers[-1].error = error
        self.workers[-1].end.set()
        self.ends()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.served.stop()
    assert rig.served.join(60)


def test_a_worker_begins_with_the_manifest(rig: Rig) -> None:
    rig.served.check()
    assert rig.workers == []
    for _ in range(2):  # the same manifest again changes nothing
        rig.served.publish(manifest_of())
        rig.served.check()
    assert [worker.manifest for worker in rig.workers] == [manifest_of()]
    assert rig.served.serving
    assert not rig.workers[0].end.is_set()
    rig.now += 5
    assert rig.served.heartbeat_age_s == 5
    rig.workers[0].on_stats(WorkerStats(partitions=2, records=7))
    assert (rig.served.heartbeat_age_s, rig.served.stats.records) == (0, 7)
    assert rig.published == [WorkerStats(partitions=2, records=7)]


def test_a_running_topology_keeps_its_ack_partitions(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.publish()
    rig.publish(manifest_of(ack_partitions=4))
    assert "published with 4 ack partitions and has 2" in caplog.text
    assert len(rig.workers) == 1
    assert not rig.workers[0].end.is_set()
    # One that was deleted and published again may have others.
    rig.served.withdraw()
    rig.served.publish(manifest_of(ack_partitions=4))
    rig.ends()
    assert [worker.manifest.ack_partitions for worker in rig.workers] == [2, 4]


def test_a_worker_that_ends_is_started_again_later_and_later(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.publish()
    for pause in (0.5, 1, 2, 4, 8, 16, 30, 30):
        caplog.clear()
        repeated_lines.forget()
        rig.fails(TopicsError("words.acks", "does not exist. Create it"))
        assert rig.served.problem == "topic words.acks does not exist. Create it"
        assert f"topology words is not served, tried again in {pause:.1f} s: topic words.acks does" in caplog.text
        assert "Traceback" not in caplog.text
        assert rig.served.heartbeat_age_s is None, "a worker that waits for its retry is not stuck"
        count = len(rig.workers)
        rig.now += pause - 0.01
        rig.served.check()
        assert len(rig.workers) == count
        rig.now += 0.01
        rig.served.check()
        assert len(rig.workers) == count + 1
    rig.workers[-1].on_stats(WorkerStats(partitions=2))
    assert rig.served.problem == ""
    rig.now += 60
    rig.fails(ZeroDivisionError("by zero"))
    assert rig.served.problem == "ZeroDivisionError: by zero"
    assert "Traceback" in caplog.text
    rig.now += 0.5
    rig.served.check()
    assert rig.served.serving, "after a minute of work the pauses begin with the first one again"


def test_another_manifest_starts_the_worker_again_and_is_tried_at_once(rig: Rig) -> None:
    manifests = [manifest_of(), manifest_of(tick_ms=500), manifest_of(timeout_ms=10_000), manifest_of()]
    rig.publish()
    for changed in manifests[1:-1]:
        rig.served.publish(changed)
        rig.ends()
        assert rig.served.serving
    rig.fails(TopicsError("words.acks", "has 2 partitions, but the manifest has 8"))
    rig.publish(manifests[-1])
    assert [worker.manifest for worker in rig.workers] == manifests


def test_read_errors_are_shown_until_the_next_success(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.served.refuse("it is not a manifest")
    rig.served.check()
    assert (rig.workers, rig.served.problem, rig.served.gone) == ([], "it is not a manifest", False)
    assert "topology words cannot be served as it was published: it is not a manifest" in caplog.text
    rig.publish()
    assert rig.served.serving
    rig.served.refuse("it is not a manifest")
    rig.served.check()
    assert rig.served.serving, "the worker of the previous manifest continues"
    rig.served.withdraw()
    rig.ends()
    assert rig.served.gone
    assert rig.served.heartbeat_age_s is None
