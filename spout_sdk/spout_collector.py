"""The collector of spouts: what they emit through.

It belongs to one task and to the thread that runs it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from spout_sdk.ack_buffer import AckBuffer
from spout_sdk.context import TaskContext
from spout_sdk.emit_plans import Delivery, EmitPlan, TaskId
from spout_sdk.emitter import Emitter, NextId
from spout_sdk.hooks import EmitInfo
from spout_sdk.pending import Pending
from spout_sdk.records import TaskEnvironment
from tuple_tree.anchors import ANCHORS_HEADER, pack_anchors
from tuple_tree.streams import DEFAULT_STREAM


class SpoutCollector(Emitter):
    """What a spout emits through."""

    def __init__(
        self,
        context: TaskContext,
        plans: dict[str, EmitPlan],
        environment: TaskEnvironment,
        next_id: NextId,
        acks: AckBuffer | None,
        pending: Pending,
    ) -> None:
        super().__init__(context, plans, environment, next_id, acks)
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
    ) -> tuple[TaskId, ...]:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            message_id: what `ack` or `fail` will be called with; None for a tuple that is not tracked.
            stream: one of the component's streams.
            root: of the tree, for a spout whose roots are positional; drawn unless given. It must not be open.

        Returns:
            The tasks that receive a copy.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
        """
        plan = self._plan(stream)
        payload = plan.payload(values)
        return self._emit(plan, plan.deliveries(values), payload, values, message_id, stream, root)

    def emit_direct(
        self, task: TaskId, values: Sequence[Any], message_id: Any = None, stream: str = DEFAULT_STREAM
    ) -> tuple[TaskId, ...]:
        """Sends a tuple to one task of a subscriber of a direct stream.

        Args:
            task: one of `context.targets(stream)`, or any `(component, task)`.
            values: as for `emit`.
            message_id: as for `emit`.
            stream: one of the component's direct streams.

        Returns:
            The task.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it; nothing was sent then.
        """
        plan = self._plan(stream)
        payload = plan.payload(values)
        return self._emit(plan, plan.delivery(task), payload, values, message_id, stream)

    def _emit(
        self,
        plan: EmitPlan,
        deliveries: list[Delivery],
        payload: bytes,
        values: Sequence[Any],
        message_id: Any,
        stream: str,
        root: int | None = None,
    ) -> tuple[TaskId, ...]:
        self._counters.emitted += 1
        send = self._send
        acks = self._acks
        sent = []
        if message_id is None or acks is None:
            for route, (key, tasks) in deliveries:
                for task in tasks:
                    send(route.topic, task, key, payload, plan.untracked)
                    sent.append(route.ids[task])
            if message_id is not None:
                # Not acked from here: the spout may not have written down yet what it has just emitted.
                self.untracked.append(message_id)
        else:
            next_id = self._next_id
            pending = self._pending
            if root is None:
                root = next_id()
                while root in pending:
                    root = next_id()
            pending.put(root, message_id, self._clock())
            val = 0
            for route, (key, tasks) in deliveries:
                for task in tasks:
                    edge = next_id()
                    val ^= edge
                    packed = pack_anchors({root: edge})
                    send(
                        route.topic,
                        task,
                        key,
                        payload,
                        [(ANCHORS_HEADER, packed), plan.source],
                        partial(self._undelivered, packed),
                    )
                    sent.append(route.ids[task])
            acks.init(root, val)
        self._counters.transferred += len(sent)
        targets = tuple(sent)
        for hook in self._hooks:
            hook.emit(EmitInfo(values, stream, targets, message_id))
        return targets
