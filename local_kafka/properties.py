"""The broker's properties: defaults for development, and the format of a properties file."""

import re
from collections.abc import Mapping
from pathlib import Path

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
    # A broker that was killed may not register again before its last session has ended: 9 s unless set.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # 128 MB of the heap would go to compaction.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.io.buffer.size": "131072",
    # A developer's machine has other things to do.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}
"""Defaults for development; a user's properties may override each."""

FIXED = frozenset(
    {
        "process.roles",
        "node.id",
        "broker.id",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "security.inter.broker.protocol",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)
"""What `LocalKafka` sets itself: a user's properties may not override it."""


def open_listeners(port: int, controller_port: int) -> Mapping[str, str]:
    """The properties of a listener without authentication, on 127.0.0.1."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def broker_properties(
    *, listeners: Mapping[str, str], controller_port: int, log_dir: Path, overrides: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a broker that is its own controller."""
    return {
        **DEVELOPMENT,
        **overrides,
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        **listeners,
        "log.dirs": str(log_dir),
    }


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
