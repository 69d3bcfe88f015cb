"""Emits many messages of a spout at once, with the same effect as one emit of its collector for each."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from spout_sdk.emitting.emit_plan import Targets
from spout_sdk.errors import EmitError
from spout_sdk.spouts.spout_task import SpoutTask
from tuple_tree.identities import IdentityColumns
from tuple_tree.ids import IdColumn
from tuple_tree.input_batch import InputBatch
from tuple_tree.streams import DEFAULT_STREAM


class RowEmitter:
    """Emits rows to the default stream of a spout whose message ids are numbers.

    Args:
        first_position: the first position of identities; a message id is added to it.
    """

    def __init__(self, task: SpoutTask, first_position: int) -> None:
        self._clock, self._counters, self._hooks = task.environment.clock, task.environment.counters, task.context.hooks
        self._outbox, self._pending, self._batches = task.outbox, task.open_trees, task.batches
        self._plans = task.plans
        self._first_position = np.uint64(first_position)
        self._is_identified = task.topology.manifest.is_identified(task.context.component)

    @property
    def is_usable(self) -> bool:
        """Whether rows can be emitted at once: no hook is called for each emit, and no row is encoded or has a key."""
        plan = self._plans.get(DEFAULT_STREAM)
        return not self._hooks and plan is not None and plan.codec.max_rows > 1

    @property
    def takes_objects(self) -> bool:
        """Whether rows are objects of the stream's row type, instead of values."""
        return self._plans[DEFAULT_STREAM].holds_objects

    def emit(self, rows: Sequence[Any], message_ids: Sequence[int], roots: IdColumn | None) -> int:
        """Emits messages up to the first that cannot be emitted, for instance by its values; returns how many.

        Args:
            rows: the values of each message, or its object.
            roots: the roots of their trees, shape `(n,)`; None for untracked tuples.
        """
        plan, chosen = self._plans[DEFAULT_STREAM], list[Targets]()
        values, count = rows, len(rows)
        if not plan.holds_objects and not all(map(plan.is_row, rows)):
            made: list[Any] = []
            with suppress(EmitError):
                made.extend(map(plan.row, values))
            rows, count = made, len(made)
        if plan.only is None:
            with suppress(TypeError, ValueError):
                chosen.extend(map(plan.choose, values[:count]))
            count = len(chosen)
        if count < len(values):
            rows, message_ids = rows[:count], message_ids[:count]
            roots = roots if roots is None else roots[:count]
        batch: InputBatch = self._batches.of([], len(rows))  # also makes `untracked` a batch without a trace
        places: Sequence[int]
        if roots is None:
            batch, places = self._batches.untracked, [0] * len(rows)
        else:
            if not self._pending.put_all(roots.tolist(), message_ids, self._clock()):
                return 0
            first = batch.add(roots, np.zeros(len(rows), np.uint64), self._identities(message_ids))
            places = range(first, first + len(rows))
            self._outbox.begun.add_range(batch, places)
        receivers = chosen if plan.only is None else plan.only[0]
        self._outbox.add_rows(receivers, rows, batch, places)
        self._counters.emitted += len(rows)
        return len(rows)

    def _identities(self, message_ids: Sequence[int]) -> IdentityColumns | None:
        if not self._is_identified:
            return None
        positions = np.array(message_ids, np.uint64) | self._first_position
        return IdentityColumns(positions, np.zeros(len(positions), np.uint64))
