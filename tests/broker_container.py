"""Kafka in a container of `apache/kafka`, the same version and configuration as the embedded broker."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

import docker
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from local_kafka.distribution import KAFKA_VERSION
from local_kafka.properties import DEVELOPMENT
from tests.waiting import eventually

IMAGE: Final = f"apache/kafka:{KAFKA_VERSION}"

_PORT: Final = 9092
_ADVERTISED: Final = "/tmp/advertised-listeners"
# The engine picks the port on this machine, and the broker has to know it: it is told once the container runs. To pick
# one before would leave a moment in which somebody else takes it.
_START: Final = (
    f"until [ -s {_ADVERTISED} ]; do sleep 0.1; done; "
    f'export KAFKA_ADVERTISED_LISTENERS="$(cat {_ADVERTISED})"; exec /etc/kafka/docker/run'
)
_PROPERTIES: Final = {
    **DEVELOPMENT,
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": f"PLAINTEXT://:{_PORT},CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "/tmp/kafka-logs",
}
# As the embedded broker in tests: it lives for minutes, of which the JVM's thorough compiler would take a good part.
_JAVA: Final = {"KAFKA_HEAP_OPTS": "-Xmx512m", "KAFKA_OPTS": "-XX:TieredStopAtLevel=1"}
_START_S: Final = 180.0
"""How long it may take to answer; 5 seconds where nothing else runs."""
_LOG_LINES: Final = 30


def container_problem() -> str:
    """Why there can be no container here; empty if there can be one. Fetches the images that are not there."""
    if problem := _socket_problem(os.environ.get("DOCKER_HOST", "") or "unix:///var/run/docker.sock"):
        return problem
    try:
        client = docker.from_env()
    except DockerException as error:
        return f"no Docker engine answers ({_first_line(error)})"
    with closing(client):
        if problem := _image_problem(client, IMAGE):
            return problem
        # Removes the container if this process is killed.
        reaper = testcontainers_config.ryuk_image
        if not testcontainers_config.ryuk_disabled and (problem := _image_problem(client, reaper)):
            return f"{problem}; TESTCONTAINERS_RYUK_DISABLED=true does without it"
    return ""


def _socket_problem(host: str) -> str:
    # Docker's client leaves its socket open when nobody answers.
    scheme, _, path = host.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError as error:
                return f"no Docker engine answers ({error.strerror})"
    return ""


def _image_problem(client: docker.DockerClient, image: str) -> str:
    try:
        try:
            client.images.get(image)
        except ImageNotFound:
            client.images.pull(image)
    except DockerException as error:
        return f"there is no image {image} ({_first_line(error)})"
    return ""


@contextmanager
def kafka_container() -> Iterator[str]:
    """Runs a broker, and returns its address; the container is removed however this ends.

    With `TESTCONTAINERS_RYUK_DISABLED=true` nothing removes it if this process is killed.
    """
    container = DockerContainer(IMAGE, command=None)
    container.with_envs(**{_variable(name): value for name, value in _PROPERTIES.items()}, **_JAVA)
    container.with_command(["sh", "-c", _START]).with_exposed_ports(_PORT)
    with container:
        # By its number, since `localhost` may be looked up as an address that the engine does not publish at.
        host = container.get_container_host_ip().replace("localhost", "127.0.0.1")
        servers = f"{host}:{container.get_exposed_port(_PORT)}"
        told = container.exec(["sh", "-c", f"echo PLAINTEXT://{servers} > {_ADVERTISED}"])
        assert told.exit_code == 0, told.output
        try:
            _await_answer(servers)
        except AssertionError as error:
            error.add_note(_log_tail(container))
            raise
        yield servers


def _variable(name: str) -> str:
    """The image's spelling of a broker property."""
    return "KAFKA_" + name.upper().replace("_", "__").replace("-", "___").replace(".", "_")


def _await_answer(servers: str) -> None:
    # That nobody listens there yet is no news.
    admin = AdminClient({"bootstrap.servers": servers, "reconnect.backoff.max.ms": 200, "log_level": 0})

    def answers() -> bool:
        with suppress(KafkaException):
            return bool(admin.list_topics(timeout=1).brokers)
        return False

    eventually(answers, f"an answer of the container at {servers}", _START_S)
    # Has the topic of the groups' offsets created now: the first consumer would wait for it for seconds.
    with suppress(KafkaException):
        admin.describe_consumer_groups(["none"], request_timeout=5)["none"].result()


def _log_tail(container: DockerContainer) -> str:
    lines = b"".join(container.get_logs()).decode(errors="replace").splitlines()
    return "\n".join(["the end of the broker's log:", *lines[-_LOG_LINES:]])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
