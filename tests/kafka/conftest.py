"""A fresh name and fresh topics for a topology, played by the test or of a module."""

import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from spout_sdk import load_topology
from tests.contract.real import RealWorld
from tests.kafka.ack_log import AckLog
from tests.kafka.sdk_rig import Cluster, Use
from tests.kafka.sdk_topologies import NAME
from tests.unit.cli.running import Acker, call_acker


@pytest.fixture
def acker(bootstrap_servers: str) -> Acker:
    """Runs a command on the broker."""
    return partial(call_acker, servers=bootstrap_servers)


@pytest.fixture
def log(bootstrap_servers: str) -> Iterator[AckLog]:
    with AckLog(bootstrap_servers) as log:
        yield log


@pytest.fixture
def world(bootstrap_servers: str) -> RealWorld:
    return RealWorld(bootstrap_servers)


@pytest.fixture
def use(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Use:
    def use(topology: str, module: str = "tests.kafka.sdk_topologies") -> Cluster:
        monkeypatch.setenv(NAME, f"{topology.replace('_', '-')}-{uuid.uuid4().hex[:8]}")
        cluster = Cluster(bootstrap_servers, load_topology(f"{module}:{topology}").manifest)
        cluster.create_topics()
        return cluster

    return use
