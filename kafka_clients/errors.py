"""Errors of everything that talks to Kafka; each message ends with what to do.

AckerError                   base, also of the errors of `acker_worker` and `spout_sdk`
├── BrokerError              Kafka does not do what it must
│   ├── BrokerUnreachableError   no broker answers in time
│   ├── TopicsError              a topic is missing or misconfigured, or this user has no ACL for it
│   ├── AccessError              authentication failed, or this user has no ACL for something else
│   ├── DeliveryError            a record was not delivered, so what it covers must not be committed
│   └── UnknownTopologyError     `acker.topologies` has no manifest of that name
└── UnsupportedVersionError  something of another version: nothing after it may be read
"""

from typing import Final, Self

from confluent_kafka import KafkaError

from kafka_clients.access import remedy

REFUSED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
"""Codes of Kafka's errors that mean that the user has no ACL for it."""
GONE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
"""Codes of Kafka's errors that mean that the topic or partition does not exist."""


def is_refused(failure: object) -> bool:
    """Whether a delivery report is TOPIC_AUTHORIZATION_FAILED."""
    return isinstance(failure, KafkaError) and failure.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


class AckerError(Exception):
    """Base of all errors of the processes of a topology."""


class BrokerError(AckerError):
    """Kafka does not do what it must."""


class BrokerUnreachableError(BrokerError):
    """No broker answers at `bootstrap.servers`."""


class TopicsError(BrokerError):
    """A topic is missing or is not as the manifest says, or this user may not use it."""

    def __init__(self, topic: str, problem: str, *, is_missing: bool = False) -> None:
        super().__init__(f"topic {topic} {problem}")
        self.topic = topic
        self.is_missing = is_missing

    @classmethod
    def missing(cls, topic: str) -> Self:
        """The error of a topic that does not exist."""
        return cls(topic, "does not exist. Create it: acker topics create MODULE:TOPOLOGY", is_missing=True)


class AccessError(BrokerError):
    """Authentication failed, or this user may not do what the component has to."""


def access_refused(error: KafkaError, topic: str, group: str, role: str | None) -> BrokerError | None:
    """The error of a reader of a topic, in the name of a group, that lacks an ACL; None if `error` is another one."""
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return AccessError(
            f"group {group} may not be used by this user, and {topic} is read in its name: {remedy(role)}"
        )
    if error.code() in REFUSED:
        return TopicsError(topic, f"may not be read by this user: {remedy(role)}")
    return None


class DeliveryError(BrokerError):
    """A record for `topic` and `partition` was not delivered, or may not be sent by this user.

    What it covers stays uncommitted, so a restart reads that again.
    """

    def __init__(self, what: str, topic: str, partition: int, failure: object, role: str | None = None) -> None:
        if is_refused(failure):
            why = f"{what} was not delivered: topic {topic} may not be written by this user; {remedy(role)}"
        else:
            why = (
                f"{what} for {topic}[{partition}] was not delivered ({failure}); "
                "restart the process: it reads the inputs that this covered again"
            )
        super().__init__(why)
        self.topic = topic
        self.partition = partition


class UnknownTopologyError(BrokerError):
    """`acker.topologies` has no such topology; where the name is empty, it has none at all."""

    def __init__(self, topology: str, known: list[str]) -> None:
        there = f"the cluster has {', '.join(known)}" if known else "the cluster has none yet"
        missing = f"no topology {topology!r}" if topology else "no topology"
        advice = "Check the name, or create it" if topology else "Create one"
        super().__init__(f"{missing} in acker.topologies: {there}. {advice}: acker topics create MODULE:TOPOLOGY")
        self.topology = topology
        self.known = known


class UnsupportedVersionError(AckerError):
    """A record or a commit was written by another version, and nothing after it may be read."""
