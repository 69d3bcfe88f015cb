"""Errors of a cluster.

ClusterError
├── BrokerUnreachableError   no broker answers in time
├── UnknownTopologyError     `acker.topologies` has no manifest of that name
├── TopicError               a topic is missing or misconfigured, or this user has no ACL for it
└── AccessError              authentication failed, or this user has no ACL for something else
"""

from typing import Final, Self

from confluent_kafka import KafkaError

REFUSED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
"""Codes of Kafka's errors that mean that the user has no ACL for it."""
GONE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
"""Codes of Kafka's errors that mean that the topic or partition does not exist."""


class ClusterError(Exception):
    """Base of all errors raised by `kafka_clients`; the message ends with what to do."""


class BrokerUnreachableError(ClusterError):
    pass


class UnknownTopologyError(ClusterError):
    """Where the name is empty, there is no topology at all."""

    def __init__(self, topology: str, known: list[str]) -> None:
        there = f"the cluster has {', '.join(known)}" if known else "the cluster has none yet"
        missing = f"no topology {topology!r}" if topology else "no topology"
        remedy = "Check the name, or create it" if topology else "Create one"
        super().__init__(f"{missing} in acker.topologies: {there}. {remedy}: acker topics create MODULE:TOPOLOGY")
        self.topology = topology
        self.known = known


class TopicError(ClusterError):
    def __init__(self, topic: str, problem: str, *, is_missing: bool = False) -> None:
        super().__init__(f"topic {topic} {problem}")
        self.topic = topic
        self.is_missing = is_missing

    @classmethod
    def missing(cls, topic: str) -> Self:
        return cls(topic, "does not exist. Create it: acker topics create MODULE:TOPOLOGY", is_missing=True)


class AccessError(ClusterError):
    pass
