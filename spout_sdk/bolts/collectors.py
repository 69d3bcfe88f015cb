"""The collector of bolts. It belongs to one task and to the thread that runs it."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.context import TaskId
from spout_sdk.api.tuples import NO_OFFSET, InputPack, Tuple
from spout_sdk.bolts.held_failures import HeldFailures
from spout_sdk.bolts.pending_writes import PendingWrites, Report
from spout_sdk.emitting.emitter import Delivery, Emitter
from spout_sdk.emitting.task import Task
from spout_sdk.errors import DeliveryError, TupleAlreadyDoneError, is_refused
from spout_sdk.records import Headers
from tuple_tree.anchors import ack_vals, new_child
from tuple_tree.errors import WireError
from tuple_tree.messages import FailReason
from tuple_tree.streams import DEFAULT_STREAM

logger = get_logger("spout_sdk.bolt")

_TIMED: Final = 1_000  # tuples that are timed at once, at most: some may be forgotten


class OutputCollector(Emitter):
    """The collector of a bolt: emits, acks and fails."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._done = task.acks.cover
        self._add_to_ack = task.acks.add_to_ack
        self._timed: dict[Tuple, float] = {}
        self._has_warned = False
        self._writes = PendingWrites(self._ack_written, self._not_written)
        self._unwritten = self._writes.undelivered
        self.held = HeldFailures(task.acks.inputs)
        self._written = 0

    @property
    def sent(self) -> int:
        """Called by the SDK: how many tuples were emitted, and records written."""
        return self.packer.emitted + self._written

    def emit(
        self, values: Sequence[Any], *, anchors: Tuple | Sequence[Tuple] | None = None, stream: str = DEFAULT_STREAM
    ) -> tuple[TaskId, ...]:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            anchors: the input, or the inputs, whose trees the new tuple joins; `()` for an untracked tuple. Left out,
                the tuple is untracked as well, and a warning is logged once.
            stream: one of the component's streams.

        Returns:
            The tasks that receive a copy.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
            TupleAlreadyDoneError: if an anchor was acked or failed before; nothing was sent then, and its trees fail
                unless they were acked already.
        """
        if (plan := self.plans.get(stream)) is None:
            plan = self.plan(stream)
        route = plan.only_route
        if (
            route is None
            or anchors.__class__ is not Tuple
            or (anchors.root is None and self._is_tracked)
            or self._hooks
        ):
            return self._emit(plan.row(values), plan.deliveries(values), values, anchors, stream)
        # The common case, spelled out: one anchor in one tree (none where no trees are followed), one receiving task,
        # no trace: a `TracedTuple` is of another class.
        row = values if values.__class__ is tuple and plan.is_row(values) else plan.row(values)
        try:
            task = route.choose_one(values)  # type: ignore[misc]  # an only route has it
        except (TypeError, ValueError) as error:
            raise plan.ungrouped(values, error) from error
        pack, root = route.packs[task], anchors.root
        if pack.is_special:
            return self._emit(row, [(route, None, (task,))], values, anchors, stream)
        if anchors.settled:
            raise self.late_emit(anchors)
        self._counters.emitted += 1
        # As `Packer.add`.
        if root is not None:
            edge = self._next_id()
            anchors.out ^= edge
            pack.ids.append(root)
            pack.ids.append(edge)
        rows = pack.rows
        rows.append(row)
        size = len(rows)
        if size == 1 or size >= pack.limit:
            self._added(pack)
        return route.alone[task]

    def emit_direct(
        self,
        task: TaskId,
        values: Sequence[Any],
        *,
        anchors: Tuple | Sequence[Tuple] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> tuple[TaskId, ...]:
        """Sends a tuple to one task of a subscriber of a direct stream.

        Args:
            task: one of `context.targets(stream)`, or any `(component, task)`.
            values: as for `emit`.
            anchors: as for `emit`.
            stream: one of the component's direct streams.

        Returns:
            The task.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it; nothing was sent then.
            TupleAlreadyDoneError: as for `emit`.
        """
        plan = self.plan(stream)
        return self._emit(plan.row(values), plan.delivery(task), values, anchors, stream)

    def _emit(
        self,
        row: Any,
        deliveries: Sequence[Delivery],
        values: Sequence[Any],
        anchors: Tuple | Sequence[Tuple] | None,
        stream: str,
    ) -> tuple[TaskId, ...]:
        if anchors is None:
            anchors = ()
            # A forgotten anchor loses tuples silently: a failure downstream is not replayed.
            if self._is_tracked and not self._has_warned:
                self._has_warned = True
                text = (
                    "%s/%d emits without anchors: such tuples are not tracked, and not replayed if they fail. Pass "
                    "anchors=tuple_ to track them, or anchors=() if that is meant"
                )
                logger.warning(text, self._component, self._context.task)
        elif isinstance(anchors, Tuple):
            anchors = (anchors,)
        elif anchors.__class__ is not tuple and anchors.__class__ is not list:
            # They are iterated once for each recipient: a generator would be empty for the second.
            anchors = tuple(anchors)
        trace_context: Headers = []
        for anchor in anchors:
            if anchor.settled:
                raise self.late_emit(anchor)
            trace_context = trace_context or anchor.pack.trace_context
        next_edges = partial(new_child, anchors, self._next_id)
        return self._deliver(deliveries, row, values, stream, next_edges, trace_context, anchors=anchors)

    def late_emit(self, anchor: Tuple) -> TupleAlreadyDoneError:
        """Called by the SDK: the error of an emit after the ack. The tree fails, because the child is missing in it."""
        return self._too_late("emit anchored to", anchor)

    def _too_late(self, action: str, tuple_: Tuple) -> TupleAlreadyDoneError:
        error = tuple_.pack.already_done(action)
        if not tuple_.settled:
            # Its ack waits for records, and would come after the fail, maybe in the same batch.
            self._writes.forget(tuple_)
            self.fail(tuple_, f"{self._component}: {error}")
            return error
        for root, edge in tuple_.edges.items():
            self._acks.fail_acked(root, edge ^ tuple_.out, f"{self._component}: {error}")
        return error

    def ack(self, tuple_: Tuple) -> None:
        """Acks a tuple: it was processed. The ack waits until all records that were written for it are delivered.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if tuple_.settled:
            raise tuple_.pack.already_done("ack")
        if self._unwritten and self._ack_waits(tuple_):
            return
        root, pack = tuple_.root, tuple_.pack
        if root is not None:
            self._add_to_ack(root)
            self._add_to_ack(tuple_.edge ^ tuple_.out)
        elif pack.offset == NO_OFFSET:
            return
        elif tuple_.many is not None:
            for each, val in ack_vals(tuple_):
                self._add_to_ack(each)
                self._add_to_ack(val)
        tuple_.settled = True
        pack.left -= 1
        if not pack.left:
            self._done(pack)
        self._counters.acked += 1
        if self._timed and tuple_ in self._timed:
            self._counters.process_latency.record(self._clock() - self._timed.pop(tuple_))
        if self._hooks:
            self.run_hooks(lambda hook: hook.bolt_ack(tuple_))

    def _ack_waits(self, tuple_: Tuple) -> bool:
        """Whether the ack waits for records that are not delivered; raises if it did so before."""
        writes = self._writes
        if tuple_ in writes.acked:
            raise tuple_.pack.already_done("ack")
        if tuple_ not in writes.undelivered:
            return False
        writes.acked.add(tuple_)
        return True

    def settled(self, pack: InputPack, tuples: int) -> None:
        """Called by the SDK: counts `tuples` tuples of a record as acked; their entries are buffered."""
        self._counters.acked += tuples
        self._close(pack, tuples)

    def ack_emits(self, tuple_: Tuple) -> None:
        """Called by the SDK: acks the edges of a tuple's children ahead of the tuple.

        They are part of this transaction, and a later owner that reads the tuple again does not know them.
        """
        for root in tuple_.edges:
            self._add_to_ack(root)
            self._add_to_ack(tuple_.out)
        tuple_.out = 0

    def skip_settled(self, tuple_: Tuple) -> None:
        """Called by the SDK: settles a tuple that is read again, whose ack or fail was committed before."""
        tuple_.settled = True
        self._close(tuple_.pack)

    def _close(self, pack: InputPack, tuples: int = 1) -> None:
        pack.left -= tuples
        if not pack.left:
            self._done(pack)

    def start_timing(self, tuple_: Tuple, began: float) -> None:
        """Called by the SDK: measures how long it takes until a tuple is acked."""
        if len(self._timed) < _TIMED:
            self._timed[tuple_] = began

    def ack_all(self, tuples: Iterable[Tuple]) -> None:
        """Acks tuples: they were processed.

        Raises:
            TupleAlreadyDoneError: if one was acked or failed before; those before it are acked then.
        """
        for tuple_ in tuples:
            self.ack(tuple_)

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
        """Writes a record to a topic that is not the topology's, and acks the tuple when that is delivered.

        A tuple for which several records are written is acked when all are delivered; if one is not, its trees fail.
        Write all of them in one call of `execute`: the tuple may be acked after it. With `exactly_once` the records are
        part of the transaction.

        Args:
            tuple_: an input.
            topic: which exists.
            value: of the record.
            key: of the record.
            headers: pairs of name and value.
            partition: -1 for that of the key's hash, or any if there is none.

        Raises:
            TupleAlreadyDoneError: if the tuple was acked or failed before; nothing was sent then, and its trees fail
                unless they were acked already.
        """
        if self.is_done(tuple_):
            raise self._too_late("write a record for", tuple_)
        writes, tracked = self._writes, self._is_tracked
        send = self._sink.send_reported if tracked else self._sink.send
        writes.expect(tuple_)
        self._written += 1
        try:
            send(topic, partition, key, value, list(headers), partial(writes.report, tuple_, topic))
        except BaseException:
            writes.withdraw(tuple_)
            raise
        if not tracked:
            # The input was committed before: what is not delivered is lost, and must not be sent twice.
            writes.report(tuple_, topic)

    def await_delivery(self, tuple_: Tuple) -> Callable[[], None]:
        """Called by the SDK: a tuple is acked when something more is delivered for it; the result is called then."""
        self._writes.expect(tuple_)
        return partial(self._writes.report, tuple_, "")

    def is_done(self, tuple_: Tuple) -> bool:
        """Called by the SDK: whether it was acked or failed, though the ack may wait for records to be delivered."""
        return tuple_.settled or tuple_ in self._writes.acked

    def settle_due(self) -> None:
        """Called by the SDK between two calls of the bolt: settles tuples by the delivery reports so far, and failures.

        The latter as far as they need not wait for older inputs.
        """
        self._writes.handle()
        while self.held.settle_due():
            self._writes.handle()

    def _ack_written(self, tuple_: Tuple) -> None:
        if not tuple_.settled:
            self.ack(tuple_)

    def _not_written(self, report: Report, is_pending: bool) -> None:
        tuple_, topic, error, message = report
        self._counters.undelivered += 1
        failure = f"a record for topic {topic} was not delivered: {error}"
        what = (self._component, self._context.task, failure)
        logger.error("%s/%d: %s", *what)
        if is_pending and not tuple_.settled:
            self.fail(tuple_, failure)
        if self._is_tracked and message is not None and is_refused(error):
            # Each replay would end like this one.
            self._acks.failure = DeliveryError("a record", message.topic(), message.partition(), error)

    def fail(self, tuple_: Tuple, message: str | BaseException = "") -> None:
        """Fails the trees of a tuple that could not be processed; their spouts get the message.

        Args:
            tuple_: an input.
            message: why, for people; of an exception its type and its text.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if tuple_.offset == NO_OFFSET:
            return
        message = f"{type(message).__name__}: {message}" if isinstance(message, BaseException) else str(message)
        if self.is_done(tuple_):
            raise tuple_.pack.already_done("fail")
        tuple_.settled = True
        self._writes.forget(tuple_)
        self._timed.pop(tuple_, None)
        self.held.add(tuple_, partial(self._fail, tuple_, message))

    def _fail(self, tuple_: Tuple, message: str) -> None:
        self._counters.count_failed(FailReason.FAILED)
        for root in tuple_.edges:
            self._acks.fail(root, message)
        self._close(tuple_.pack)
        self.run_hooks(lambda hook: hook.bolt_fail(tuple_, message))

    def reject(self, tuple_: Tuple, error: WireError) -> None:
        """Called by the SDK: makes a dead letter of a tuple that cannot be read, and fails its trees."""
        self.held.add(tuple_, partial(self.dead_letters.reject, tuple_, error))

    def send_dead_letter(self, tuple_: Tuple, error: WireError) -> None:
        """Called by the SDK: makes a dead letter of a tuple, acked when all that is sent for it is delivered."""
        delivered = self.await_delivery(tuple_)
        self.held.add(tuple_, partial(self.dead_letters.send_tuple, tuple_, error, delivered))

    def reset_timeout(self, tuple_: Tuple) -> None:
        """Restarts the clock of the tuple's trees: it is still being worked on. After its ack this does nothing."""
        if not tuple_.settled:
            for root in tuple_.edges:
                self._acks.reset(root)
