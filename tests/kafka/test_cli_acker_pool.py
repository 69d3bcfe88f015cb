"""Acker workers as child processes."""

import logging
import threading
import uuid

import pytest

from acker_cli.acker_pool import AckerPool
from acker_cli.acker_process import AckerLaunch
from acker_cli.errors import ProcessError
from acker_worker.catalogue import Catalogue
from tests.unit.cli.running import is_alive, wait_until
from tuple_tree.manifest import Manifest, SpoutManifest


def test_workers_that_cannot_start_say_why(bootstrap_servers: str) -> None:
    launch = AckerLaunch("no-such-topology", {"bootstrap.servers": bootstrap_servers}, {}, "error")

    def check_for_ever() -> None:
        while True:
            pool.check()
            pause.wait(0.05)

    pause = threading.Event()
    with AckerPool(launch, 2) as pool, pytest.raises(ProcessError, match="no topology 'no-such-topology'"):
        check_for_ever()


def test_a_worker_that_is_killed_gets_a_successor(bootstrap_servers: str, caplog: pytest.LogCaptureFixture) -> None:
    manifest = Manifest.of(
        topology=f"pool-{uuid.uuid4().hex[:8]}", max_tree_age_ms=300_000, components=(SpoutManifest(name="lines"),)
    )
    kafka = {"bootstrap.servers": bootstrap_servers, "session.timeout.ms": 6000, "log_level": 2}
    catalogue = Catalogue({"bootstrap.servers": bootstrap_servers})
    catalogue.create_topics(manifest)
    catalogue.publish(manifest)

    victim = 0

    def two_share_all() -> bool:
        pool.check()
        workers = pool.workers()
        owned = sum(worker.stats.partitions if worker.stats else 0 for worker in workers)
        return len(workers) == 2 and owned == 8 and victim not in {worker.pid for worker in workers}

    with AckerPool(AckerLaunch(manifest.topology, kafka, {}, "error"), 2) as pool:
        wait_until(two_share_all, "both workers share all partitions")
        before = {worker.pid for worker in pool.workers()}
        victim = next(worker.pid for worker in pool.workers() if worker.stats and worker.stats.partitions)
        with caplog.at_level(logging.ERROR):
            pool.kill(victim)
            wait_until(two_share_all, "two workers share all partitions again")
        after = {worker.pid for worker in pool.workers()}
        assert len(before & after) == 1
        assert f"acker worker {victim} was killed by SIGKILL" in caplog.text
    assert not any(is_alive(pid) for pid in before | after)
