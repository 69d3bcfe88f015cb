"""The base of the collectors, which adds a tuple to the packs of its receivers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from spout_sdk.api.context import EmitInfo, TaskId
from spout_sdk.emitting.buffer import MultiAnchor
from spout_sdk.emitting.emit_plan import Targets
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import Counters
from tuple_tree.input_batch import NUMBER_STEP, InputBatch


class Checked(NamedTuple):
    """A tuple that fits its stream: its row and its receivers, with the keys of its records."""

    row: Any
    packs: Targets
    keys: Sequence[tuple[OpenPack, bytes]]


class Emitter:
    """Base of the collectors: emits to the streams of a task, and reports errors."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._component = task.context.component
        self._plans = task.plans
        self._outbox = task.outbox
        self._hooks = task.context.hooks
        self._counters = task.environment.counters
        manifest = task.topology.manifest
        self._is_tracked = manifest.acking
        self._is_numbered = manifest.is_identified(self._component)

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._counters

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._task.report_error(error)

    def _emit(
        self,
        values: Sequence[Any],
        stream: str,
        batch: InputBatch | MultiAnchor,
        place: int,
        receiver: TaskId | None = None,
        checked: Checked | None = None,
    ) -> Targets:
        """Sends a tuple to every subscriber of a stream, or to the `receiver` of a direct stream; returns their packs.

        It is anchored to a place in a batch, or to the places of a `MultiAnchor`: `place` is the last of these then.
        `checked` is the result of `_check` for the tuple. If the component needs identities, a tuple that is anchored
        to one input is numbered; an emit that raises uses its number, because some receivers may get the tuple.
        """
        if self._is_numbered and (emitted := batch.emitted) is not None:
            number = emitted[place]
            emitted[place] = number + NUMBER_STEP
            place |= number
        if checked is None:
            try:
                plan = self._plans[stream]
            except KeyError:
                plan = self._task.plan(stream)
            # Python calls an attribute that is not a method fastest by a local name.
            is_row, choose = plan.is_row, plan.choose
            row = values if values.__class__ is tuple and is_row(values) else plan.row(values)
            if (only := plan.only) is not None and receiver is None:
                packs: Targets = only
            else:
                try:
                    packs = choose(values) if receiver is None else plan.direct(receiver)
                except (TypeError, ValueError) as error:
                    raise plan.ungrouped(values, error) from error
        else:
            row, packs, keys = checked
            for pack, key in keys:
                pack.keys[pack.size] = key
        self._counters.emitted += 1
        self._outbox.add(packs, row, batch, place)
        return packs

    def _call_hooks(
        self, values: Sequence[Any], stream: str, packs: Targets, anchors: Any = (), **of_spout: Any
    ) -> None:
        """Calls the hooks after an emit."""
        tasks = tuple(pack.receiver for pack in packs)
        self._task.call_emit_hooks(EmitInfo(values, stream, tasks, anchors=anchors, **of_spout))

    def _check(self, values: Sequence[Any], stream: str) -> Checked:
        """Checks a tuple, and chooses its receivers, for a later `_emit`; raises `EmitError` if it does not fit."""
        plan = self._task.plan(stream)
        row = plan.row(values)
        try:
            packs = plan.choose(values)
        except (TypeError, ValueError) as error:
            raise plan.ungrouped(values, error) from error
        # A grouping sets the key of the next row, which another tuple may become.
        keys = [(pack, key) for pack in packs if (key := pack.keys.pop(pack.size, None)) is not None]
        return Checked(row, packs, keys)
