"""Base classes of spouts and bolts.

Each task has its own instance and its own thread; do not use a collector from another thread. Use `AsyncBolt` for work
that waits for other services.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from spout_sdk.api.needs import Needs
from tuple_tree.messages import Failure
from tuple_tree.streams import Stream

if TYPE_CHECKING:
    from spout_sdk.api.context import TaskContext
    from spout_sdk.api.tuples import Tuple
    from spout_sdk.bolts.arrow_collector import ArrowCollector
    from spout_sdk.bolts.basic_collector import BasicCollector
    from spout_sdk.bolts.collectors import OutputCollector
    from spout_sdk.spouts.spout_collector import SpoutCollector


class AnySpout:
    """Base of all kinds of spouts."""

    needs: ClassVar[Needs] = Needs("a Spout")
    streams: Sequence[Stream] = ()


class Spout(AnySpout, ABC):
    """A source of tuples.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
    """

    def open(self, context: "TaskContext", collector: "SpoutCollector") -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def next_tuple(self) -> None:
        """Emit the next tuples; return without emitting if there are none.

        It is called repeatedly, but not while `max_spout_pending` trees of the task are open. It must not block: `ack`
        and `fail` are called between its calls.
        """

    def ack(self, message_id: Any) -> None:
        """Called when the tree of this message was fully processed."""

    def fail(self, message_id: Any, failure: Failure) -> None:
        """Called when the tree of this message failed; emit the message again to replay it, which starts a new tree.

        It is not called for trees that are open when the process ends: a spout that must not lose messages reads them
        again from its source.
        """

    def close(self) -> None:
        """Called at a clean stop and when the task moves to another process."""


class AnyBolt:
    """Base of all kinds of bolts."""

    needs: ClassVar[Needs] = Needs()
    streams: ClassVar[Sequence[Stream]] = ()


class Bolt(AnyBolt, ABC):
    """A bolt that acks its inputs itself.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        tick_interval: seconds between tick tuples, which `execute` receives like others; None for no tick tuples. The
            instance may set it, and `set_bolt` override it.
        answers: whether it calls `collector.answer`; the topology then has a topic for answers.
    """

    needs = Needs("a Bolt", ticks=True, answers=True, anchors_several=True)
    tick_interval: float | None = None
    answers: ClassVar[bool] = False

    def prepare(self, context: "TaskContext", collector: "OutputCollector") -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def execute(self, tuple_: "Tuple") -> None:
        """Process a tuple, and ack or fail it, now or later.

        If it raises, the tuple fails with the exception's type and text, unless it was acked or failed before, or
        `set_bolt` gave another `on_exception`.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; tuples may still be acked here."""


class BatchBolt(AnyBolt, ABC):
    """A bolt that processes tuples in batches, and acks them itself.

    Anchor an emit to one of the tuples or to several, `collector.emit(values, anchors=tuples)`. Ack each, or all with
    `collector.ack_all(tuples)`.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        answers: as in `Bolt`.
    """

    needs = Needs("a BatchBolt", answers=True, anchors_several=True)
    answers: ClassVar[bool] = False

    def prepare(self, context: "TaskContext", collector: "OutputCollector") -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def execute_batch(self, tuples: "Sequence[Tuple]") -> None:
        """Process tuples, in the order of their offsets, and ack or fail each, now or later.

        If it raises, the tuples that are still open fail with the exception's type and text.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; tuples may still be acked here."""


class ArrowBolt(AnyBolt, ABC):
    """A bolt that processes Arrow record batches, one row for each tuple.

    The streams that it receives and emits to have the codec `arrow`, the default of `declare`.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
    """

    needs = Needs("an ArrowBolt", columns=True)

    def prepare(self, context: "TaskContext") -> None:
        """Called once, before anything else."""

    @abstractmethod
    def execute_batch(self, batch: Any, collector: "ArrowCollector") -> None:
        """Process rows of one record, and ack or fail each, now or later.

        If it raises, the rows that are still open fail with the exception's type and text.

        Args:
            batch: a `pyarrow.RecordBatch` with a column for each field of the stream; all rows are of one stream. If
                Arrow has no type for a field's Avro type, its column holds bytes: the Avro body of each value.
            collector: for these rows: `collector.emit(table)`, `collector.ack()`. Keep it to ack them later.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; rows may still be acked here."""


class BasicBolt(AnyBolt, ABC):
    """A bolt whose emits are anchored to its input, which is acked when `execute` returns.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        tick_interval: as in `Bolt`.
        answers: as in `Bolt`.
    """

    needs = Needs("a BasicBolt", ticks=True, answers=True)
    tick_interval: float | None = None
    answers: ClassVar[bool] = False

    def prepare(self, context: "TaskContext") -> None:
        """Called once, before anything else."""

    @abstractmethod
    def execute(self, tuple_: "Tuple", collector: "BasicCollector") -> None:
        """Process a tuple. If it raises, the tuple fails with the exception's type and text."""

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process."""
