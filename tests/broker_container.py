"""Kafka in a container of `apache/kafka`, the same version and configuration as the embedded broker."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer

from local_kafka.properties import DEVELOPMENT
from tests.waiting import eventually

IMAGE: Final = "apache/kafka:4.1.1"
"""Of the compose file; the embedded broker is newer."""

_PORT: Final = 9092
_ADVERTISED: Final = "/tmp/advertised-listeners"
# The engine picks the port on this machine, and the broker has to know it: it gets it once the container runs. To pick
# one before would leave a moment in which another process takes it.
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
# As the embedded broker in tests: it runs for minutes only, and C2 would use much of that time.
_JAVA: Final = {"KAFKA_HEAP_OPTS": "-Xmx512m", "KAFKA_OPTS": "-XX:TieredStopAtLevel=1"}
_START_SECONDS: Final = 180.0
"""Time limit for an answer, in seconds; 5 on an idle machine."""
_LOG_LINES: Final = 30


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
        result = container.exec(["sh", "-c", f"echo PLAINTEXT://{servers} > {_ADVERTISED}"])
        assert result.exit_code == 0, result.output
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
    # Refused connections are expected until the broker listens.
    admin = AdminClient({"bootstrap.servers": servers, "reconnect.backoff.max.ms": 200, "log_level": 0})

    def answers() -> bool:
        with suppress(KafkaException):
            return bool(admin.list_topics(timeout=1).brokers)
        return False

    eventually(answers, f"an answer of the container at {servers}", _START_SECONDS)
    # Has the topic of the groups' offsets created now: the first consumer would wait for it for seconds.
    with suppress(KafkaException):
        admin.describe_consumer_groups(["none"], request_timeout=5)["none"].result()


def _log_tail(container: DockerContainer) -> str:
    lines = b"".join(container.get_logs()).decode(errors="replace").splitlines()
    return "\n".join(["the end of the broker's log:", *lines[-_LOG_LINES:]])
