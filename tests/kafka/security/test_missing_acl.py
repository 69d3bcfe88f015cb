"""A component that lacks an ACL ends, and its error is the first finding on its topology."""

import uuid

import pytest

from inspection.health.observation import Observation
from inspection.health.verdict import judge
from inspection.observer import latest
from kafka_clients.access import Operation, Permission, component_role
from spout_sdk import ComponentRunner, load_topology
from tests.kafka.sdk_rig import Threaded, in_threads
from tests.kafka.sdk_topologies import NAME
from tests.kafka.security.secured import SecuredKafka
from tests.kafka.security.test_refusals import user_with
from tests.waiting import eventually
from tuple_tree.names import tuples_topic

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("secured")]


def test_a_missing_acl_is_the_first_finding(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, f"lacking-{uuid.uuid4().hex[:8]}")
    topology = load_topology("tests.kafka.sdk_topologies:endless")
    secured.publish(topology.manifest)
    inbox = tuples_topic(topology.name, "count")
    role = component_role(topology.manifest, "count")
    (needed,) = [each for each in role.permissions if each.name == inbox and Operation.READ in each.operations]
    assert isinstance(needed, Permission)
    _, kafka = user_with(secured, role, needed)
    with in_threads(topology, secured.super_user, ("lines", "split")) as running:
        eventually(lambda: running.stats["split"].executed, "the others work")
        error = Threaded(ComponentRunner(topology, "count", kafka)).wait_for_error()
        assert inbox in error
        first, *_ = judge(Observation(topology.manifest, latest(secured.super_user, topology.manifest, 60)))
    assert (first.check, first.component) == ("groups", "count")
    assert inbox in first.found
    assert "acker topics acls MODULE:TOPOLOGY --role count" in first.remedy
