"""Errors of a cluster.

ClusterError
├── BrokerUnreachableError   no broker answers
├── UnknownTopologyError     `acker.topologies` has no manifest of that name
├── TopicError               a topic is missing or misconfigured, or this user has no ACL for it
└── AccessError              authentication failed, or this user has no ACL for something else
"""


class ClusterError(Exception):
    """Base of all errors raised by `kafka_clients`; the message ends with what to do."""


class BrokerUnreachableError(ClusterError):
    """No broker answered in time."""


class UnknownTopologyError(ClusterError):
    """There is no manifest of that name in `acker.topologies`; or, where the name is empty, none at all."""

    def __init__(self, topology: str, known: list[str]) -> None:
        there = f"the cluster has {', '.join(known)}" if known else "the cluster has none yet"
        missing = f"no topology {topology!r}" if topology else "no topology"
        remedy = "Check the name, or create it" if topology else "Create one"
        super().__init__(f"{missing} in acker.topologies: {there}. {remedy}: acker topics create MODULE:TOPOLOGY")
        self.topology = topology
        self.known = known


class TopicError(ClusterError):
    """A topic is missing or misconfigured.

    Attributes:
        is_missing: whether it does not exist.
    """

    def __init__(self, topic: str, problem: str, *, is_missing: bool = False) -> None:
        super().__init__(f"topic {topic} {problem}")
        self.topic = topic
        self.is_missing = is_missing


class AccessError(ClusterError):
    """Authentication failed, or this user has no ACL for what it has to do."""
