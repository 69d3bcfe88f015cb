"""A topology runs with the printed ACLs of its roles, and they allow its users nothing else."""

import signal
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_clients.access import OPERATOR, Role, roles
from kafka_clients.catalogue import Catalogue
from spout_sdk import load_topology
from tests.chaos.components import NAME
from tests.kafka.sdk_rig import in_threads, progress, write
from tests.kafka.security.secured import (
    HERE,
    SecuredKafka,
    bindings_of,
    command_lines,
    environment_of,
    printed_bindings,
)
from tests.kafka.topologies import LINES, SOURCE
from tests.topics import create_topics
from tests.unit.cli.running import Run, call_acker, one_line, running_acker
from tests.waiting import eventually
from tuple_tree.manifest import Manifest
from tuple_tree.names import CATALOGUE_GROUP
from tuple_tree.topics import topic_specs

pytestmark = pytest.mark.xdist_group("secured")

WORDS = "tests.kafka.topologies:words"
EXACTLY_ONCE = "tests.kafka.topologies:exactly_once"
COMPONENTS = ("count", "split", "lines")


def acker(*arguments: str, kafka: Mapping[str, Any], name: str) -> Run:
    run = call_acker(*arguments, cwd=HERE, environment={**environment_of(kafka), NAME: name})
    assert run.returncode == 0, run.stderr
    return run


@pytest.mark.parametrize("reference", [WORDS, pytest.param(EXACTLY_ONCE, marks=pytest.mark.exhaustive)])
def test_the_printed_acls_are_sufficient_and_minimal(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    name = f"secured-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, f"{name}-twin")
    twin = load_topology(reference).manifest
    Catalogue(secured.super_user).create_topics(twin)
    monkeypatch.setenv(NAME, name)
    topology = load_topology(reference)
    users = {role: secured.with_certificate(f"{name}.{role}") for role in ("operator", "acker", *COMPONENTS)}
    printed = acker("topics", "acls", reference, "--json", kafka=users["operator"], name=name)
    secured.allow(printed_bindings(printed.stdout))
    for options in ((), ("--dry-run",)):
        acker("topics", "create", reference, *options, kafka=users["operator"], name=name)
    workers = {role: kafka for role, kafka in users.items() if role != "operator"}
    with in_threads(topology, secured.super_user, users=workers) as running:
        eventually(lambda: running.stats["lines"].acked == LINES, "all lines to be acked", 120)

    manifests = (topology.manifest, twin)
    topics = sorted({spec.name for manifest in manifests for spec in topic_specs(manifest)})
    for role in roles(topology.manifest):
        assert allowed_operations(users[role.name], topics) == {
            topic: printed_operations(role, topic) for topic in topics
        }
        groups = {permission.name for permission in role.permissions if permission.resource == "group"}
        assert may_use(users[role.name], manifests) == groups


def allowed_operations(kafka: Mapping[str, Any], topics: list[str]) -> dict[str, set[str]]:
    """The authorized operations of a user for each topic, from the broker."""
    admin, found = AdminClient(dict(kafka)), {}
    futures = admin.describe_topics(TopicCollection(topics), include_authorized_operations=True)
    for topic, answer in futures.items():
        described = unless(KafkaError.TOPIC_AUTHORIZATION_FAILED, answer)
        operations = () if described is None else described.authorized_operations or ()
        found[topic] = {operation.name for operation in operations}
    return found


def unless(code: int, answer: Future[Any]) -> Any:
    """An answer; None if it is this error."""
    try:
        return answer.result(60)
    except KafkaException as error:
        if error.args[0].code() != code:
            raise
        return None


def printed_operations(role: Role, topic: str) -> set[str]:
    """The operations of a role, and Describe, which Kafka allows with Read and with Write."""
    found = set()
    for permission in role.permissions:
        is_meant = topic.startswith(permission.name) if permission.prefixed else topic == permission.name
        if permission.resource == "topic" and is_meant:
            found |= {operation.name for operation in permission.operations}
    return found | ({"DESCRIBE"} if found & {"READ", "WRITE"} else set())


def may_use(kafka: Mapping[str, Any], manifests: tuple[Manifest, ...]) -> set[str]:
    """The groups whose offsets this user may read."""
    admin = AdminClient(dict(kafka))
    own = [f"{manifest.topology}.{role}" for manifest in manifests for role in ("acker", *COMPONENTS)]

    def may_read(group: str) -> bool:
        (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return unless(KafkaError.GROUP_AUTHORIZATION_FAILED, answer) is not None

    return {group for group in (CATALOGUE_GROUP, *own) if may_read(group)}


@pytest.mark.exhaustive
def test_child_processes_get_the_settings_without_showing_them(secured: SecuredKafka) -> None:
    name = f"secured-{uuid.uuid4().hex[:8]}"
    user = secured.with_password(name)
    printed = acker("topics", "acls", WORDS, "--json", "--principal", f"User:{name}", kafka=user, name=name)
    secured.allow(printed_bindings(printed.stdout))
    acker("topics", "create", WORDS, kafka=user, name=name)
    environment = {**environment_of(user), NAME: name}
    with running_acker("run", WORDS, "--ackers", "1", cwd=HERE, environment=environment) as command:
        command.wait_for(f"acked {LINES},")
        seen = command_lines(command)
        assert command.end(signal.SIGTERM) == 0, command.output
    for started in ("spout_sdk.runtime.process", "acker_cli.processes.acker_pool"):
        assert started in seen
    settings = acker("config", "show", kafka=user, name=name)
    assert "kafka.sasl.password = ********" in settings.stdout
    assert user["sasl.password"] not in seen + command.output + printed.stderr + settings.stdout
    assert "Traceback" not in command.output, command.output


@pytest.mark.exhaustive
def test_a_kafka_spout_needs_the_acls_of_its_role(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    name, source = f"secured-{uuid.uuid4().hex[:8]}", f"source-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, name)
    monkeypatch.setenv(SOURCE, source)
    reference = "tests.kafka.topologies:one_task"
    topology = load_topology(reference)
    secured.publish(topology.manifest)
    create_topics(secured.super_user, [NewTopic(source, 1, 1)])
    write(secured.super_user, source, map(str, range(50)))

    users, bindings = {}, []
    for role in roles(topology.manifest, topology.sources):
        if role.name != OPERATOR:
            users[role.name] = secured.with_password(f"{name}.{role.name}")
            bindings += bindings_of(role, f"User:{name}.{role.name}")
    secured.allow(each for each in bindings if each.name != source)
    environment = {**environment_of(users["lines"]), NAME: name, SOURCE: source}
    refused = one_line(call_acker("run", reference, "--component", "lines", environment=environment))
    assert f"topic {source} has no DESCRIBE ACL for this user: allow it with what acker topics acls" in refused
    secured.allow(bindings)
    with in_threads(topology, secured.super_user, users=users):
        at = {0: (50, 50)}
        eventually(lambda: progress(secured.super_user, f"{name}.lines", source) == at, "the end of the source", 120)
