"""Errors of the SDK.

SpoutSdkError
├── TopologyError            an invalid topology, or a reference that leads to none
├── EmitError                values, a stream or an anchor that cannot be emitted
├── TupleAlreadyDoneError    a tuple that was acked or failed before
├── InvalidMessageError      raised by *your* `translate`: the message becomes a dead letter
├── FailTupleError           raised by *your* bolt: fails the input with a message, without a traceback in the log
├── ComponentError           your spout or bolt raised where its process cannot continue
│   ├── NotPreparedError         a spout or bolt could not be made, prepared or opened
│   └── TooManyFailuresError     `execute` raised too often in a row
├── HeldBackError            a bolt's inputs are open for longer than a transaction may be
├── RolledBackError          within the SDK: what was not committed is read again
├── BrokerError              Kafka does not do what it must
│   ├── BrokerUnreachableError   no broker answers at bootstrap.servers
│   ├── TopicsError              a topic is missing, has the wrong number of partitions, or may not be used
│   ├── AccessError              authentication failed, or the user may not join the group of the component
│   └── DeliveryError            an ack batch or a dead letter was not delivered
├── UnsupportedVersionError  a notice or a commit of a version that this one cannot read
└── ProcessError             a process of a component could not be started
"""

from collections.abc import Sequence

from confluent_kafka import KafkaError

from kafka_clients.access import remedy


def is_refused(failure: object) -> bool:
    """Whether a delivery report is TOPIC_AUTHORIZATION_FAILED."""
    code = getattr(failure, "code", None)
    return code is not None and code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


class SpoutSdkError(Exception):
    """Base of all errors raised by `spout_sdk`."""


class TopologyError(SpoutSdkError):
    """An invalid topology; the message says what to change."""


class EmitError(SpoutSdkError):
    """Something that `component` cannot emit to `stream`, whose `fields` are empty if it is unknown."""

    def __init__(self, component: str, stream: str, fields: Sequence[str], detail: str) -> None:
        shown = f" ({', '.join(fields)})" if fields else ""
        super().__init__(f"{component!r} cannot emit to stream {stream!r}{shown}: {detail}")
        self.component = component
        self.stream = stream
        self.fields = tuple(fields)


class TupleAlreadyDoneError(SpoutSdkError):
    """A tuple, at `topic`, `partition` and `offset`, was acked or failed before it was acked, failed or anchored to."""

    def __init__(self, action: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"cannot {action} the tuple at {topic}[{partition}] offset {offset}: it was acked or failed before; "
            "ack or fail each input once, after the last emit that is anchored to it"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class InvalidMessageError(SpoutSdkError):
    """Raise it in the `translate` of a `KafkaSpout` for a message that no retry can translate.

    The message becomes a dead letter. Any other exception fails the message, which is then retried.
    """


class FailTupleError(SpoutSdkError):
    """Raise it in `execute` to fail the input; the message reaches the spout's `fail`."""


class ComponentError(SpoutSdkError):
    """The spout or bolt `component` raised, in one of its tasks, `task`, where its process cannot continue."""

    def __init__(self, component: str, task: int, method: str, error: BaseException) -> None:
        super().__init__(
            f"{component}/{task} stopped: {method}() raised {type(error).__name__}: {error}; the log has the traceback"
        )
        self.component = component
        self.task = task


class NotPreparedError(ComponentError):
    """A spout or bolt could not be made, prepared or opened: what it needs is missing, for a while or for good."""


class TooManyFailuresError(ComponentError):
    """`execute` of a bolt raised so often in a row that it is stopped for good."""

    def __init__(self, component: str, task: int, failures: int, error: BaseException) -> None:
        SpoutSdkError.__init__(
            self,
            f"{component}/{task} stopped: {failures} calls of execute() in a row raised, the last one "
            f"{type(error).__name__}: {error}; fix the cause and restart it; inputs that it did not ack are read again",
        )
        self.component = component
        self.task = task


class HeldBackError(SpoutSdkError):
    """With `exactly_once`, a bolt neither acked nor failed an input, and emitted or acked something after it.

    `offset` is that of the input in the partition `task` of the inbox of `component`; None if it is open no more.
    """

    def __init__(self, component: str, task: int, offset: int | None, seconds: float) -> None:
        super().__init__(
            f"{component}/{task} holds back its input at offset {offset} for more than {seconds:.0f} s, and has "
            "emitted, acked or failed something since it received it: that cannot be committed without the input, nor "
            "be done again. Ack or fail each input soon after what is emitted for it, collect inputs without emitting "
            "or acking amid them, let a record carry fewer tuples if they take that long, "
            'TopologyBuilder(pack_tuples=1), or build the topology with guarantee="at_least_once"'
        )
        self.component = component
        self.task = task
        self.offset = offset


class RolledBackError(SpoutSdkError):
    """All records since the last commit have to be read again, by new tasks."""


class BrokerError(SpoutSdkError):
    """Kafka does not do what it must."""


class BrokerUnreachableError(BrokerError):
    """No broker answers at `bootstrap.servers`."""


class TopicsError(BrokerError):
    """A topic is missing or is not as the manifest says, or this user may not use it."""


class AccessError(BrokerError):
    """Authentication failed, or this user may not do what the component has to."""


class DeliveryError(BrokerError):
    """An ack batch or a dead letter for `topic` and `partition` was not delivered, or this user may not send tuples.

    The inputs that it covers stay uncommitted, so a restart reads them again.
    """

    def __init__(self, what: str, topic: str, partition: int, failure: object) -> None:
        if is_refused(failure):
            why = f"{what} was not delivered: topic {topic} may not be written by this user; {remedy()}"
        else:
            why = (
                f"{what} for {topic}[{partition}] was not delivered ({failure}); "
                "restart the process: it reads the inputs that this covered again"
            )
        super().__init__(why)
        self.topic = topic
        self.partition = partition


class UnsupportedVersionError(SpoutSdkError):
    """A notice or a commit was written by another version, and nothing behind it may be read."""


class ProcessError(SpoutSdkError):
    """A process of `component` could not be started."""

    def __init__(self, component: str, detail: str) -> None:
        super().__init__(f"{component}: {detail}")
        self.component = component
