"""One broker with TLS, SASL and ACLs for all tests in this folder; the broker of other tests has no users."""

import uuid
from collections.abc import Iterator

import pytest

from spout_sdk import Topology, load_topology
from tests.chaos.components import NAME
from tests.kafka.sdk_rig import MODULE
from tests.kafka.security.secured import SecuredKafka


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("certificates")) as kafka:
        yield kafka


@pytest.fixture
def topology(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """A published topology."""
    monkeypatch.setenv(NAME, f"secured-{uuid.uuid4().hex[:8]}")
    built = load_topology(f"{MODULE}:endless")
    secured.publish(built.manifest)
    return built
