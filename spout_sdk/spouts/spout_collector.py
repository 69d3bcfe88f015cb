"""The collector of spouts. It belongs to one task and to the thread that runs it."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import xor
from typing import Any

import numpy as np

from spout_sdk.api.context import TaskId
from spout_sdk.emitting.emitter import Delivery, Emitter
from spout_sdk.emitting.packer import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.records import Headers
from spout_sdk.spouts.pending import Pending
from tuple_tree.anchors import Edges
from tuple_tree.ids import random_column
from tuple_tree.streams import DEFAULT_STREAM


class SpoutCollector(Emitter):
    """The collector of a spout.

    Attributes:
        last_root: of the tuple that was emitted last; None if that is not tracked.
    """

    def __init__(self, task: Task, pending: Pending) -> None:
        super().__init__(task)
        self._pending = pending
        self._entropy = task.environment.entropy
        self.packer.assign_edges = self._assign
        self._roots: list[int] = []
        self._message_ids: list[Any] = []
        self.untracked: list[Any] = []
        self.last_root: int | None = None

    def emit(
        self,
        values: Sequence[Any],
        *,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        root: int | None = None,
        trace_context: Headers | None = None,
    ) -> tuple[TaskId, ...]:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            message_id: what `ack` or `fail` will be called with; None for a tuple that is not tracked.
            stream: one of the component's streams.
            root: of the tree, for a spout whose roots are positional; drawn unless given, or if that tree is open.
            trace_context: the headers of the message's trace, as `tuple_tree.headers.trace_context` returns them;
                bolts pass them on.

        Returns:
            The tasks that receive a copy.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
        """
        if (plan := self.plans.get(stream)) is None:
            plan = self.plan(stream)
        route = plan.only_route
        is_plain = message_id is not None or not self._is_tracked
        if route is None or not is_plain or trace_context or self._hooks:
            row, deliveries = plan.row(values), plan.deliveries(values)
            return self._emit(row, deliveries, values, message_id, stream, root, trace_context or [])
        # The common case, spelled out: a tuple that one task receives, with a tree unless no trees are followed.
        row, task = plan.routed(values)
        pack = route.packs[task]
        if pack.is_special:
            return self._emit(row, [(route, None, (task,))], values, message_id, stream, root, [])
        self._counters.emitted += 1
        self._append(pack, row, self._begin(message_id, root) or 0)
        return route.alone[task]

    def begin(self, roots: Sequence[int]) -> bool:
        """Called by the SDK: whether tracked tuples with these roots may be emitted with `add`, until `settle`."""
        return self._is_tracked and not self._hooks and self._pending.has_none(roots)

    def add(self, values: Sequence[Any], message_id: Any, stream: str, root: int) -> None:
        """Called by the SDK: emits a tracked tuple together with others, whose edges are drawn together."""
        plan = self.plans.get(stream)
        if plan is None or plan.only_route is None:
            self.emit(values, message_id=message_id, stream=stream, root=root)
            return
        row, task = plan.routed(values)
        self._roots.append(root)
        self._message_ids.append(message_id)
        self._append(plan.only_route.packs[task], row, root)

    def _append(self, pack: OpenPack, row: Any, root: int) -> None:
        """Adds a tuple to a pack; its edge is drawn with those of others."""
        if not pack.owners:
            self.packer.open(pack)
        pack.owners.append(root)
        rows = pack.rows
        rows.append(row)
        if len(rows) >= pack.limit:
            self.packer.send(pack)
            self._acks.flush_full()

    def settle(self) -> None:
        """Called by the SDK: begins the trees of the tuples that were added."""
        self.packer.assign_all()
        if self._roots:
            self._counters.emitted += len(self._roots)
            self._pending.put_all(self._roots, self._message_ids, self._clock())
            self.last_root = self._roots[-1]
            self._roots, self._message_ids = [], []

    def _assign(self, pack: OpenPack) -> None:
        """Draws the edges of added tuples; each is the only one of its tree so far, so they are the inits, too."""
        owners, pack.owners = pack.owners, []
        if self._is_tracked:
            roots = np.array(owners, np.uint64)
            edges = random_column(len(roots), self._entropy)
            self._acks.init_columns(roots, edges)
            pack.add_ids(roots, edges)

    def emit_direct(
        self,
        task: TaskId,
        values: Sequence[Any],
        *,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        trace_context: Headers | None = None,
    ) -> tuple[TaskId, ...]:
        """Sends a tuple to one task of a subscriber of a direct stream.

        Args:
            task: one of `context.targets(stream)`, or any `(component, task)`.
            values: as for `emit`.
            message_id: as for `emit`.
            stream: one of the component's direct streams.
            trace_context: as for `emit`.

        Returns:
            The task.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it; nothing was sent then.
        """
        plan = self.plan(stream)
        row, deliveries = plan.row(values), plan.delivery(task)
        return self._emit(row, deliveries, values, message_id, stream, None, trace_context or [])

    def _begin(self, message_id: Any, chosen: int | None) -> int | None:
        """Makes a tree pending and returns its root; None for a tuple that is not tracked."""
        self.last_root = None
        if message_id is None:
            return None
        if not self._is_tracked:
            # Acked after `next_tuple`: the spout may store what it emits only after emitting it.
            self.untracked.append(message_id)
            return None
        root = self._acks.sticky(self._next_id()) if chosen is None else chosen
        now = self._clock()
        while not self._pending.put(root, message_id, now):
            root = self._acks.sticky(self._next_id())
        self.last_root = root
        return root

    def _emit(
        self,
        row: Any,
        deliveries: Sequence[Delivery],
        values: Sequence[Any],
        message_id: Any,
        stream: str,
        root: int | None,
        trace_context: Headers,
    ) -> tuple[TaskId, ...]:
        next_edges: Callable[[], Edges] = dict
        if (tree := self._begin(message_id, root)) is not None:
            edges = [self._next_id() for _, _, tasks in deliveries for _ in tasks]
            self._acks.init(tree, reduce(xor, edges, 0))
            next_edges = ({tree: edge} for edge in edges).__next__
        return self._deliver(
            *(deliveries, row, values, stream, next_edges, trace_context), message_id=message_id, root=tree
        )
