"""Each role of a topology runs with just its ACLs, and is refused the rest."""

import re
import signal
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from acker_worker.catalogue import Catalogue
from spout_sdk import load_topology
from tests.kafka.sdk_topologies import LINES, NAME
from tests.kafka.security.secured import (
    HERE,
    SecuredKafka,
    bindings_of,
    command_lines,
    environment_of,
    printed_bindings,
)
from tests.unit.cli.running import Run, RunningAcker, run_acker, running_acker
from tests.waiting import eventually
from tuple_tree.access import Operation, Role, roles
from tuple_tree.manifest import Manifest
from tuple_tree.topics import topic_specs

WORDS = "tests.kafka.sdk_topologies:words"
COMPONENTS = ("count", "split", "lines")
# The answer that it is not allowed comes as an event, while the call that asked goes on waiting.
_NO_ANSWER_YET = (KafkaError._TIMED_OUT, KafkaError._WAIT_COORD)


def acker(*arguments: str, kafka: Mapping[str, Any], name: str) -> Run:
    return run_acker(*arguments, cwd=HERE, environment={**environment_of(kafka), NAME: name}, seconds=180)


@pytest.mark.parametrize(
    ("way_in", "reference"), [("with_password", WORDS), ("with_certificate", f"{WORDS}_exactly_once")]
)
def test_a_topology_runs_with_the_acls_that_are_printed(secured: SecuredKafka, way_in: str, reference: str) -> None:
    name = f"secured-{uuid.uuid4().hex[:8]}"
    users = {role: getattr(secured, way_in)(f"{name}.{role}") for role in ("operator", "acker", *COMPONENTS)}
    printed = acker("topics", "acls", reference, kafka=users["operator"], name=name)
    assert printed.returncode == 0, printed.stderr
    secured.allow(printed_bindings(printed.stdout))
    created = acker("topics", "create", reference, kafka=users["operator"], name=name)
    assert created.returncode == 0, created.stderr
    shown = acker("topics", "show", reference, kafka=users["operator"], name=name)
    assert shown.returncode == 0, shown.stderr
    settings = acker("config", "show", kafka=users["lines"], name=name)
    said, seen = [printed.stderr, created.stderr, shown.stderr, settings.stderr], ""
    with ExitStack() as stack:

        def start(role: str, *arguments: str) -> RunningAcker:
            environment = {**environment_of(users[role]), NAME: name}
            return stack.enter_context(running_acker(*arguments, cwd=HERE, environment=environment))

        commands = [start("acker", "worker", "--topology", name)]
        commands += [start(each, "run", reference, "--component", each) for each in COMPONENTS]
        commands[-1].wait_for(f"acked {LINES},")
        for command in commands:
            seen += command_lines(command)
            command.process.send_signal(signal.SIGTERM)
        for command in commands:
            assert command.ended(120) == 0, command.said
            said.append(command.said)
            assert "Traceback" not in command.said, command.said
            assert "uthoriz" not in command.said, command.said
    assert "acker_cli" in seen
    for user in users.values():
        secret = user.get("sasl.password", "no password")
        assert secret not in seen
        assert not any(secret in each for each in said)
    if way_in == "with_password":
        assert "kafka.sasl.password = ********" in settings.stdout


def test_all_of_a_topology_as_one_user(secured: SecuredKafka) -> None:
    """Supervised processes get the settings, and hand them on, without showing them to anybody."""
    name = f"secured-{uuid.uuid4().hex[:8]}"
    user = secured.with_password(name)
    printed = acker("topics", "acls", WORDS, "--principal", f"User:{name}", kafka=user, name=name)
    secured.allow(printed_bindings(printed.stdout))
    assert acker("topics", "create", WORDS, kafka=user, name=name).returncode == 0
    environment = {**environment_of(user), NAME: name}
    with running_acker("run", WORDS, "--ackers", "1", cwd=HERE, environment=environment) as command:
        command.wait_for(f"acked {LINES},")
        seen = command_lines(command)
        assert command.end(signal.SIGTERM) == 0, command.said
    for started in ("spout_sdk.process", "acker_cli.acker_process"):
        assert started in seen
    assert user["sasl.password"] not in seen
    assert user["sasl.password"] not in command.said
    assert "Traceback" not in command.said, command.said


@pytest.fixture(scope="module")
def two_topologies(secured: SecuredKafka) -> tuple[Manifest, Manifest]:
    """Twins: the same components under two names."""
    manifests = []
    with pytest.MonkeyPatch.context() as patched:
        for each in ("one", "two"):
            patched.setenv(NAME, f"{each}-{uuid.uuid4().hex[:8]}")
            manifests.append(load_topology(WORDS).manifest)
    catalogue = Catalogue(secured.super_user)
    for manifest in manifests:
        catalogue.create_topics(manifest)
        catalogue.publish(manifest)
    return manifests[0], manifests[1]


@pytest.mark.parametrize("role_name", ["operator", "acker", *COMPONENTS])
def test_each_role_is_refused_the_rest(
    secured: SecuredKafka, two_topologies: tuple[Manifest, Manifest], role_name: str
) -> None:
    mine, others = two_topologies
    role = next(each for each in roles(mine) if each.name == role_name)
    user = f"{mine.topology}.{role_name}"
    kafka = {**secured.with_certificate(user), "log_level": 0}
    secured.allow(bindings_of(role, f"User:{user}"))
    topics = sorted({spec.name for manifest in (mine, others) for spec in topic_specs(manifest)})
    writable, readable = may_write(kafka, topics), may_read(kafka, topics)
    assert writable == {topic for topic in topics if Operation.WRITE in role.topics.get(topic, ())}
    assert readable == {topic for topic in topics if Operation.READ in role.topics.get(topic, ())}
    groups = {f"{manifest.topology}.{name}" for manifest in (mine, others) for name in ("acker", *COMPONENTS)}
    allowed = {permission.name for permission in role.permissions if permission.resource == "group"}
    assert may_join(kafka, groups, f"{mine.topology}.acks") == allowed


def test_who_may_what(two_topologies: tuple[Manifest, Manifest]) -> None:
    """Said once in full, so that a role that gets more is seen in a review."""
    mine, _ = two_topologies
    found = {
        role.name: {
            re.sub(rf"^{mine.topology}\.?", "", topic): " ".join(each.value for each in operations)
            for topic, operations in role.topics.items()
        }
        for role in roles(mine)
    }
    reads, writes = "Read DescribeConfigs", "Write DescribeConfigs"
    assert found == {
        "operator": {"acker.topologies": "Create Describe DescribeConfigs Write"},
        "acker": {
            "acker.topologies": "Read", "acks": reads, "notices.lines": "Write", "dead-letters": writes,
            "stats": "Write",
        },
        "lines": {
            "notices.lines": reads, "acks": writes, "tuples.split": writes, "dead-letters": writes,
            "acker.topologies": "Read", "stats": "Write",
        },
        "split": {
            "tuples.split": reads, "acks": writes, "tuples.count": writes, "dead-letters": writes,
            "acker.topologies": "Read", "stats": "Write",
        },
        "count": {
            "tuples.count": reads, "acks": writes, "dead-letters": writes, "acker.topologies": "Read", "stats": "Write",
        },
    }  # fmt: skip


def may_write(kafka: Mapping[str, Any], topics: list[str]) -> set[str]:
    outcomes: dict[str, KafkaError | None] = {}

    def reported(error: KafkaError | None, message: Message) -> None:
        outcomes[str(message.topic())] = error

    producer = Producer({**kafka, "linger.ms": 0})
    for topic in topics:
        # With a key, for a compacted topic takes no record without.
        producer.produce(topic, b"?", b"?", partition=0, on_delivery=reported)
    assert producer.flush(120) == 0
    refused = {topic for topic, error in outcomes.items() if error is not None}
    assert {error.code() for error in outcomes.values() if error is not None} <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    return set(topics) - refused


def may_read(kafka: Mapping[str, Any], topics: list[str]) -> set[str]:
    consumer = Consumer({**kafka, "group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True})
    outcomes: dict[str, bool] = {}
    # What a user may not even see cannot be asked for.
    visible = set(topics) & set(consumer.list_topics(timeout=120).topics)

    def heard() -> bool:
        message = consumer.poll(0.1)
        if message is not None and (topic := message.topic()):
            error = message.error()
            is_refused = error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            outcomes.setdefault(topic, not is_refused)
        return outcomes.keys() == visible

    try:
        consumer.assign([TopicPartition(topic, 0, 0) for topic in visible])
        eventually(heard, "an answer for each topic")
    finally:
        consumer.close()
    return {topic for topic, is_readable in outcomes.items() if is_readable}


def may_join(kafka: Mapping[str, Any], groups: set[str], topic: str) -> set[str]:
    """In which of the groups this user may keep offsets."""
    return {group for group in groups if _may_keep_offsets(kafka, group, topic)}


def _may_keep_offsets(kafka: Mapping[str, Any], group: str, topic: str) -> bool:
    consumer = Consumer({**kafka, "group.id": group})
    answers: list[bool] = []

    def heard() -> bool:
        message = consumer.poll(0.05)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            answers.append(False)
            return True
        try:
            consumer.committed([TopicPartition(topic, 0)], timeout=0.5)
        except KafkaException as waited:
            if waited.args[0].code() not in _NO_ANSWER_YET:
                raise
            return False
        answers.append(True)
        return True

    try:
        eventually(heard, f"an answer for group {group}")
    finally:
        consumer.close()
    return answers[-1]


def test_roles_are_those_of_the_topology(two_topologies: tuple[Manifest, Manifest]) -> None:
    found: list[Role] = roles(two_topologies[0])
    assert [role.name for role in found] == ["operator", "acker", "lines", "split", "count"]
