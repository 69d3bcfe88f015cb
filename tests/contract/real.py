"""The contract's world for real: a Kafka, acker workers, and a `ComponentRunner` for each component."""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from acker_worker.catalogue import Catalogue
from acker_worker.worker import AckerWorker, WorkerSettings
from spout_sdk import ComponentRunner, Stats, Topology, TopologyBuilder
from tests.contract.world import Read
from tests.kafka.sdk_rig import Cluster
from tests.waiting import eventually

T = TypeVar("T")


class _Thread:
    """Something that runs until it is stopped, in a thread."""

    def __init__(self, run: Callable[[], None], stop: Callable[[], None]) -> None:
        self.stop = stop
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self.error is None, self.error

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - asserted by `join`
            self.error = error


class _Process:
    """An acker worker in a process of its own, by the real command."""

    def __init__(self, topology: str, servers: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "acker_cli", "worker", "--topology", topology],
            env={
                **os.environ,
                "ACKER_KAFKA__BOOTSTRAP_SERVERS": servers,
                "ACKER_KAFKA__SESSION_TIMEOUT_MS": "6000",
                "ACKER_KAFKA__HEARTBEAT_INTERVAL_MS": "500",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        self.popen.kill()

    def join(self) -> None:
        self.popen.wait(60)


class Real:
    """A topology on a real Kafka."""

    def __init__(self, topology: Topology, cluster: Cluster, *, acker_dies: bool) -> None:
        self._topology = topology
        self._cluster = cluster
        self._runners = {name: ComponentRunner(topology, name, cluster.kafka) for name in topology.factories}
        self._running: list[_Thread | _Process] = [
            _Thread(runner.run, runner.stop) for runner in self._runners.values()
        ]
        self._acker: _Thread | _Process | None = None
        if topology.manifest.acking:
            self._acker = self._acker_process() if acker_dies else self._acker_thread()
            self._running.append(self._acker)

    @property
    def topology(self) -> Topology:
        return self._topology

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        return eventually(condition, what)

    def let_pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        eventually(lambda: time.monotonic() >= end, f"{seconds} s to pass")

    def records(self, topic: str) -> list[Read]:
        found = []
        for record in self._cluster.records(topic):
            value, key = record.value(), record.key()
            assert value is None or isinstance(value, bytes)
            assert key is None or isinstance(key, bytes)
            headers = record.headers() or []
            assert isinstance(headers, list)
            named = tuple((name, said) for name, said in headers if isinstance(said, bytes))
            found.append(Read(record.partition() or 0, record.offset() or 0, key, value, named, record.timestamp()[0]))
        return found

    def append(self, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        self._cluster.produce(topic, partition, value, [*headers])

    def committed(self, bolt: str) -> dict[int, int]:
        return {task: committed for task, (committed, _) in self._cluster.progress(bolt).items()}

    def stats(self, component: str) -> Stats:
        return self._runners[component].stats

    def kill_acker(self) -> None:
        assert isinstance(self._acker, _Process)
        self._acker.stop()
        self._acker.join()
        self._acker = self._acker_process()
        self._running.append(self._acker)

    def stop(self) -> None:
        for each in self._running:
            each.stop()
        for each in self._running:
            each.join()

    def _acker_thread(self) -> _Thread:
        settings = WorkerSettings(commit_interval_s=0.2)
        worker = AckerWorker(self._topology.name, self._cluster.kafka, settings)
        return _Thread(worker.run, worker.stop)

    def _acker_process(self) -> _Process:
        return _Process(self._topology.name, self._cluster.bootstrap["bootstrap.servers"])


class RealWorld:
    """Topologies on a Kafka.

    Args:
        bootstrap_servers: of the Kafka.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def builder(self, **settings: Any) -> TopologyBuilder:
        return TopologyBuilder(f"contract-{uuid.uuid4().hex[:12]}", **settings)

    @contextmanager
    def run(self, topology: Topology, *, acker_dies: bool = False) -> Iterator[Real]:
        cluster = Cluster(self._servers, topology.manifest)
        catalogue = Catalogue(cluster.bootstrap)
        catalogue.create_topics(topology.manifest)
        catalogue.publish(topology.manifest)
        real = Real(topology, cluster, acker_dies=acker_dies)
        try:
            yield real
        finally:
            real.stop()
