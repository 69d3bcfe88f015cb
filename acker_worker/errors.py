"""Errors of the acker worker.

AckerWorkerError
├── LedgerError              a setting or a call that the ledger cannot keep
├── BrokerUnreachableError   no broker answers
├── UnknownTopologyError     `acker.topologies` has no manifest of that name
├── TopicError               a topic is missing or not as it has to be, or this user may not use it
├── AccessError              this user may not do something else that it has to, or is not let in at all
├── DeliveryError            notices could not be delivered, so nothing may be committed
└── UnsupportedVersionError  an ack batch or a commit of a version that this one cannot read
"""


class AckerWorkerError(Exception):
    """Base of all errors raised by `acker_worker`; the message ends with what to do."""


class LedgerError(AckerWorkerError):
    """A setting or a call that the ledger cannot keep."""


class BrokerUnreachableError(AckerWorkerError):
    """No broker answered in time."""


class UnknownTopologyError(AckerWorkerError):
    """There is no manifest of that name in `acker.topologies`; or, where the name is empty, none at all."""

    def __init__(self, topology: str, known: list[str]) -> None:
        there = f"the cluster has {', '.join(known)}" if known else "the cluster has none yet"
        missing = f"no topology {topology!r}" if topology else "no topology"
        remedy = "Check the name, or create it" if topology else "Create one"
        super().__init__(f"{missing} in acker.topologies: {there}. {remedy}: acker topics create MODULE:TOPOLOGY")
        self.topology = topology
        self.known = known


class TopicError(AckerWorkerError):
    """A topic is missing or is not as it has to be.

    Attributes:
        topic: its name.
        is_missing: whether it does not exist.
    """

    def __init__(self, topic: str, problem: str, *, is_missing: bool = False) -> None:
        super().__init__(f"topic {topic} {problem}")
        self.topic = topic
        self.is_missing = is_missing


class AccessError(AckerWorkerError):
    """The cluster does not let this user in, or not do what it has to."""


class DeliveryError(AckerWorkerError):
    """Notices could not be delivered in time."""


class UnsupportedVersionError(AckerWorkerError):
    """An ack batch or a commit was written by another version, and nothing behind it may be read."""
