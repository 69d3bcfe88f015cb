"""Spark jobs on a Kafka with TLS, SASL and ACLs: each with only its ACLs, and without visible secrets."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

import spark_jobs
from acker_worker.worker import AckerWorker
from kafka_clients.access import acker_role, component_role
from spark_jobs.kafka_options import check_access, check_topics, source_options
from spout_sdk import Topology
from spout_sdk.runtime import ComponentRunner
from tests.kafka.sdk_rig import write
from tests.kafka.security.secured import HERE, SecuredKafka, bindings_of, command_lines, environment_of
from tests.spark import submitted
from tests.spark.rig import figures, topology_name
from tests.spark.spout_rig import lines
from tests.topics import create_topics
from tests.unit.cli.running import RunningAcker, running_acker
from tests.waiting import eventually

pytestmark = pytest.mark.exhaustive

MESSAGES = 200
# Until two Sparks have started on a machine with more to do.
SECONDS = 240


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("certificates")) as kafka:
        yield kafka


@pytest.fixture
def topology(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """With its topics, and messages in its source."""
    monkeypatch.setenv(submitted.NAME, topology_name())
    built = submitted.words()
    secured.publish(built.manifest)
    source = submitted.source_topic()
    create_topics(secured.super_user, [NewTopic(source, 2, 1)])
    write(secured.super_user, source, lines(MESSAGES), 2)
    return built


def grant_access(secured: SecuredKafka, topology: Topology, role: str, way_in: str) -> dict[str, Any]:
    """A user with just the ACLs of a role."""
    user = f"{topology.name}.{role}"
    manifest = topology.manifest
    needed = acker_role(manifest) if role == "acker" else component_role(manifest, role, topology.sources.get(role))
    secured.allow(bindings_of(needed, f"User:{user}"))
    settings: dict[str, Any] = getattr(secured, way_in)(user)
    return settings


def secrets_of(kafka: dict[str, Any]) -> list[str]:
    """The secrets: a password, or the lines of a key, as text or in JSON."""
    if "sasl.password" in kafka:
        return [str(kafka["sasl.password"]).partition(" ")[0]]
    return [line for line in Path(kafka["ssl.key.location"]).read_text().splitlines() if not line.startswith("-")]


def test_a_spout_and_a_bolt(secured: SecuredKafka, topology: Topology, tmp_path: Path) -> None:
    spout = grant_access(secured, topology, "lines", "with_password")
    bolt = grant_access(secured, topology, "split", "with_certificate")
    worker = AckerWorker(topology.name, grant_access(secured, topology, "acker", "with_certificate"))
    count = ComponentRunner(topology, "count", grant_access(secured, topology, "count", "with_certificate"))
    with ExitStack() as stack:
        for service in (worker, count):
            thread = threading.Thread(target=service.run)
            thread.start()
            stack.callback(thread.join, 60)
            stack.callback(service.stop)

        def submit(component: str, kafka: dict[str, Any]) -> RunningAcker:
            events = tmp_path / f"events-{component}"
            events.mkdir()
            return stack.enter_context(
                running_acker(
                    "spark", "submit", f"{submitted.__name__}:words", "--component", component,
                    "--master", "local[2]", "--checkpoint", str(tmp_path / component),
                    "--", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.ui.enabled=false",
                    "--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false",
                    "--conf", f"spark.eventLog.dir={events.as_uri()}",
                    "--driver-memory", "1g",
                    cwd=HERE, environment=environment_of(kafka),
                )
            )  # fmt: skip

        commands = [submit("split", bolt), submit("lines", spout)]

        def are_through() -> bool:
            """Whether both have reported, with no more than the ACLs of their roles, that all is done."""
            assert all(command.process.poll() is None for command in commands), [each.output for each in commands]
            found = figures(secured.super_user, topology.manifest)
            lines, split = found["lines"], found["split"]
            acked, executed = lines["totals"]["acked"], split["totals"]["executed"]
            return (acked, lines["pending"]) == (MESSAGES, 0) and (executed or 0) >= MESSAGES

        eventually(lambda: len(list(tmp_path.glob("events-*/*"))) == 2, "both Sparks to have started", SECONDS)
        seen = "".join(command_lines(command) for command in commands)
        eventually(are_through, "every message to be acked, in the statistics of the drivers", SECONDS)
        for command in reversed(commands):
            command.process.terminate()
            assert command.ended(SECONDS) == 0, command.output
    assert count.stats.executed >= 2 * MESSAGES
    events = "".join(log.read_text() for log in tmp_path.glob("events-*/**/*") if log.is_file())
    assert "SparkListenerSQLExecutionStart" in events
    assert "java" in seen
    output = "".join(command.output for command in commands)
    assert "Traceback" not in output
    for secret in (*secrets_of(spout), *secrets_of(bolt)):
        assert secret not in seen
        assert secret not in output
        assert secret not in events


def test_query_plans_contain_no_secrets(secured: SecuredKafka, topology: Topology, spark: Any, capfd: Any) -> None:
    """The output of `explain` is in the UI as well."""
    for way_in in ("with_password", "with_certificate"):
        kafka = grant_access(secured, topology, "lines", way_in)
        read = {**source_options(kafka), "subscribe": submitted.source_topic()}
        rows = spark.read.format("kafka").options(**read).load()
        assert rows.count() == MESSAGES
        stream = spark.readStream.format("kafka").options(**read).load()
        for frame in (rows, stream):
            frame.explain(extended=True)
            frame.explain(mode="formatted")
        output = "".join(capfd.readouterr())
        assert "Physical Plan" in output
        assert not any(secret in output for secret in secrets_of(kafka))


def test_a_job_needs_each_of_its_topics(secured: SecuredKafka, topology: Topology) -> None:
    component = "lines"
    role = component_role(topology.manifest, component, topology.sources.get(component))
    for index, topic in enumerate(role.needed_topics):
        user = f"{topology.name}.{component}.{index}"
        kafka = secured.with_certificate(user)
        secured.allow(acl for acl in bindings_of(role, f"User:{user}") if acl.name != topic)
        hidden = f"{topic} has no DESCRIBE ACL for this user"
        with pytest.raises(spark_jobs.SparkJobError, match=rf"{hidden}.*--role {component}"):
            check_access(kafka, role)
        with pytest.raises(spark_jobs.SparkJobError, match=hidden):
            check_topics(kafka, {topic: 1})


def test_a_job_without_authentication_gets_the_reason(secured: SecuredKafka, topology: Topology) -> None:
    kafka = secured.with_password(f"{topology.name}.missing") | {"sasl.password": "wrong-secret"}
    with pytest.raises(
        spark_jobs.SparkJobError, match=r"authentication or TLS handshake with .*[Aa]uthentication"
    ) as refused:
        check_topics(kafka, {})
    assert "wrong-secret" not in str(refused.value)
