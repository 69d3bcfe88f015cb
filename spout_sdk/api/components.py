"""Base classes of spouts and bolts.

One instance serves one task, in one thread; collectors must not be used from other threads. For work that waits for
others there is `AsyncBolt`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tuple_tree.messages import FailReason
from tuple_tree.streams import Stream

if TYPE_CHECKING:
    from spout_sdk.api.context import TaskContext
    from spout_sdk.api.tuples import Tuple
    from spout_sdk.bolts.arrow_collector import ArrowCollector
    from spout_sdk.bolts.basic_collector import BasicCollector
    from spout_sdk.bolts.collectors import OutputCollector
    from spout_sdk.spouts.spout_collector import SpoutCollector


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a tuple tree failed.

    Attributes:
        reason: failed by a bolt, timed out, too old, or lost.
        message: that of the bolt; empty for the other reasons.
        component: the bolt that failed it, or the spout whose `translate` raised; empty for the other reasons.
    """

    reason: FailReason
    message: str = ""
    component: str = ""


class AnySpout:
    """Base of all kinds of spouts."""

    streams: Sequence[Stream] = ()


class Spout(AnySpout, ABC):
    """Where tuples enter a topology.

    Attributes:
        streams: what it emits, made with `declare`.
    """

    def open(self, context: "TaskContext", collector: "SpoutCollector") -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def next_tuple(self) -> None:
        """Emit what there is to emit, soon; return without emitting if there is nothing.

        It is called again and again, never while `max_spout_pending` trees of the task are open. It must not block:
        outcomes are delivered between its calls.
        """

    def ack(self, message_id: Any) -> None:
        """The tree of this message was fully processed."""

    def fail(self, message_id: Any, reason: Failure) -> None:
        """The tree of this message was not fully processed; emit it again if it matters.

        Emitting again starts a new tree. What is still open when the process ends gets no outcome: a spout whose
        messages must survive that reads them again from its source.
        """

    def close(self) -> None:
        """Called at a clean stop and when the task moves to another process."""


class AnyBolt:
    """Base of all kinds of bolts."""

    streams: ClassVar[Sequence[Stream]] = ()


class Bolt(AnyBolt, ABC):
    """A step of a topology that acks its inputs itself.

    Attributes:
        streams: what it emits, made with `declare`.
        tick_interval: seconds between tick tuples, with which `execute` is called, too; None for none. May be set by
            the instance, and overridden in `set_bolt`.
        answers: whether it calls `collector.answer`; then the topology has a topic of answers.
    """

    tick_interval: float | None = None
    answers: ClassVar[bool] = False

    def prepare(self, context: "TaskContext", collector: "OutputCollector") -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def execute(self, tuple_: "Tuple") -> None:
        """Process a tuple, and ack or fail it, now or later.

        If it raises, the tuple is failed with the exception's type and text, unless it was acked or failed already, or
        the bolt was set with another `on_exception`.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; tuples may still be acked here."""


class BatchBolt(AnyBolt, ABC):
    """A step of a topology that is called once for all tuples that were read together, and acks them itself.

    Anchor an emit to one of them, or to all: `collector.emit(values, anchors=tuples)`; ack each, or all with
    `collector.ack_all(tuples)`.

    Attributes:
        streams: what it emits, made with `declare`.
        answers: as in `Bolt`.
    """

    answers: ClassVar[bool] = False

    def prepare(self, context: "TaskContext", collector: "OutputCollector") -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def execute_batch(self, tuples: "Sequence[Tuple]") -> None:
        """Process tuples, in the order of their offsets, and ack or fail each, now or later.

        If it raises, all that are neither acked nor failed yet are failed with the exception's type and text.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; tuples may still be acked here."""


class ArrowBolt(AnyBolt, ABC):
    """A step of a topology that works on columns: called with record batches of Arrow, a row a tuple.

    Streams that it receives and emits have the codec `arrow`, which is the default of `declare`.

    Attributes:
        streams: what it emits, made with `declare`.
    """

    def prepare(self, context: "TaskContext") -> None:
        """Called once, before anything else."""

    @abstractmethod
    def execute_batch(self, batch: Any, collector: "ArrowCollector") -> None:
        """Process rows that travelled together, and ack or fail each, now or later.

        If it raises, all that are neither acked nor failed yet are failed with the exception's type and text.

        Args:
            batch: a `pyarrow.RecordBatch` with a column for each field of the stream; all rows are of one stream. A
                field whose Avro type Arrow does not have is a column of bytes, each the value's Avro body.
            collector: for these rows: `collector.emit(table)`, `collector.ack()`. It may be kept, to ack later.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; rows may still be acked here."""


class BasicBolt(AnyBolt, ABC):
    """A step of a topology whose emits are anchored to its input, which is acked when `execute` returns.

    Attributes:
        streams: what it emits, made with `declare`.
        tick_interval: as in `Bolt`.
        answers: as in `Bolt`.
    """

    tick_interval: float | None = None
    answers: ClassVar[bool] = False

    def prepare(self, context: "TaskContext") -> None:
        """Called once, before anything else."""

    @abstractmethod
    def execute(self, tuple_: "Tuple", collector: "BasicCollector") -> None:
        """Process a tuple. If it raises, the tuple is failed with the exception's type and text."""

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process."""
