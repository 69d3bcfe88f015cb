"""Collectors: what spouts and bolts emit, ack and fail through.

A collector belongs to one task and to the thread that runs it.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from spout_sdk.ack_buffer import AckBuffer
from spout_sdk.emit_plans import EmitPlan, unknown_stream
from spout_sdk.errors import DeliveryError, is_refused
from spout_sdk.groupings import Choice
from spout_sdk.input_offsets import InputOffsets
from spout_sdk.pending import Pending
from spout_sdk.records import TaskEnvironment
from spout_sdk.tuples import Tuple
from tuple_tree.anchors import ANCHORS_HEADER, new_child, pack_anchors, unpack_anchors
from tuple_tree.messages import FailReason
from tuple_tree.streams import DEFAULT_STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("spout_sdk.collectors")

NextId = Callable[[], int]


class _Emitter:
    """What emitting has in common for spouts and bolts."""

    def __init__(
        self,
        component: str,
        plans: dict[str, EmitPlan],
        environment: TaskEnvironment,
        next_id: NextId,
        acks: AckBuffer | None,
    ) -> None:
        self._component = component
        self._plans = plans
        self._counters = environment.counters
        self._send = environment.sink.send
        self._next_id = next_id
        self._acks = acks

    def _plan(self, stream: str) -> EmitPlan:
        plan = self._plans.get(stream)
        if plan is None:
            raise unknown_stream(self._component, stream, self._plans)
        return plan

    def _deliveries(self, plan: EmitPlan, values: Sequence[Any]) -> "Iterable[tuple[str, Choice]]":
        """Every recipient is picked before anything is sent, so that an emit that raises has emitted nothing."""
        try:
            return [(topic, choose(values)) for topic, choose in plan.routes]
        except TypeError as error:
            raise plan.error(str(error)) from error

    def _undelivered(self, anchors: bytes, error: Any, message: Any) -> None:
        """Kafka did not take a tracked tuple: its trees cannot complete, so they fail now and not by time-out."""
        self._counters.undelivered += 1
        if self._acks is not None:
            for root in unpack_anchors(anchors):
                self._acks.fail(root, f"a tuple of {self._component} was not delivered: {error}")
            if is_refused(error) and message is not None:
                # Each replay would end like this one.
                what = f"a tuple of {self._component}"
                self._acks.give_up(DeliveryError(what, message.topic(), message.partition(), error))


class OutputCollector(_Emitter):
    """What a bolt emits, acks and fails through."""

    def __init__(
        self,
        component: str,
        plans: dict[str, EmitPlan],
        environment: TaskEnvironment,
        next_id: NextId,
        acks: AckBuffer | None,
        inputs: InputOffsets,
    ) -> None:
        super().__init__(component, plans, environment, next_id, acks)
        self._inputs = inputs

    def emit(self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] = (), stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            anchors: the input, or the inputs, whose trees the new tuple joins; none for an untracked tuple.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown, or the values do not fit it; nothing was sent then.
            TupleAlreadyDoneError: if an anchor was acked or failed before; nothing was sent then.
        """
        plan = self._plan(stream)
        payload = plan.payload(values)
        if anchors.__class__ is Tuple:
            anchors = (anchors,)
        for anchor in anchors:
            if anchor.settled:
                raise anchor.already_done("emit anchored to")
        counters = self._counters
        counters.emitted += 1
        send = self._send
        next_id = self._next_id
        for topic, (key, tasks) in self._deliveries(plan, values):
            counters.transferred += len(tasks)
            for task in tasks:
                edges = new_child(anchors, next_id)
                if edges:
                    packed = pack_anchors(edges)
                    send(
                        topic,
                        task,
                        key,
                        payload,
                        [(ANCHORS_HEADER, packed), plan.source],
                        partial(self._undelivered, packed),
                    )
                else:
                    send(topic, task, key, payload, plan.untracked)

    def ack(self, tuple_: Tuple) -> None:
        """Says that a tuple was processed.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        if tuple_.settled:
            raise tuple_.already_done("ack")
        tuple_.settled = True
        self._counters.acked += 1
        edges = tuple_.edges
        acks = self._acks
        if not edges or acks is None:
            self._inputs.settle(tuple_.offset)
            return
        if len(edges) > 1:
            self._inputs.split(tuple_.offset, len(edges))
        out = tuple_.out
        for root, edge in edges.items():
            acks.ack(root, edge ^ out, tuple_.offset)

    def fail(self, tuple_: Tuple, message: str = "") -> None:
        """Says that a tuple could not be processed: its trees fail, and their spouts hear the message.

        Raises:
            TupleAlreadyDoneError: if it was acked or failed before.
        """
        tuple_.settle("fail")
        self._counters.count_failed(FailReason.FAILED)
        edges = tuple_.edges
        acks = self._acks
        if not edges or acks is None:
            self._inputs.settle(tuple_.offset)
            return
        if len(edges) > 1:
            self._inputs.split(tuple_.offset, len(edges))
        for root in edges:
            acks.fail(root, message, tuple_.offset)

    def reset_timeout(self, tuple_: Tuple) -> None:
        """Restarts the clock of the tuple's trees: it is still being worked on. After its ack this does nothing."""
        if self._acks is not None and not tuple_.settled:
            for root in tuple_.edges:
                self._acks.reset(root)


class BasicCollector:
    """What a `BasicBolt` emits through: everything is anchored to the input."""

    __slots__ = ("_collector", "input")

    def __init__(self, collector: OutputCollector) -> None:
        self._collector = collector
        self.input: Tuple | None = None

    def emit(self, values: Sequence[Any], stream: str = DEFAULT_STREAM) -> None:
        """Sends a tuple, anchored to the input, to every subscriber of a stream.

        Raises:
            EmitError: if the stream is unknown, or the values do not fit it.
        """
        self._collector.emit(values, () if self.input is None else self.input, stream)

    def reset_timeout(self) -> None:
        """Restarts the clock of the input's trees: it is still being worked on."""
        if self.input is not None:
            self._collector.reset_timeout(self.input)


class SpoutCollector(_Emitter):
    """What a spout emits through."""

    def __init__(
        self,
        component: str,
        plans: dict[str, EmitPlan],
        environment: TaskEnvironment,
        next_id: NextId,
        acks: AckBuffer | None,
        pending: Pending,
    ) -> None:
        super().__init__(component, plans, environment, next_id, acks)
        self._pending = pending
        self._clock = environment.clock
        self.untracked: list[Any] = []

    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        *,
        root: int | None = None,
    ) -> None:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            message_id: what `ack` or `fail` will be called with; None for a tuple that is not tracked.
            stream: one of the component's streams.
            root: of the tree, for a spout whose roots are positional; drawn unless given. It must not be open.

        Raises:
            EmitError: if the stream is unknown, or the values do not fit it; nothing was sent then.
        """
        plan = self._plan(stream)
        payload = plan.payload(values)
        deliveries = self._deliveries(plan, values)
        counters = self._counters
        counters.emitted += 1
        send = self._send
        acks = self._acks
        if message_id is None or acks is None:
            for topic, (key, tasks) in deliveries:
                counters.transferred += len(tasks)
                for task in tasks:
                    send(topic, task, key, payload, plan.untracked)
            if message_id is not None:
                # Not acked from here: the spout may not have written down yet what it has just emitted.
                self.untracked.append(message_id)
            return
        next_id = self._next_id
        pending = self._pending
        if root is None:
            root = next_id()
            while root in pending:
                root = next_id()
        pending.put(root, message_id, self._clock())
        val = 0
        for topic, (key, tasks) in deliveries:
            counters.transferred += len(tasks)
            for task in tasks:
                edge = next_id()
                val ^= edge
                packed = pack_anchors({root: edge})
                send(
                    topic,
                    task,
                    key,
                    payload,
                    [(ANCHORS_HEADER, packed), plan.source],
                    partial(self._undelivered, packed),
                )
        acks.init(root, val)
