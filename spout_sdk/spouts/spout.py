"""`Spout`, a source of tuples; its collector."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from spout_sdk.api.components import AnySpout
from spout_sdk.api.context import TaskContext, TaskId
from spout_sdk.api.needs import Needs
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.task import Task
from spout_sdk.errors import EmitError
from spout_sdk.records import Headers
from spout_sdk.spouts.pending import Pending
from spout_sdk.spouts.source import SpoutSource
from spout_sdk.spouts.tree_batches import TreeBatches
from tuple_tree.identities import NO_POSITION
from tuple_tree.input_batch import MOST_PLACES
from tuple_tree.messages import Failure
from tuple_tree.streams import DEFAULT_STREAM


class SpoutCollector(Emitter):
    """The collector of a spout. It belongs to one task, and to the thread that runs it.

    Attributes:
        last_root: the root of the tuple that was emitted last; None if that is not tracked.
        first_position: the first position of identities, for a spout whose message ids are numbers to add to it; None
            for others.
    """

    def __init__(self, task: Task, pending: Pending, untracked: list[Any], batches: TreeBatches) -> None:
        super().__init__(task)
        self._pending = pending
        self._put = pending.put
        self._clock = task.environment.clock
        self._next_id = task.next_id
        self._sticky = task.outbox.acks.sticky
        self._begun = task.outbox.begun
        self._batches = batches
        self._untracked = untracked
        self._receiver: TaskId | None = None  # of a direct emit
        self.last_root: int | None = None
        self.first_position: int | None = None

    def emit(
        self,
        values: Sequence[Any],
        *,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        root: int | None = None,
        trace_context: Headers | None = None,
    ) -> None:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            message_id: the argument of a later `ack` or `fail`; None for a tuple that is not tracked.
            stream: one of the component's streams.
            root: the root of the tree, for a spout with positional roots; a random one by default, or if that tree is
                open.
            trace_context: the headers of the message's trace, as `tuple_tree.headers.trace_context` returns them;
                bolts pass them on.

        Raises:
            EmitError: if the stream is unknown or direct, or the values do not fit it; nothing was sent then.
        """
        batches = self._batches
        batch = batches.trees
        if trace_context or batch.trace_context or batch.size >= MOST_PLACES:
            batch = batches.of(trace_context or [])
        if message_id is None or not self._is_tracked:
            self.last_root = None
            packs = self._emit(values, stream, batches.untracked, 0, self._receiver)
            if message_id is not None:
                # Acked after `next_tuple`: the spout may store the message only after emitting it.
                self._untracked.append(message_id)
        else:
            now = self._clock()
            if root is None:
                root = self._sticky(self._next_id())
            while not self._put(root, message_id, now):
                root = self._sticky(self._next_id())
            first = self.first_position
            begun, place = self._begun, batch.begin(root, NO_POSITION if first is None else first | message_id)
            if begun.batch is not batch:
                begun.start_run(batch)
            begun.places.append(place)
            try:
                packs = self._emit(values, stream, batch, place, self._receiver)
            except EmitError:
                # Nothing was added, so the tree has not begun.
                begun.places.pop()
                self._pending.pop(root)
                self.last_root = None
                raise
            except BaseException:
                # An init without an edge would complete the tree.
                self._outbox.keep_open([(batch, place)])
                raise
            self.last_root = root
        if self._hooks:
            self._call_hooks(values, stream, packs, message_id=message_id, root=self.last_root)

    def emit_direct(
        self,
        task: TaskId,
        values: Sequence[Any],
        *,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
        trace_context: Headers | None = None,
    ) -> None:
        """Sends a tuple to one task of a subscriber of a direct stream.

        Args:
            task: one of `context.targets(stream)`, or any `(component, task)`.
            values: as for `emit`.
            message_id: as for `emit`.
            stream: one of the component's direct streams.
            trace_context: as for `emit`.

        Raises:
            EmitError: if the stream is not direct, or the task does not receive it; nothing was sent then.
        """
        self._receiver = task
        try:
            self.emit(values, message_id=message_id, stream=stream, trace_context=trace_context)
        finally:
            self._receiver = None


class Spout(AnySpout, ABC):
    """A source of tuples.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
    """

    needs = Needs("a Spout", called_by=SpoutSource)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
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
        """Called at a clean stop and when the task moves to another process; an emit raises `EmitError` now."""
