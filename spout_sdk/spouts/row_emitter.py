"""Emits many messages of a spout at once, with the same effect as one emit of its collector for each."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spout_sdk.emitting.emit_plan import EmitPlan, Targets
from spout_sdk.emitting.open_pack import OpenPack
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
        """Whether rows can be emitted at once: there is no hook to call for each emit, and a default stream."""
        return not self._hooks and DEFAULT_STREAM in self._plans

    @property
    def is_row(self) -> Callable[[Any], bool]:
        """The check whether values fit the stream as they are."""
        return self._plans[DEFAULT_STREAM].is_row

    def emit(self, rows: Sequence[Any], message_ids: Sequence[int], roots: IdColumn | None) -> int:
        """Emits messages up to the first that cannot be emitted, for instance by its grouping; returns how many.

        Args:
            rows: the values of each message, which fit the stream as they are.
            roots: the roots of their trees, shape `(n,)`; None for untracked tuples.
        """
        plan, chosen = self._plans[DEFAULT_STREAM], list[Targets]()
        if plan.only is None:
            try:
                chosen.extend(map(plan.choose, rows))
            except (TypeError, ValueError):
                rows, message_ids = rows[: len(chosen)], message_ids[: len(chosen)]
                roots = roots if roots is None else roots[: len(chosen)]
        batch: InputBatch = self._batches.of([], len(rows))
        places = range(len(rows))
        if roots is None:
            batch = self._batches.untracked
        else:
            if not self._pending.put_all(roots.tolist(), message_ids, self._clock()):
                return 0
            first = batch.add(roots, np.zeros(len(rows), np.uint64), self._identities(message_ids))
            places = range(first, first + len(rows))
            self._outbox.begun.add_range(batch, places)
        try:
            self._add(plan, rows, chosen, batch, places if batch.is_tracked else [0] * len(rows))
        except BaseException:
            self._outbox.keep_open((batch, place) for place in places)
            raise
        self._counters.emitted += len(rows)
        return len(rows)

    def _add(
        self, plan: EmitPlan, rows: Sequence[Any], chosen: Sequence[Targets], batch: InputBatch, places: Sequence[int]
    ) -> None:
        """Adds rows, with their places, to the open packs of their receivers."""
        outbox = self._outbox
        if plan.only is not None:
            (pack,) = plan.only
            if pack.batch is not batch:
                outbox.start_run(pack, batch)
            pack.rows += rows
            pack.places += places
            if len(pack.rows) >= pack.limit:
                outbox.send_full(plan.only)
            return
        full: dict[OpenPack, None] = {}
        for row, place, packs in zip(rows, places, chosen, strict=True):
            for pack in packs:
                if pack.batch is not batch:
                    outbox.start_run(pack, batch)
                pack.rows.append(row)
                pack.places.append(place)
                if len(pack.rows) >= pack.limit:
                    full[pack] = None
        if full:
            # Only after all deliveries are added: the init of a message has the edges of all deliveries.
            outbox.send_full([*full])

    def _identities(self, message_ids: Sequence[int]) -> IdentityColumns | None:
        if not self._is_identified:
            return None
        positions = np.array(message_ids, np.uint64) | self._first_position
        return IdentityColumns(positions, np.zeros(len(positions), np.uint64))
