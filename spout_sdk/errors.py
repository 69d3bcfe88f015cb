"""Errors of the SDK.

    from spout_sdk.errors import TopologyError

SpoutSdkError                the `AckerError` of `kafka_clients`
├── TopologyError            an invalid topology, or a reference that cannot be imported
├── EmitError                values, a stream or an anchor that cannot be emitted
├── TupleAlreadyDoneError    a tuple that was acked or failed before
├── InvalidMessageError      raised by *your* `translate`: the message becomes a dead letter
├── FailTupleError           raised by *your* bolt: fails the input with a message, without a traceback in the log
├── RetryTupleError          raised by *your* bolt: the input is executed again later, without a traceback in the log
├── ComponentError           your spout or bolt raised where its process cannot continue
│   ├── NotPreparedError         a spout or bolt could not be made, prepared or opened
│   └── TooManyFailuresError     `execute` raised too often in a row
├── OpenInputsError          a bolt's inputs are open for longer than a transaction may be
├── StateError               a state that cannot be restored or written, or a value or key that does not fit it
├── RolledBackError          within the SDK: uncommitted records are read again
├── ClientError              a client that cannot start: no such spout, or no outcomes to wait for
│   ├── DeadLetterError          the message has become a dead letter
│   ├── OutcomePendingError      the timeout has passed, and the message is still being processed
│   ├── TooManyCallsError        the timeout has passed before the message could be sent
│   ├── NotDeliveredError        the message was not delivered to its topic
│   └── ClientClosedError        the client has ended, and the message may still be processed
├── ProcessError             a process of a component could not be started
└── BrokerError, UnsupportedVersionError and their subclasses: see `kafka_clients.errors`

Import the two that steps and bolts raise most, `FailTupleError` and `RetryTupleError`, from `spout_sdk`.
"""

from collections.abc import Sequence

from kafka_clients.errors import (
    AccessError,
    AckerError,
    BrokerError,
    BrokerUnreachableError,
    DeliveryError,
    TopicsError,
)
from kafka_clients.errors import UnsupportedVersionError as UnsupportedVersionError
from kafka_clients.errors import is_refused as is_refused
from spout_sdk.outcome import MessageOutcome
from tuple_tree.errors import describe

__all__ = [
    "AccessError",
    "BrokerError",
    "BrokerUnreachableError",
    "ClientClosedError",
    "ClientError",
    "ComponentError",
    "DeadLetterError",
    "DeliveryError",
    "EmitError",
    "InvalidMessageError",
    "NotDeliveredError",
    "OpenInputsError",
    "OutcomePendingError",
    "ProcessError",
    "SpoutSdkError",
    "StateError",
    "TooManyCallsError",
    "TooManyFailuresError",
    "TopicsError",
    "TopologyError",
    "TupleAlreadyDoneError",
]

SpoutSdkError = AckerError
"""Base of all errors raised by `spout_sdk`."""


class TopologyError(SpoutSdkError):
    """An invalid topology; the message says what to change."""


class EmitError(SpoutSdkError):
    """Values that `component` cannot emit to `stream`; `fields` are those of the stream, empty if it is unknown."""

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
    """Raise it in `execute` to fail the input; its message reaches the spout's `fail`."""


class RetryTupleError(SpoutSdkError):
    """Raise it in `execute` to have the input executed again later, as `collector.retry` does.

    `delay` is in seconds; without it the delay of the bolt's `RetryPolicy` applies.
    """

    delay: float | None = None

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = None if delay is None else float(delay)


class ComponentError(SpoutSdkError):
    """Task `task` of the spout or bolt `component` raised where its process cannot continue."""

    def __init__(self, component: str, task: int, method: str, error: BaseException) -> None:
        super().__init__(f"{component}/{task} stopped: {method}() raised {describe(error)}; the log has the traceback")
        self.component = component
        self.task = task


class NotPreparedError(ComponentError):
    """A spout or bolt could not be made, prepared or opened: something is missing, temporarily or permanently."""


class TooManyFailuresError(ComponentError):
    """`execute` of a bolt raised too often in a row, so the bolt is stopped permanently."""

    def __init__(self, component: str, task: int, failures: int, error: BaseException) -> None:
        SpoutSdkError.__init__(
            self,
            f"{component}/{task} stopped: execute() raised for tuples of {failures} messages in a row, the last time "
            f"{describe(error)}; fix the cause and restart it; inputs that it did not ack are read again",
        )
        self.component = component
        self.task = task


class OpenInputsError(SpoutSdkError):
    """A transaction could not be committed for half of its timeout, because inputs are open.

    Either chained bolts do not end tuples without anchors, or tuples of a bolt with a state that have no identity or
    that it has written a record for; or the set of done inputs between open ones does not fit into the metadata of a
    commit. `offset` is the offset of the first open input in the partition `task` of the inbox of `component`; None if
    there is none.
    """

    def __init__(self, component: str, task: int, offset: int | None, seconds: float, *, fits: bool = True) -> None:
        first = "" if offset is None else f", the first at offset {offset}"
        super().__init__(
            f"{component}/{task} could not commit for more than {seconds:.0f} s, and has inputs open{first}: bolts "
            "that are chained to it hold tuples that would be lost or counted twice if the process died after the "
            "commit, because they were emitted without anchors, or by a bolt with a state for tuples without an "
            "identity or with a written record. Anchor each emit, let these bolts ack soon, or do not chain them"
            if fits
            else f"{component}/{task} has inputs open{first}, and the done inputs between them have not fitted into "
            "the metadata of a commit (offset.metadata.max.bytes) for more than "
            f"{seconds:.0f} s: lower max_spout_pending, or build the topology with "
            'guarantee="at_least_once"'
        )
        self.component = component
        self.task = task
        self.offset = offset


class StateError(SpoutSdkError):
    """A state that cannot be restored or written, or a value or key that does not fit it."""


class RolledBackError(SpoutSdkError):
    """All records since the last commit have to be read again, by new tasks."""


class ClientError(SpoutSdkError):
    """A `Client` cannot start, or a message that it has sent was not acked."""


class DeadLetterError(ClientError):
    """The message, or a tuple of its tree, has become a dead letter; or the message is no longer in its topic.

    Attributes:
        outcome: the outcome of the message, with the reason and the text of its failure.
    """

    def __init__(self, outcome: MessageOutcome) -> None:
        by = f" in {outcome.component}" if outcome.component else ""
        super().__init__(
            f"the message at {outcome.topic}[{outcome.partition}] offset {outcome.offset} has become a dead letter "
            f"after {outcome.attempts} attempt{'s' if outcome.attempts > 1 else ''}, {outcome.reason}{by}: "
            f"{outcome.failure}"
        )
        self.outcome = outcome


class OutcomePendingError(ClientError, TimeoutError):
    """The timeout of a call has passed, and its message has no outcome: it is still being processed.

    Attributes:
        topic, partition, offset: the position of the message; partition and offset are None if it is not known to be
            delivered.
    """

    def __init__(self, topic: str, partition: int | None, offset: int | None, seconds: float) -> None:
        where = f"at {topic}[{partition}] offset {offset} is still being processed"
        if offset is None:
            where = f"for topic {topic} is not known to be delivered"
        super().__init__(
            f"no outcome after {seconds:g} s: the message {where}. Look for its outcome later, and do not send it "
            "again unless the topology can process it twice"
        )
        self.topic, self.partition, self.offset = topic, partition, offset


class TooManyCallsError(ClientError, TimeoutError):
    """The largest number of calls was open, and none ended within the timeout, so nothing was sent."""

    def __init__(self, max_open: int, seconds: float) -> None:
        super().__init__(
            f"as many calls are open as max_open of the Client allows, {max_open}, and none ended within {seconds:g} "
            "s, so the message was not sent: try again later, or raise max_open"
        )


class NotDeliveredError(ClientError):
    """A message was not delivered to `topic`."""

    def __init__(self, topic: str, failure: object) -> None:
        super().__init__(
            f"the message was not delivered to topic {topic}: {failure}. After a timeout it may have been delivered "
            "nevertheless"
        )
        self.topic = topic


class ClientClosedError(ClientError):
    """A client has ended while a call was open; the message may still be processed.

    Attributes:
        topic, partition, offset: the position of the message; None if it is not known to be delivered.
    """

    def __init__(
        self, why: str, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> None:
        at = "" if offset is None else f"; the message at {topic}[{partition}] offset {offset} is still being processed"
        super().__init__(f"{why}{at}")
        self.why, self.topic, self.partition, self.offset = why, topic, partition, offset


class ProcessError(SpoutSdkError):
    """A process of `component` could not be started."""

    def __init__(self, component: str, detail: str) -> None:
        super().__init__(f"{component}: {detail}")
        self.component = component
