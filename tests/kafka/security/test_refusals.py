"""What the product says when it is not allowed something: one line, which names what, and what to do."""

import dataclasses
import re
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from acker_cli.cluster import Cluster
from acker_cli.running import prepare_cluster
from acker_worker.catalogue import Catalogue
from acker_worker.errors import AccessError, AckerWorkerError
from acker_worker.worker import AckerWorker
from spout_sdk import ComponentRunner, SpoutSdkError, Stats, Topology, load_topology
from tests.kafka.sdk_topologies import NAME
from tests.kafka.security.secured import SecuredKafka, bindings_of
from tests.waiting import eventually
from tuple_tree.access import Operation, Permission, Role, acker_role, component_role, operator_role
from tuple_tree.names import TOPOLOGIES_TOPIC

ENDLESS = "tests.kafka.sdk_topologies:endless"
# Of a machine that has a lot else to do.
SECONDS = 120


@pytest.fixture(scope="module")
def topology(secured: SecuredKafka) -> Topology:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(NAME, f"refusing-{uuid.uuid4().hex[:8]}")
        built = load_topology(ENDLESS)
    catalogue = Catalogue(secured.super_user)
    catalogue.create_topics(built.manifest)
    catalogue.publish(built.manifest)
    return built


def user_with(secured: SecuredKafka, role: Role, without: Permission | None = None) -> tuple[str, dict[str, Any]]:
    """A user who has all that a role needs, but for one thing."""
    user = f"{role.name}-{uuid.uuid4().hex[:8]}"
    kept = tuple(permission for permission in role.permissions if permission != without)
    secured.allow(bindings_of(dataclasses.replace(role, permissions=kept), f"User:{user}"))
    return user, secured.with_certificate(user)


def one_line(error: BaseException) -> str:
    said = str(error)
    assert "\n" not in said
    return said


# Built without a broker, for the names of the parameters.
with pytest.MonkeyPatch.context() as named:
    named.setenv(NAME, "any")
    ANY = load_topology(ENDLESS).manifest
COMPONENTS = [component.name for component in ANY.components]
OF_A_COMPONENT = [
    pytest.param(name, index, id=f"{name}: {permission.name}")
    for name in COMPONENTS
    for index, permission in enumerate(component_role(ANY, name).permissions)
    if not permission.optional
]
OF_A_TRANSACTIONAL_BOLT = [
    pytest.param(index, id=permission.name)
    for index, permission in enumerate(
        component_role(ANY.model_copy(update={"guarantee": "exactly_once"}), "split").permissions
    )
    if permission.name != TOPOLOGIES_TOPIC  # asked for by commands alone
    and not permission.optional
]
OF_A_WORKER = [
    pytest.param(index, id=permission.name)
    for index, permission in enumerate(acker_role(ANY).permissions)
    if not permission.optional
]


def run_until_refused(run: Callable[[], None], stop: Callable[[], None]) -> str:
    """Runs something that has to end by itself, with an error."""
    guard = threading.Timer(SECONDS, stop)
    guard.start()
    try:
        with pytest.raises((AckerWorkerError, SpoutSdkError)) as refused:
            run()
    finally:
        guard.cancel()
    return one_line(refused.value)


@pytest.mark.parametrize(("name", "index"), OF_A_COMPONENT)
def test_a_component_needs_each_of_its_acls(secured: SecuredKafka, topology: Topology, name: str, index: int) -> None:
    role = component_role(topology.manifest, name)
    lacking = role.permissions[index]
    _, kafka = user_with(secured, role, without=lacking)
    runner = ComponentRunner(topology, name, kafka)

    def run() -> None:
        prepare_cluster(Cluster(kafka, is_embedded=False), topology.manifest, -1, name)
        runner.run()

    said = run_until_refused(run, runner.stop)
    assert f"{lacking.resource} {lacking.name} may not be" in said
    assert "acker topics acls MODULE:TOPOLOGY" in said


@pytest.mark.parametrize("index", OF_A_TRANSACTIONAL_BOLT)
def test_a_bolt_that_works_in_transactions_needs_each_of_its_acls(
    secured: SecuredKafka, topology: Topology, index: int
) -> None:
    exact = topology.manifest.model_copy(update={"guarantee": "exactly_once"})
    role = component_role(exact, "split")
    lacking = role.permissions[index]
    _, kafka = user_with(secured, role, without=lacking)
    runner = ComponentRunner(Topology(exact, topology.factories), "split", kafka)
    said = run_until_refused(runner.run, runner.stop)
    assert f"{lacking.resource} {lacking.name} may not be" in said
    assert "acker topics acls MODULE:TOPOLOGY" in said


@pytest.mark.parametrize("index", OF_A_WORKER)
def test_a_worker_needs_each_of_its_acls(secured: SecuredKafka, topology: Topology, index: int) -> None:
    role = acker_role(topology.manifest)
    lacking = role.permissions[index]
    _, kafka = user_with(secured, role, without=lacking)
    worker = AckerWorker(topology.name, kafka)
    said = run_until_refused(worker.run, worker.stop)
    assert f"{lacking.resource} {lacking.name} may not be" in said
    assert "acker topics acls MODULE:TOPOLOGY" in said


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_says_so_by_itself(secured: SecuredKafka, topology: Topology, name: str) -> None:
    """In a program of one's own, where no command has looked before."""
    role = component_role(topology.manifest, name)
    acks = f"{topology.name}.acks"
    changed = [
        dataclasses.replace(each, operations=(Operation.READ,)) if each.name == acks else each
        for each in role.permissions
    ]
    _, kafka = user_with(secured, dataclasses.replace(role, permissions=tuple(changed)))
    runner = ComponentRunner(topology, name, kafka)
    said = run_until_refused(runner.run, runner.stop)
    assert f"topic {acks} may not be written by this user" in said
    assert said.endswith(f"acker topics acls MODULE:TOPOLOGY --role {name} prints")


@pytest.mark.parametrize("name", ["acker", "split"])
def test_who_may_not_say_how_it_does_works_all_the_same(
    secured: SecuredKafka, topology: Topology, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_acker = name == "acker"
    role = acker_role(topology.manifest) if is_acker else component_role(topology.manifest, name)
    (lacking,) = [permission for permission in role.permissions if permission.optional]
    _, kafka = user_with(secured, role, without=lacking)
    owned: list[int] = []
    runner: AckerWorker | ComponentRunner
    if is_acker:
        runner = AckerWorker(topology.name, kafka, on_stats=lambda stats: owned.append(stats.partitions))
    else:
        prepare_cluster(Cluster(kafka, is_embedded=False), topology.manifest, -1, name)
        runner = ComponentRunner(topology, name, kafka, on_stats=lambda stats: owned.append(len(stats.tasks)))
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: owned and owned[-1] > 0, "it to be at work", SECONDS)
        eventually(lambda: "will not show this process" in caplog.text, "it to say so", SECONDS)
    finally:
        runner.stop()
        thread.join(SECONDS)
    assert not thread.is_alive()
    assert f"topic {topology.name}.stats cannot be seen: allow it with what acker topics acls" in caplog.text
    assert caplog.text.count("will not show this process") == 1


def test_settings_of_topics_are_asked_for(secured: SecuredKafka, topology: Topology) -> None:
    role = acker_role(topology.manifest)
    changed = [dataclasses.replace(each, operations=each.operations[:1]) for each in role.permissions]
    _, kafka = user_with(secured, dataclasses.replace(role, permissions=tuple(changed)))
    worker = AckerWorker(topology.name, kafka)
    said = run_until_refused(worker.run, worker.stop)
    assert f"topic {topology.name}.acks may not be asked for its settings by this user" in said


def test_an_operator_needs_its_acls(secured: SecuredKafka, topology: Topology) -> None:
    role = operator_role(topology.manifest)
    prefix, topologies = role.permissions
    other = topology.manifest.model_copy(update={"topology": f"{topology.name}-2"})
    _, kafka = user_with(secured, role)
    with pytest.raises(AckerWorkerError, match=r"may not be created by this user.*--role operator") as refused:
        Catalogue(kafka).create_topics(other)
    one_line(refused.value)
    _, kafka = user_with(secured, role, without=topologies)
    with pytest.raises(AckerWorkerError, match=r"topic acker.topologies may not be created by this user"):
        Catalogue(kafka).create_topics(topology.manifest)
    without_write = dataclasses.replace(topologies, operations=topologies.operations[:-1])
    _, kafka = user_with(secured, dataclasses.replace(role, permissions=(prefix, without_write)))
    assert Catalogue(kafka).create_topics(topology.manifest) == []
    with pytest.raises(AckerWorkerError, match=r"acker.topologies may not be written by this user.*--role operator"):
        Catalogue(kafka).publish(topology.manifest)


@pytest.mark.parametrize(("name", "written"), [("lines", "acks"), ("split", "tuples.count"), ("split", "acks")])
def test_what_is_taken_away_ends_a_component(
    secured: SecuredKafka, topology: Topology, name: str, written: str
) -> None:
    """It must not go on as if tuples that nobody takes were failures that a replay will cure."""
    user, kafka = user_with(secured, component_role(topology.manifest, name))
    latest = [Stats(name)]
    runner = ComponentRunner(topology, name, kafka, on_stats=latest.append)
    others = [ComponentRunner(topology, other, secured.super_user) for other in COMPONENTS]
    services: list[ComponentRunner | AckerWorker] = [runner, *others, AckerWorker(topology.name, secured.super_user)]
    ended: list[BaseException] = []

    def run(service: ComponentRunner | AckerWorker) -> None:
        try:
            service.run()
        except SpoutSdkError as error:
            ended.append(error)

    threads = [threading.Thread(target=run, args=(service,)) for service in services]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: latest[-1].emitted, f"{name} to emit")
        secured.forbid(f"User:{user}", f"{topology.name}.{written}")
        eventually(lambda: ended, f"{name} to end")
    finally:
        for service in services:
            service.stop()
        for thread in threads:
            thread.join(SECONDS)
    said = one_line(ended[0])
    assert f"topic {topology.name}.{written} may not be written by this user" in said
    assert "acker topics acls MODULE:TOPOLOGY" in said


WRONG: dict[str, dict[str, str | None]] = {
    "password": {"sasl.password": "wrong-secret"},
    "user": {"sasl.username": "nobody"},
    "mechanism": {"sasl.mechanism": "PLAIN"},
    "authority": {"ssl.ca.location": None},
}


@pytest.mark.parametrize("what", WRONG)
def test_who_is_not_let_in_hears_why(
    secured: SecuredKafka, topology: Topology, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, what: str
) -> None:
    from tests.certificates import Authority

    kafka = secured.with_password(f"user-{uuid.uuid4().hex[:8]}")
    secret = kafka["sasl.password"]
    wrong = WRONG[what]
    kafka |= {name: str(Authority(tmp_path).path) if value is None else value for name, value in wrong.items()}
    with pytest.raises(AccessError) as refused:
        Catalogue(kafka, contact_s=5).manifest(topology.name)
    monkeypatch.setattr("spout_sdk.kafka_checks.ANSWER_SECONDS", 5.0)
    runner = ComponentRunner(topology, "split", kafka)
    for said in (one_line(refused.value), run_until_refused(runner.run, runner.stop)):
        assert f"{secured.broker.bootstrap_servers} does not let this client in" in said
        assert re.search("certificate verify failed" if what == "authority" else "(?i)authentication|mechanism", said)
        assert "acker config show" in said
        assert secret not in said
        assert "wrong-secret" not in said
