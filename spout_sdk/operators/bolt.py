"""`Bolt`, which acks its inputs itself; its collector, and its operator."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext, TaskId
from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.operator import Operator
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.buffer import MultiAnchor
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.task import Task
from spout_sdk.records import Headers
from tuple_tree.input_batch import InputBatch
from tuple_tree.streams import DEFAULT_STREAM

logger = get_logger("spout_sdk.bolt")


class OutputCollector(Emitter):
    """The collector of a bolt: emits, acks and fails. It belongs to one task, and to the thread that runs it."""

    def __init__(self, task: Task, settlement: Settlement) -> None:
        super().__init__(task)
        self._settlement = settlement
        self._has_warned = False

    def emit(
        self, values: Sequence[Any], *, anchors: Tuple | Sequence[Tuple] | None = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            anchors: the input, or the inputs, whose trees the new tuple joins; `()` for an untracked tuple. Left out,
                the tuple is untracked as well, and a warning is logged once.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
            TupleAlreadyDoneError: if an anchor was acked or failed before; nothing was sent then, and its trees fail
                unless they were acked already.
        """
        if anchors.__class__ is Tuple and anchors.place >= 0 and not anchors.pack.settled[anchors.index]:
            packs = self._emit(values, stream, anchors.pack.batch, anchors.place)
            if self._hooks:
                self._call_hooks(values, stream, packs, (anchors,))
        else:
            self._emit_anchored(values, anchors, stream)

    def emit_direct(
        self,
        task: TaskId,
        values: Sequence[Any],
        *,
        anchors: Tuple | Sequence[Tuple] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> None:
        """Sends a tuple to one task of a subscriber of a direct stream.

        Args:
            task: one of `context.targets(stream)`, or any `(component, task)`.
            values: as for `emit`.
            anchors: as for `emit`.
            stream: one of the component's direct streams.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it; nothing was sent then.
            TupleAlreadyDoneError: as for `emit`.
        """
        self._emit_anchored(values, anchors, stream, task)

    def ack(self, tuple_: Tuple) -> None:
        """Acks a tuple: it was processed. It is done when all records that were written for it are delivered.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        self._settlement.ack(tuple_)

    def ack_all(self, tuples: Iterable[Tuple]) -> None:
        """Acks tuples: they were processed.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; those before it are acked then.
        """
        for tuple_ in tuples:
            self._settlement.ack(tuple_)

    def write(
        self,
        tuple_: Tuple,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, str | bytes | None]] = (),
        partition: int = -1,
    ) -> None:
        """Writes a record to a topic that is not the topology's, and acks the tuple after the call of `execute`.

        The tuple is done when all its records are delivered; if one is not, its trees fail. Write all of them in one
        call of `execute`. With `exactly_once` the records are
        part of the transaction.

        Args:
            tuple_: an input.
            topic: a topic that exists.
            value: of the record.
            key: of the record.
            headers: pairs of name and value.
            partition: -1 for the partition of the key's hash, or any partition if there is no key.

        Raises:
            TupleAlreadyDoneError: if the tuple was acked or failed before; nothing was sent then, and its trees fail
                unless they were acked already.
        """
        self._settlement.writes.write(tuple_, topic, value, key, headers, partition)

    def answer(self, tuple_: Tuple, value: Any) -> None:
        """Answers the message that the tuple comes from, and acks the tuple when the answer is delivered.

        A `Client` that waits for the message gets the last answer of the tree that was acked. A tuple of several trees
        answers the message of each; an untracked tuple answers none.

        Args:
            tuple_: an input.
            value: anything that `json.dumps` takes.

        Raises:
            TopologyError: if the class of the bolt does not have `answers = True`.
            TypeError: if the value is not JSON; nothing was sent then. `ValueError` for NaN and infinity.
            TupleAlreadyDoneError: as for `write`.
        """
        self._settlement.writes.answer(tuple_, value)

    def fail(self, tuple_: Tuple, message: str | BaseException = "") -> None:
        """Fails the trees of a tuple that could not be processed; their spouts get the message.

        Args:
            tuple_: an input.
            message: the reason, as text; of an exception its type and text.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        self._settlement.fail(tuple_, message)

    def retry(self, tuple_: Tuple, message: str | BaseException = "", *, delay: float | None = None) -> None:
        """Has a tuple executed again later, in this task; other tuples are executed meanwhile.

        The tuple stays open, and its trees are kept alive. What was emitted for it stays part of its trees. An ack or a
        fail before the retry withdraws it. After `max_retries` of the bolt's `RetryPolicy` the tuple is failed, or
        becomes a dead letter, as `on_exhausted` of `set_bolt` says.

        Args:
            tuple_: an input.
            message: the reason, as text; of an exception its type and text.
            delay: seconds until then; without it the delay of the bolt's `RetryPolicy`.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        self._settlement.retry(tuple_, message, delay)

    def reset_timeout(self, tuple_: Tuple) -> None:
        """Restarts the clock of the tuple's trees: it is still being worked on. After its ack this does nothing."""
        self._settlement.reset_timeout(tuple_)

    def _emit_anchored(
        self,
        values: Sequence[Any],
        anchors: Tuple | Sequence[Tuple] | None,
        stream: str,
        task: TaskId | None = None,
    ) -> None:
        if anchors is None:
            self._warn_of_no_anchors()
        anchors = (anchors,) if isinstance(anchors, Tuple) else tuple(anchors or ())
        packs = self._emit(values, stream, *places_of(anchors, self._settlement), task)
        if self._hooks:
            self._call_hooks(values, stream, packs, anchors)

    def _warn_of_no_anchors(self) -> None:
        # A forgotten anchor loses tuples silently: a failure downstream is not replayed.
        if self._is_tracked and not self._has_warned:
            self._has_warned = True
            text = (
                "%s/%d emits without anchors: such tuples are not tracked, and not replayed if they fail. Pass "
                "anchors=tuple_ to track them, or anchors=() if that is meant"
            )
            logger.warning(text, self._component, self._task.context.task)


def places_of(anchors: Sequence[Tuple], settlement: Settlement) -> tuple[InputBatch | MultiAnchor, int]:
    """Returns the batch and the place of the anchors; for several places the places joined, and the last of them."""
    found: dict[int, tuple[InputBatch, int]] = {}
    context: Headers = []
    for anchor in anchors:
        if anchor.settled:
            raise settlement.too_late("emit anchored to", anchor)
        batch = anchor.pack.batch
        context = context or batch.trace_context
        for place in anchor.pack.places(anchor.index):
            # A tuple has one edge in all its trees: if several anchors are in one tree, one of them gets it.
            found.setdefault(int(batch.roots[place]), (batch, place))
    if len(anchors) > 1:
        settlement.emitted_for(anchors)
    places = tuple(found.values())
    if not places:
        return settlement.unanchored(context)
    # A tuple with several anchors has no identity, even if they are in one tree: their order may change.
    has_identity = places[0][0].is_identified
    if len(places) == 1 and places[0][0].trace_context == context and not (has_identity and len(anchors) > 1):
        return places[0]
    return MultiAnchor(places, context), places[-1][1]


class BoltOperator(Operator):
    """Calls a `Bolt` with each tuple."""

    def prepare(self) -> None:
        self._bolt.prepare(self._task.context, OutputCollector(self._task, self._settlement))

    def process(self, inputs: Any) -> None:
        failures, settlement, execute = self.failures, self._settlement, self._bolt.execute
        for tuple_ in inputs:
            settlement.executing = (tuple_,)
            try:
                execute(tuple_)
            except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
                failures.handle((tuple_,), error)
                if failures.is_paused:
                    self._defer_after(tuple_, inputs)
                    break
            else:
                failures.in_a_row = 0
        settlement.executing = ()


class Bolt(AnyBolt, ABC):
    """A bolt that acks its inputs itself.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        tick_interval: seconds between tick tuples, which `execute` receives like others; None for no tick tuples. The
            instance may set it, and `set_bolt` override it.
        answers: whether it calls `collector.answer`; the topology then has a topic for answers.
    """

    needs = Needs("a Bolt", called_by=BoltOperator, ticks=True, answers=True, anchors_several=True)
    tick_interval: float | None = None
    answers: ClassVar[bool] = False

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        """Called once, before anything else; keep the collector."""

    @abstractmethod
    def execute(self, tuple_: Tuple) -> None:
        """Process a tuple, and ack or fail it, now or later.

        If it raises, the tuple fails with the exception's type and text, unless it was acked or failed before, or
        `set_bolt` gave another `on_exception`.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process; tuples may still be acked here."""
