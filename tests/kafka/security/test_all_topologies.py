"""A worker of all topologies serves all that its user has ACLs for; `acker topologies` needs the documented ACLs."""

import uuid
from functools import partial

import pytest
from confluent_kafka.admin import AclBinding

from acker_worker.service import AckerService
from kafka_clients.access import acker_role
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import AccessError, TopicsError
from spout_sdk import Topology
from tests.kafka.ack_log import manifest_of
from tests.kafka.sdk_rig import Threaded
from tests.kafka.security.secured import SecuredKafka, binding, bindings_of, environment_of
from tests.unit.cli.running import call_acker
from tests.waiting import eventually
from tuple_tree.names import CATALOGUE_GROUP, TOPOLOGIES_TOPIC

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("secured")]


def allowed(user: str, kind: str, name: str, operation: str, *, prefixed: bool = False) -> AclBinding:
    return binding(kind, name, prefixed, operation, f"User:{user}")


def test_a_worker_serves_authorized_topologies_and_logs_missing_acls(secured: SecuredKafka, topology: Topology) -> None:
    mine, other = topology.manifest, manifest_of(f"{topology.name}-other")
    secured.publish(other)
    user = f"ackers-{uuid.uuid4().hex[:8]}"
    kafka = {**secured.with_certificate(user), "log_level": 2}
    with pytest.raises(TopicsError, match=f"{TOPOLOGIES_TOPIC} has no DESCRIBE ACL for this user.*--role acker"):
        AckerService(kafka).run()
    secured.allow(bindings_of(acker_role(mine), f"User:{user}"))
    with pytest.raises(AccessError, match=f"group {CATALOGUE_GROUP} may not be used by this user"):
        AckerService(kafka).run()
    secured.allow([allowed(user, "group", CATALOGUE_GROUP, "Read")])
    service = AckerService(kafka)
    thread = Threaded(service)
    try:
        eventually(lambda: {mine.topology, other.topology} <= set(service.topologies()), "both to be known")
        eventually(lambda: service.topologies()[mine.topology].stats.partitions == 3, "one to be served")
        eventually(lambda: service.topologies()[other.topology].problem, "the other to be refused")
        assert "has no DESCRIBE ACL for this user" in service.topologies()[other.topology].problem
        assert service.topologies()[mine.topology].serving
    finally:
        thread.stop()
        thread.join()
        Catalogue(secured.super_user).withdraw(other.topology)


def test_a_topology_is_shown_and_deleted_with_its_acls(secured: SecuredKafka, topology: Topology) -> None:
    name, prefix, user = topology.name, f"{topology.name}.", f"owner-{uuid.uuid4().hex[:8]}"
    acker = partial(call_acker, "topologies", environment=environment_of(secured.with_certificate(user)))
    secured.allow(
        [
            allowed(user, "topic", TOPOLOGIES_TOPIC, "Read"),
            allowed(user, "group", CATALOGUE_GROUP, "Read"),
            allowed(user, "topic", prefix, "Describe", prefixed=True),
        ]
    )
    listed = acker("list")
    assert listed.returncode == 0, listed.stderr
    row = next(line.split() for line in listed.stdout.splitlines() if line.startswith(name))
    assert row[-3:] == ["-", "-", "-"], "figures of groups that it may not describe"

    secured.allow([allowed(user, "group", prefix, "Describe", prefixed=True)])
    shown = acker("show", name)
    assert shown.returncode == 0, shown.stderr
    refused = acker("delete", name, "--yes")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"acker: topic {TOPOLOGIES_TOPIC} may not be written by this user")
    secured.allow([allowed(user, "topic", TOPOLOGIES_TOPIC, "Write")])
    refused = acker("delete", name, "--yes")
    assert refused.returncode == 1
    missing = f"may not be deleted by this user: allow Delete for topics and groups that begin with {prefix}"
    assert missing in refused.stderr
    secured.allow(allowed(user, kind, prefix, "Delete", prefixed=True) for kind in ("topic", "group"))
    deleted = acker("delete", name, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    catalogue = Catalogue(secured.super_user)
    eventually(lambda: not any(topic.startswith(prefix) for topic in catalogue.topics()), "the topics are gone")
