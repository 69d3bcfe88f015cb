"""The collector of spouts. It belongs to one task and to the thread that runs it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spout_sdk.api.context import EmitInfo, TaskId
from spout_sdk.api.tuples import NO_TREES
from spout_sdk.emitting.emit_plan import EmitPlan, Targets
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.errors import EmitError
from spout_sdk.records import Headers
from spout_sdk.spouts.pending import Pending
from tuple_tree.identities import NO_POSITION, IdentityColumns
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import LARGEST_BATCH, InputBatch
from tuple_tree.streams import DEFAULT_STREAM


class SpoutCollector(Emitter):
    """The collector of a spout.

    Attributes:
        last_root: of the tuple that was emitted last; None if that is not tracked.
        first_position: of identities, for a spout whose message ids are the numbers in addition to it; None for others.
    """

    def __init__(self, task: Task, pending: Pending, untracked: list[Any]) -> None:
        super().__init__(task)
        self._pending = pending
        self._put = pending.put
        self._clock = task.environment.clock
        self._next_id = task.next_id
        self._sticky = task.outbox.acks.sticky
        self._begun = task.outbox.begun
        self._is_identified = task.topology.manifest.is_identified(self._component)
        self._trees, self._no_trees = InputBatch(is_identified=self._is_identified), NO_TREES
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
        batch = self._trees
        if trace_context or batch.trace_context or batch.size >= LARGEST_BATCH:
            batch = self._batch_of(trace_context or [])
        if message_id is None or not self._is_tracked:
            self.last_root = None
            tasks = self._emit(values, stream, self._no_trees, 0, self._receiver)
            if message_id is not None:
                # Acked after `next_tuple`: the spout may store what it emits only after emitting it.
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
                begun.turn(batch)
            begun.places.append(place)
            try:
                tasks = self._emit(values, stream, batch, place, self._receiver)
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
            self._task.call_emit_hooks(EmitInfo(values, stream, tasks, message_id, root=self.last_root))
        return tasks

    @property
    def emits_rows(self) -> bool:
        """Whether `emit_rows` may be called: no hook has to see each emit."""
        return not self._hooks and DEFAULT_STREAM in self._plans

    @property
    def is_row(self) -> Callable[[Any], bool]:
        """Whether values fit the default stream as they are, for `emit_rows`."""
        return self._plans[DEFAULT_STREAM].is_row

    def emit_rows(self, rows: Sequence[Any], message_ids: Sequence[int], roots: IdColumn | None) -> int:
        """Emits messages to the default stream, as `emit` each, and returns how many: not those behind one that raises.

        Args:
            rows: the values of each, which the stream's codec takes as they are.
            message_ids: of each, numbers.
            roots: of their trees; None for untracked tuples.
        """
        plan = self._plans[DEFAULT_STREAM]
        chosen: list[Targets] = []
        if plan.only is None:
            try:
                chosen.extend(map(plan.choose, rows))
            except (TypeError, ValueError):
                rows, message_ids = rows[: len(chosen)], message_ids[: len(chosen)]
                roots = roots if roots is None else roots[: len(chosen)]
        batch: InputBatch = self._no_trees
        if self._trees.trace_context:
            self._batch_of([])
            batch = self._no_trees
        places = range(1)
        if roots is not None:
            if not self._pending.put_all(roots.tolist(), message_ids, self._clock()):
                return 0
            batch = self._batch_of([], len(rows))
            first = batch.add(roots, np.zeros(len(rows), np.uint64), self._identities(message_ids))
            places = range(first, first + len(rows))
            self._begun.add_range(batch, places)
        try:
            self._add_rows(plan, rows, chosen, batch, places)
        except BaseException:
            self._outbox.keep_open((batch, place) for place in places)
            raise
        self._counters.emitted += len(rows)
        return len(rows)

    def _add_rows(
        self, plan: EmitPlan, rows: Sequence[Any], chosen: Sequence[Targets], batch: InputBatch, places: range
    ) -> None:
        """Adds rows to the open packs of their receivers; the places are those of the rows, or one of all."""
        is_tracked = batch.is_tracked
        if plan.only is not None:
            (pack,) = plan.only
            if pack.batch is not batch:
                self._outbox.turn(pack, batch)
            pack.rows += rows
            pack.places += places if is_tracked else [0] * len(rows)
            if len(pack.rows) >= pack.limit:
                self._outbox.send_full((pack,))
            return
        full: dict[OpenPack, None] = {}
        for number, (packs, _) in enumerate(chosen):
            for pack in packs:
                if pack.batch is not batch:
                    self._outbox.turn(pack, batch)
                pack.rows.append(rows[number])
                pack.places.append(places.start + number if is_tracked else 0)
                if len(pack.rows) >= pack.limit:
                    full[pack] = None
        if full:
            self._outbox.send_full([*full])

    def _identities(self, message_ids: Sequence[int]) -> IdentityColumns | None:
        if not self._is_identified:
            return None
        first = self.first_position
        if first is None:
            return IdentityColumns.none(len(message_ids))
        positions = np.array(message_ids, np.uint64) | np.uint64(first)
        return IdentityColumns(positions, np.zeros(len(positions), np.uint64))

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
        self._receiver = task
        try:
            return self.emit(values, message_id=message_id, stream=stream, trace_context=trace_context)
        finally:
            self._receiver = None

    def _batch_of(self, trace_context: Headers, trees: int = 1) -> InputBatch:
        """The batch of a trace, or of none, with room for trees, if it is not that of many already."""
        is_other = self._trees.trace_context != trace_context
        if is_other:
            self._outbox.flush_before_trace()
            self._no_trees = InputBatch(trace_context, is_tracked=False)
        if is_other or self._trees.size + trees > LARGEST_BATCH:
            self._trees = InputBatch(trace_context, is_identified=self._is_identified)
        return self._trees
