"""A `KafkaSpout` runs with just the ACLs that are printed for it, and says in one line what it lacks."""

import signal
import uuid
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from acker_worker.catalogue import Catalogue
from spout_sdk import load_topology
from tests.kafka.sdk_topologies import NAME
from tests.kafka.security.secured import HERE, SecuredKafka, bindings_of, environment_of
from tests.kafka.source_topologies import SOURCE
from tests.unit.cli.running import run_acker, running_acker
from tests.waiting import eventually
from tuple_tree.access import roles

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("secured")]

MODULE = "tests.kafka.source_topologies"
MESSAGES = 50


def committed(kafka: dict[str, Any], group: str, topic: str, partitions: int = 1) -> int:
    consumer = Consumer({**kafka, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return sum(max(0, each.offset) for each in consumer.committed(asked, timeout=60))
    finally:
        consumer.close()


@pytest.mark.parametrize("topology", ["one_task", "untracked"])
def test_it_runs_with_its_role_and_not_without_its_source(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch, topology: str
) -> None:
    name, source = f"secured-{uuid.uuid4().hex[:8]}", f"source-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv(NAME, name)
    monkeypatch.setenv(SOURCE, source)
    reference = f"{MODULE}:{topology}"
    loaded = load_topology(reference)
    catalogue = Catalogue(secured.super_user)
    catalogue.create_topics(loaded.manifest)
    catalogue.publish(loaded.manifest)
    admin = AdminClient(dict(secured.super_user))
    admin.create_topics([NewTopic(source, 1, 1)])[source].result(60)
    producer = Producer(dict(secured.super_user))
    for number in range(MESSAGES):
        producer.produce(source, str(number), partition=0)
    assert producer.flush(30) == 0

    users = {}
    for role in roles(loaded.manifest, loaded.sources):
        users[role.name] = secured.with_password(f"{name}.{role.name}")
        lacking = [each for each in bindings_of(role, f"User:{name}.{role.name}") if source not in str(each)]
        secured.allow(lacking)
    environment = {**environment_of(users["lines"]), NAME: name, SOURCE: source}
    arguments = ("run", reference, "--component", "lines")
    refused = run_acker(*arguments, cwd=HERE, environment=environment, seconds=60)
    assert refused.returncode != 0
    said = f"topic {source} may not be seen by this user: allow it with what acker topics acls"
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr

    for role in roles(loaded.manifest, loaded.sources):
        secured.allow(bindings_of(role, f"User:{name}.{role.name}"))
    with ExitStack() as stack:

        def start(role: str, *arguments: str) -> Any:
            settings = {**environment_of(users[role]), NAME: name, SOURCE: source}
            return stack.enter_context(running_acker(*arguments, cwd=HERE, environment=settings))

        commands = [start(each, "run", reference, "--component", each) for each in ("see", "lines")]
        if loaded.manifest.acking:
            commands.append(start("acker", "worker", "--topology", name))
        user = dict(secured.super_user)
        eventually(lambda: committed(user, f"{name}.lines", source) == MESSAGES, "the source committed")
        inbox = f"{name}.tuples.see"
        eventually(lambda: committed(user, f"{name}.see", inbox, 2) == MESSAGES, "the inbox committed")
        for command in commands:
            command.process.send_signal(signal.SIGTERM)
        for command in commands:
            assert command.ended() == 0, command.said
            assert "Traceback" not in command.said
            assert "uthoriz" not in command.said, command.said
