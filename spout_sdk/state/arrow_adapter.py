"""Calls a `StatefulArrowBolt`: rows change the values of their keys once, and emit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spout_sdk.bolts.adapters import ArrowAdapter, adapter_of
from spout_sdk.bolts.arrow_collector import ArrowCollector, ArrowInput
from spout_sdk.emitting.task import Task
from spout_sdk.errors import StateError
from spout_sdk.state.adapter import REPLAYED
from spout_sdk.state.bolt import StatefulArrowBolt
from spout_sdk.state.task_state import TaskState
from tuple_tree.payloads import PackCodec
from tuple_tree.routing import keys_of_rows


@adapter_of.register(StatefulArrowBolt)
class StateArrowAdapter(ArrowAdapter):
    """Changes the values of the keys of rows once; acks the rows of a call together."""

    def __init__(self, bolt: StatefulArrowBolt, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.state = TaskState(bolt, task)
        self._values = ValueColumns(self.state)

    def _execute(self, rows: ArrowInput, collector: ArrowCollector) -> None:
        """Executes some rows of a record with the user's bolt."""
        bolt, state, batch = self._bolt, self.state, rows.batch
        stream = rows.pack.stream
        names = state.key_fields[stream.component, stream.stream]
        of_rows, keys = keys_of_rows(rows.codec, batch, tuple(stream.fields[name] for name in names))
        self._check(keys)
        positions, paths = (column[rows.indices] for column in state.identities(rows.pack))
        is_new = ~state.applied.is_repeat(positions, paths)
        changed: dict[bytes, Any] = {}
        if is_new.any():
            part, of_part, part_keys = batch, of_rows, keys
            if not is_new.all():
                self._task.context.count(REPLAYED, int((~is_new).sum()))
                new = np.flatnonzero(is_new)
                part = batch.take(new)
                present, of_part = np.unique(of_rows[new], return_inverse=True)
                part_keys = [keys[key] for key in present.tolist()]
            made = bolt.update_batch(self._values.columns([state.table.get(key) for key in part_keys]), of_part, part)
            changed = dict(zip(part_keys, self._values.values(made, len(part_keys)), strict=True))
        payloads = {key: state.table.encoded(key, value) for key, value in changed.items()}
        now = [changed[key] if key in changed else state.table.get(key) for key in keys]
        bolt.emit_batch(self._values.columns(now), of_rows, batch, collector)
        # Last, so that a call that raises has changed nothing.
        for key, value in changed.items():
            state.set(key, value, payloads[key])
        if is_new.any():
            state.applied.note(positions[is_new], paths[is_new])
        collector.ack()

    def _check(self, keys: Sequence[bytes]) -> None:
        """Raises an error for a key that cannot be stored; text alone always can."""
        codec = self.state.keys
        for key in () if codec.is_text else keys:
            codec.encode(codec.decode(key))


class ValueColumns:
    """Values of a state as a record batch, a row for each, and back."""

    def __init__(self, state: TaskState) -> None:
        self._names = state.value.field_names
        self._is_single = state.is_single
        self._codec = PackCodec(state.value)

    def columns(self, values: Sequence[Any]) -> Any:
        """A record batch with a row for each value."""
        names, row = self._names, self._codec.row
        rows = [row((value,) if self._is_single else [value[name] for name in names]) for value in values]
        return self._codec.columns(rows)

    def values(self, table: Any, size: int) -> list[Any]:
        """The values of a table with `size` rows. Raises `StateError` if it is none."""
        try:
            batch = self._codec.batch(table)
        except Exception as error:  # Arrow raises ArrowInvalid, KeyError, TypeError and more
            raise StateError(
                f"update_batch() returned columns that do not fit the state ({type(error).__name__}: {error}): return "
                f"{', '.join(self._names)}, as the state declares them"
            ) from error
        if batch.num_rows != size:
            raise StateError(
                f"update_batch() returned {batch.num_rows} rows for {size} keys: return a row for each row of `values`"
            )
        rows = self._codec.rows(batch)
        if self._is_single:
            return [value for (value,) in rows]
        return [dict(zip(self._names, row, strict=True)) for row in rows]
