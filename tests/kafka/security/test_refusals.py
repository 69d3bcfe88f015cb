"""The error when Kafka rejects a request: one line, with the resource and the remedy."""

import dataclasses
import re
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from acker_cli.processes.running import check_cluster
from acker_worker.worker import AckerWorker
from inspection.health.observation import Observation
from inspection.health.verdict import judge
from inspection.observer import latest
from kafka_clients.access import ACKER, Operation, Permission, Role, acker_role, component_role, operator_role
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import AccessError, BrokerError
from spout_sdk import Topology
from spout_sdk.runtime import ComponentRunner
from spout_sdk.statistics import Stats
from tests.certificates import Authority
from tests.kafka.sdk_rig import Threaded, in_threads
from tests.kafka.security.secured import SecuredKafka, bindings_of
from tests.waiting import eventually
from tuple_tree.names import TOPOLOGIES_TOPIC, tuples_topic

pytestmark = [pytest.mark.exhaustive, pytest.mark.xdist_group("secured")]

SECONDS = 120
COMPONENTS = ("lines", "split", "count")
Service = ComponentRunner | AckerWorker


def role_of(topology: Topology, name: str) -> Role:
    return acker_role(topology.manifest) if name == ACKER else component_role(topology.manifest, name)


def service(topology: Topology, name: str, kafka: dict[str, Any]) -> Service:
    return AckerWorker(topology.name, kafka) if name == ACKER else ComponentRunner(topology, name, kafka)


def user_with(secured: SecuredKafka, role: Role, without: Permission | None = None) -> tuple[str, dict[str, Any]]:
    """A user with all ACLs of a role but one."""
    user = f"{role.name}-{uuid.uuid4().hex[:8]}"
    kept = tuple(permission for permission in role.permissions if permission != without)
    secured.allow(bindings_of(dataclasses.replace(role, permissions=kept), f"User:{user}"))
    return user, secured.with_certificate(user)


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def error_of(run: Callable[[], None], stop: Callable[[], None], check: Callable[[], object] = lambda: None) -> str:
    """The error of a check before, or with which something ends by itself."""

    def check_and_run() -> None:
        check()
        run()

    guard = threading.Timer(SECONDS, stop)
    guard.start()
    try:
        with pytest.raises(BrokerError) as refused:
            check_and_run()
    finally:
        guard.cancel()
    return one_line(refused.value)


def test_each_acl_that_is_missing_is_named(secured: SecuredKafka, topology: Topology) -> None:
    """For an acker worker, and for each component: started by a command, and alone."""
    for name, guarantee, is_command in (
        (ACKER, "at_least_once", False),
        *((name, "at_least_once", True) for name in COMPONENTS),
        ("split", "exactly_once", False),
    ):
        manifest = topology.manifest.model_copy(update={"guarantee": guarantee})
        chosen = Topology(manifest, topology.factories)
        role = role_of(chosen, name)
        for lacking in (each for each in role.permissions if not each.optional):
            if guarantee == "exactly_once" and lacking.name == TOPOLOGIES_TOPIC:
                continue  # only commands read it
            _, kafka = user_with(secured, role, without=lacking)
            running = service(chosen, name, kafka)
            checks = (partial(check_cluster, kafka, manifest, name),) if is_command else ()
            message = error_of(running.run, running.stop, *checks)
            named = f"{lacking.resource} {lacking.name}"
            assert f"{named} may not be" in message or f"{named} has no DESCRIBE ACL" in message, (name, guarantee)
            assert "acker topics acls MODULE:TOPOLOGY" in message


def test_settings_of_topics_and_an_operator_without_its_acls(secured: SecuredKafka, topology: Topology) -> None:
    role = acker_role(topology.manifest)
    changed = [dataclasses.replace(each, operations=each.operations[:1]) for each in role.permissions]
    _, kafka = user_with(secured, dataclasses.replace(role, permissions=tuple(changed)))
    worker = AckerWorker(topology.name, kafka)
    message = error_of(worker.run, worker.stop)
    assert f"topic {topology.name}.acks may not be asked for its settings by this user" in message

    operator = operator_role(topology.manifest)
    prefix, topologies, *_ = operator.permissions
    other = topology.manifest.model_copy(update={"topology": f"{topology.name}-2"})
    _, kafka = user_with(secured, operator)
    with pytest.raises(BrokerError, match=r"may not be created by this user.*--role operator") as refused:
        Catalogue(kafka).create_topics(other)
    one_line(refused.value)
    _, kafka = user_with(secured, operator, without=topologies)
    with pytest.raises(BrokerError, match=r"topic acker.topologies may not be created by this user"):
        Catalogue(kafka).create_topics(topology.manifest)
    without_write = dataclasses.replace(topologies, operations=topologies.operations[:-1])
    _, kafka = user_with(secured, dataclasses.replace(operator, permissions=(prefix, without_write)))
    assert Catalogue(kafka).create_topics(topology.manifest) == []
    with pytest.raises(BrokerError, match=r"acker.topologies may not be written by this user.*--role operator"):
        Catalogue(kafka).publish(topology.manifest)


@pytest.mark.parametrize(("name", "written"), [("lines", "acks"), ("split", "tuples.count")])
def test_an_acl_that_is_removed_ends_a_component(
    secured: SecuredKafka, topology: Topology, name: str, written: str
) -> None:
    """It must end: a replay of a tuple that cannot be written fails again."""
    user, kafka = user_with(secured, component_role(topology.manifest, name))
    reported = [Stats(name)]
    with in_threads(topology, secured.super_user):
        ended = Threaded(ComponentRunner(topology, name, kafka, on_stats=reported.append))
        try:
            eventually(lambda: reported[-1].emitted, f"{name} to emit")
            secured.forbid(f"User:{user}", f"{topology.name}.{written}")
            message = ended.wait_for_error()
        finally:
            ended.stop()
    assert "\n" not in message
    assert f"topic {topology.name}.{written} may not be written by this user" in message
    assert "acker topics acls MODULE:TOPOLOGY" in message


def test_a_missing_acl_is_the_first_finding(secured: SecuredKafka, topology: Topology) -> None:
    inbox, role = tuples_topic(topology.name, "count"), component_role(topology.manifest, "count")
    (needed,) = [each for each in role.permissions if each.name == inbox and Operation.READ in each.operations]
    _, kafka = user_with(secured, role, needed)
    with in_threads(topology, secured.super_user, ("lines", "split")) as running:
        eventually(lambda: running.stats["split"].executed, "the others work")
        error = Threaded(ComponentRunner(topology, "count", kafka)).wait_for_error()
        assert inbox in error
        first, *_ = judge(Observation(topology.manifest, latest(secured.super_user, topology.manifest, 60)))
    assert (first.check, first.component) == ("groups", "count")
    assert inbox in first.found
    assert "acker topics acls MODULE:TOPOLOGY --role count" in first.remedy


def test_an_authentication_failure_has_its_reason_and_no_secret(
    secured: SecuredKafka,
    topology: Topology,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    right = secured.with_password(f"user-{uuid.uuid4().hex[:8]}")
    AdminClient({**right, "debug": "all"}).list_topics(timeout=60)
    logged = capfd.readouterr().err
    assert "sasl.password = [redacted]" in logged
    assert right["sasl.password"] not in logged
    monkeypatch.setattr("spout_sdk.kafka.kafka_checks.ANSWER_SECONDS", 3.0)
    for wrong, why in (
        ({"sasl.password": "wrong-secret"}, "(?i)authentication"),
        ({"sasl.mechanism": "PLAIN"}, "(?i)mechanism"),
        ({"ssl.ca.location": str(Authority(tmp_path).path)}, "certificate verify failed"),
    ):
        kafka = {**right, **wrong}
        with pytest.raises(AccessError) as refused:
            Catalogue(kafka, contact_s=3).manifest(topology.name)
        messages = [one_line(refused.value)]
        if "sasl.password" in wrong:
            runner = ComponentRunner(topology, "split", kafka)
            messages.append(error_of(runner.run, runner.stop))
        for message in messages:
            assert f"authentication or TLS handshake with {secured.broker.bootstrap_servers} failed" in message
            assert re.search(why, message)
            assert "acker config show" in message
            assert right["sasl.password"] not in message
            assert "wrong-secret" not in message
