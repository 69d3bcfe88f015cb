"""The broker's properties: what development wants, and how a properties file is written."""

from collections.abc import Mapping
from pathlib import Path

NODE_ID = 1

DEVELOPMENT: Mapping[str, str] = {
    # A misspelt topic is an error, not a new topic with one partition.
    "auto.create.topics.enable": "false",
    # There is one broker to keep a copy.
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
    # A group forms at once, and one may notice in a second, not in six, that a member has died.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A transaction of a process that stands still is looked for every 10 s unless set, besides its own time-out.
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
"""Defaults for development; whoever starts the broker may override each."""

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
"""What makes the broker a local one with a known address and directory: not to be overridden."""


def open_listeners(port: int, controller_port: int) -> Mapping[str, str]:
    """The properties of a listener that lets everybody in, on 127.0.0.1."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def broker_properties(
    *, listeners: Mapping[str, str], controller_port: int, log_dir: Path, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Put together the properties of a broker that is its own controller.

    Raises `ValueError`, an override is one of `FIXED`.
    """
    check_overrides(overrides)
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
    """Refuse overrides that would make the broker something else than a local one.

    Raises `ValueError`, an override is one of `FIXED`.
    """
    refused = sorted(FIXED.intersection(overrides))
    if refused:
        raise ValueError(
            f"{', '.join(refused)}: set by LocalKafka itself, take it out of `properties` "
            "(the port and the directory are arguments of their own: `port`, `data_dir`)"
        )


def render(properties: Mapping[str, str]) -> str:
    """Write properties in the format of `java.util.Properties`, which reads back exactly these keys and values."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in properties.items())


def _escape(text: str, *, is_key: bool = False) -> str:
    escaped: list[str] = []
    for index, char in enumerate(text):
        if char == "\\" or (is_key and char in "=:#! ") or (char == " " and index == 0):
            escaped.append("\\" + char)
        elif char in _CONTROL:
            escaped.append(_CONTROL[char])
        elif " " <= char <= "~":
            escaped.append(char)
        else:
            # Beyond the Basic Multilingual Plane Java counts in UTF-16 units.
            units = char.encode("utf-16-be")
            escaped.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join(escaped)


_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
