"""The doctor, the dashboard, trace and dead letters for users without some ACLs."""

import dataclasses
import uuid
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from inspection.dashboard.source import Source
from inspection.dead_letters import DeadLetter, DeadLetterLog
from inspection.doctor.checks import examine
from inspection.doctor_gathering import gather_facts
from inspection.errors import DeadLettersError, RootNotFoundError, StatusError
from inspection.health.findings import Severity
from inspection.message_status import status
from inspection.replay import Replayer, replay_id
from inspection.trace_reader import TraceReader
from kafka_clients.access import Operation, Permission, Role, acker_role, viewer_role
from spout_sdk import Topology
from tests.kafka.replaying import write_dead_letters
from tests.kafka.sdk_rig import records, write
from tests.kafka.security.secured import SecuredKafka, bindings_of
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, dead_letters_topic, tuples_topic

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("secured")]

CATALOGUE = Permission("group", "acker.catalogue", (Operation.READ,))


@pytest.fixture
def manifest(topology: Topology) -> Manifest:
    return topology.manifest


def user(secured: SecuredKafka, role: Role, *more: Permission) -> dict[str, Any]:
    name = f"inspector-{uuid.uuid4().hex[:8]}"
    whole = dataclasses.replace(role, permissions=(*role.permissions, CATALOGUE, *more))
    secured.allow(bindings_of(whole, f"User:{name}"))
    return secured.with_certificate(name)


def test_topics_and_groups_without_acls_are_notes(secured: SecuredKafka, manifest: Manifest) -> None:
    """The user of an acker worker may describe no inbox, and no group of a component."""
    kafka = user(secured, acker_role(manifest))
    facts = gather_facts(kafka, manifest.topology, None, 0.5, lambda _line: None)
    findings = examine(facts)
    assert {finding.severity for finding in findings} == {Severity.NOTE}
    assert {finding.subject for finding in findings if finding.check == "topics"} == {
        tuples_topic(manifest.topology, bolt.name) for bolt in manifest.bolts
    }
    assert any(finding.check == "groups" for finding in findings)


def test_a_viewer_can_read_everything(secured: SecuredKafka, manifest: Manifest) -> None:
    """With the viewer's ACLs and no others."""
    name = manifest.topology
    viewer = f"viewer-{uuid.uuid4().hex[:8]}"
    secured.allow(bindings_of(viewer_role(manifest), f"User:{viewer}"))
    kafka = secured.with_certificate(viewer)
    write_dead_letters(secured.super_user, name, tuples_topic(name, "split"), [b"x"])
    findings = examine(gather_facts(kafka, name, None, 0.5, lambda _line: None))
    assert [finding for finding in findings if finding.severity is Severity.NOTE] == []
    assert [entry.offset for entry in DeadLetterLog(kafka, name).entries() if isinstance(entry, DeadLetter)] == [0]
    with TraceReader(kafka, manifest) as reader:
        assert reader.oldest(1, 0) == {}
        assert reader.last_failed_trees(1, 0) == []
        with pytest.raises(RootNotFoundError):
            reader.trees([2], 0)
    with closing(Source(kafka)) as source:
        assert source.snapshot(name)["dead_letters"] == 1
        assert all(one["lag"] is not None for one in source.snapshot(name)["components"] if one["kind"] == "bolt")
        assert source.failures(name) == []
        assert [letter["value"] for letter in source.dead_letters(name)] == ["x"]
    with pytest.raises(DeadLettersError, match="allow Write"):
        Replayer(kafka, name)


def test_the_status_of_a_message_needs_read_of_its_source(secured: SecuredKafka, manifest: Manifest) -> None:
    source = f"orders-{uuid.uuid4().hex[:8]}"
    create_topics(secured.super_user, [NewTopic(source, 1, 1)])
    write(secured.super_user, source, ["ORDER-4711"], has_keys=True)
    consumer = Consumer({**secured.super_user, "group.id": component_group(manifest.topology, "lines")})
    consumer.commit(offsets=[TopicPartition(source, 0, 1)], asynchronous=False)
    consumer.close()
    kafka = user(secured, viewer_role(manifest, {"lines": source}))
    assert status(manifest.topology, kafka, key="ORDER-4711").is_done
    with pytest.raises(StatusError, match="allow this user Describe of the topics that it reads"):
        status(manifest.topology, user(secured, viewer_role(manifest)), key="ORDER-4711")


def test_a_replay_needs_each_of_its_acls(secured: SecuredKafka, manifest: Manifest) -> None:
    name = manifest.topology
    letters, inbox = dead_letters_topic(name), tuples_topic(name, "split")
    write_dead_letters(secured.super_user, name, inbox, [b"x", b"y"])
    looks = Role("looks", "", (Permission("topic", letters, (Operation.READ, Operation.WRITE)),))
    kafka = user(secured, looks)
    found = list(DeadLetterLog(kafka, name).fetch([0, 1]))
    assert [letter.value for letter in found] == [b"x", b"y"]
    with pytest.raises(DeadLettersError, match="allow Write for the transactional id"):
        Replayer(kafka, name)

    transactions = Permission("transactional-id", replay_id(name), (Operation.WRITE,))
    kafka = user(secured, looks, transactions)
    with Replayer(kafka, name) as replayer, pytest.raises(DeadLettersError, match=inbox):
        list(replayer.replay(found))
    writes = Permission("topic", inbox, (Operation.WRITE,))
    with Replayer(user(secured, looks, transactions, writes), name) as replayer:
        assert len(list(replayer.replay(found))) == 2
    # Its transaction may end a moment after the answer.
    eventually(lambda: [each.value() for each in records(secured.super_user, inbox)] == [b"x", b"y"], "both letters")
