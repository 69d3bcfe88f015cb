"""The broker's properties and ports: defaults for development, listeners, security, the format of a properties file.

A broker with `Security` has TLS, SASL and ACLs: an authoriser that refuses what no ACL allows, and two listeners for
clients. One is for users with a password (SASL_SSL, SCRAM-SHA-512), the other for users with a certificate (SSL). The
controller and the broker itself use certificates. A super user creates the users with passwords when the broker runs.
"""

import random
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HOST = "127.0.0.1"
# Below what Linux (32768) and macOS (49152) hand out to outgoing connections, so that while the broker is down between
# a kill and a restart no connection takes its port.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java does: connections of an earlier broker that linger in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(taken: Iterable[int | None] = ()) -> int:
    """Choose a free port at random, none of those `taken`. Raises `OSError` if none of a hundred was free."""
    excluded = set(taken)
    for port in random.SystemRandom().sample(_RANGE, 100):
        if port not in excluded and is_free(port):
            return port
    raise OSError(f"no free port found between {_RANGE.start} and {_RANGE.stop} on {HOST}")


NODE_ID = 1

DEVELOPMENT: Mapping[str, str] = {
    # A misspelt topic is an error, not a new topic with one partition.
    "auto.create.topics.enable": "false",
    # There is one broker for replicas.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fifty partitions of each are for clusters; every one costs files and time at the start.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # A group forms at once, and may have a session timeout of one second, not of six.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # The broker looks for transactions that have timed out every 10 s unless set.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # 128 MB of the heap would go to compaction.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.io.buffer.size": "131072",
    # A developer's machine has other things to do.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}
"""Defaults for development; a user's properties may override each."""


def broker_properties(
    *, port: int, controller_port: int, certificate_port: int | None = None, log_dir: Path, overrides: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a broker that is its own controller, on 127.0.0.1.

    With a port for users with certificates, all listeners have TLS, and the other one is for users with passwords;
    without it, no listener has authentication.
    """
    if certificate_port is None:
        clients, internal = f"PLAINTEXT://{HOST}:{port}", "PLAINTEXT"
    else:
        clients, internal = f"SASL_SSL://{HOST}:{port},SSL://{HOST}:{certificate_port}", "SSL"
    return {
        **DEVELOPMENT,
        **overrides,
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{clients},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": (f"PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:{internal}"),
        "inter.broker.listener.name": internal,
        "log.dirs": str(log_dir),
    }


FIXED = frozenset(
    broker_properties(port=0, controller_port=0, log_dir=Path(), overrides={}).keys() - DEVELOPMENT.keys()
    # Other names of these.
    | {
        "broker.id",
        "controller.quorum.bootstrap.servers",
        "log.dir",
        "metadata.log.dir",
        "security.inter.broker.protocol",
    }
)
"""Properties that `LocalKafka` sets itself: a user's properties may not override them."""


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Raises `ValueError` if an override is one of `FIXED`."""
    refused = sorted(FIXED.intersection(overrides))
    if refused:
        raise ValueError(
            f"{', '.join(refused)}: set by LocalKafka itself, take it out of `properties` "
            "(the port and the directory are arguments of their own: `port`, `data_dir`)"
        )


def render(properties: Mapping[str, str]) -> str:
    """Properties in the format of `java.util.Properties`, which reads back exactly these keys and values."""
    return "".join(f"{_KEY.sub(_escaped, key)}={_VALUE.sub(_escaped, value)}\n" for key, value in properties.items())


_KEY = re.compile(r"[^!-~]|[\\=:#!]")
_VALUE = re.compile(r"[^ -~]|\\|^ ")


def _escaped(match: re.Match[str]) -> str:
    # Java counts in UTF-16 units.
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


MECHANISM: Final = "SCRAM-SHA-512"

# A certificate is known by its common name, so that user `alice` is the same on both listeners.
_COMMON_NAME: Final = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Security:
    """A broker's certificates and super users.

    Attributes:
        identity: PEM file with the broker's certificate, which must name 127.0.0.1 and be for servers and clients, the
            certificates up to the authority if there are any in between, and the private key, in PKCS#8.
        authority: PEM file with the certificates of trusted authorities.
        super_users: users without limits; the common name of the broker's certificate must be one of them.
    """

    identity: Path
    authority: Path
    super_users: tuple[str, ...]

    def client_settings(self) -> dict[str, Any]:
        """Librdkafka properties of a client that is the broker itself."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.identity),
            "ssl.key.location": str(self.identity),
        }

    def properties(self) -> dict[str, str]:
        """The broker's properties, but for the listeners."""
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in self.super_users),
            "allow.everyone.if.no.acl.found": "false",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.identity.absolute()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.absolute()),
            "ssl.principal.mapping.rules": _COMMON_NAME,
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": _SCRAM_MODULE,
        }
