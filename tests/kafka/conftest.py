"""A fresh name and fresh topics for a topology of a module."""

import uuid

import pytest

from spout_sdk import load_topology
from tests.kafka.sdk_rig import Cluster, Use
from tests.kafka.sdk_topologies import NAME


@pytest.fixture
def use(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Use:
    def use(topology: str, module: str = "tests.kafka.sdk_topologies") -> Cluster:
        monkeypatch.setenv(NAME, f"{topology}-{uuid.uuid4().hex[:8]}")
        cluster = Cluster(bootstrap_servers, load_topology(f"{module}:{topology}").manifest)
        cluster.create_topics()
        return cluster

    return use
