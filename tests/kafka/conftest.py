"""Marks the tests that need a real broker; `tests/conftest.py` has it."""

import uuid

import pytest

from spout_sdk import load_topology
from tests.kafka.sdk_rig import Cluster, Use
from tests.kafka.sdk_topologies import NAME


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kafka/" in item.path.as_posix():
            item.add_marker(pytest.mark.kafka)
            # The others start a broker of their own, whichever runs beside them.
            if "bootstrap_servers" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.any_broker)


@pytest.fixture
def use(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch) -> Use:
    def use(topology: str, module: str = "tests.kafka.sdk_topologies") -> Cluster:
        monkeypatch.setenv(NAME, f"{topology}-{uuid.uuid4().hex[:8]}")
        cluster = Cluster(bootstrap_servers, load_topology(f"{module}:{topology}").manifest)
        cluster.create_topics()
        return cluster

    return use
