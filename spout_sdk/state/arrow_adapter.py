"""Calls a `StatefulArrowBolt`: rows change the values of their keys once, and emit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from spout_sdk.bolts.adapters import ArrowAdapter, adapter_of
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.emitting.task import Task
from spout_sdk.errors import StateError
from spout_sdk.state.adapter import REPLAYED
from spout_sdk.state.bolt import StatefulArrowBolt
from spout_sdk.state.collectors import StateArrowCollector, send_held
from spout_sdk.state.table import StateTable
from spout_sdk.state.task_state import TaskState
from tuple_tree.anchors import Rows
from tuple_tree.errors import describe
from tuple_tree.routing import keys_of_rows

Change = tuple[Any, bytes | None]  # a new value, and its payload


@adapter_of.register(StatefulArrowBolt)
class StateArrowAdapter(ArrowAdapter):
    """Changes the values of the keys of rows once; acks the rows of a call together."""

    makes_collector = StateArrowCollector

    def __init__(self, bolt: StatefulArrowBolt, task: Task, *rest: Any) -> None:
        super().__init__(bolt, task, *rest)
        self.state = TaskState(bolt, task)
        self._values = ValueColumns(self.state)

    def _execute(self, rows: ArrowInput, collector: Any) -> None:
        """Executes rows of a record with the user's bolt."""
        bolt, state, batch = self._bolt, self.state, rows.batch
        table, stream, columns = state.table, rows.pack.stream, self._values
        names = state.key_fields[stream.component, stream.stream]
        of_rows, keys = keys_of_rows(rows.codec, batch, tuple(stream.fields[name] for name in names))
        self._check(keys)
        identities = rows.pack.identities
        positions, paths = identities.positions[rows.indices], identities.paths[rows.indices]
        is_new = ~state.applied.is_repeat(positions, paths)
        if is_new.all():
            values = columns.made(bolt.update_batch(columns.of(map(table.get, keys)), of_rows, batch), len(keys))
            changed = columns.changes(keys, values, table)
        else:
            self._task.context.count(REPLAYED, int((~is_new).sum()))
            changed = self._changed(rows, of_rows, keys, np.flatnonzero(is_new))
            values = columns.of(changed[key][0] if key in changed else table.get(key) for key in keys)
        bolt.emit_batch(values, of_rows, batch, collector)
        # After the user's code, so that a call that raises has changed and written nothing.
        for key, (value, payload) in changed.items():
            state.set(key, value, payload)
        if is_new.any():
            state.applied.note(positions[is_new], paths[is_new])
        send_held(collector.held, self._task, self._outcomes)
        collector.ack()

    def _changed(self, rows: ArrowInput, of_rows: Rows, keys: Sequence[bytes], new: Rows) -> Mapping[bytes, Change]:
        """The changes of the new rows; the other rows were applied before."""
        if not len(new):
            return {}
        columns, table = self._values, self.state.table
        present, of_new = np.unique(of_rows[new], return_inverse=True)
        changing = [keys[key] for key in present.tolist()]
        made = self._bolt.update_batch(columns.of(map(table.get, changing)), of_new, rows.batch.take(new))
        return columns.changes(changing, columns.made(made, len(changing)), table)

    def _check(self, keys: Sequence[bytes]) -> None:
        """Raises an error for a key that cannot be stored; a key of one text field always can."""
        codec = self.state.keys
        for key in () if codec.is_text else keys:
            codec.encode(codec.decode(key))


class ValueColumns:
    """Converts values of a state to a record batch with a row for each value, and back."""

    def __init__(self, state: TaskState) -> None:
        self._names = state.value.field_names
        self._is_single = state.is_single
        # Imported only by processes that need it: Arrow takes 35 MB of memory.
        from tuple_tree.arrow_packs import PackCodec

        self._codec = PackCodec(state.value)

    def of(self, values: Iterable[Any]) -> Any:
        """A record batch with a row for each value."""
        names, codec = self._names, self._codec
        rows: list[Any] = [(value,) if self._is_single else tuple([value[name] for name in names]) for value in values]
        if not all(map(codec.is_row, rows)):
            rows = [codec.row(row) for row in rows]
        return codec.columns(rows)

    def made(self, table: Any, size: int) -> Any:
        """Converts a table with `size` rows to a record batch. Raises `StateError` if it does not fit the state."""
        try:
            batch = self._codec.batch(table)
        except Exception as error:  # Arrow raises ArrowInvalid, KeyError, TypeError and more
            raise StateError(
                f"update_batch() returned columns that do not fit the state ({describe(error)}): return "
                f"{', '.join(self._names)}, as the state declares them"
            ) from error
        if batch.num_rows != size:
            raise StateError(
                f"update_batch() returned {batch.num_rows} rows for {size} keys: return a row for each row of `values`"
            )
        return batch

    def changes(self, keys: Sequence[bytes], batch: Any, table: StateTable) -> Mapping[bytes, Change]:
        """The new values of keys, each with its payload. Raises `StateError` if one is too large."""
        rows: Any = self._codec.rows(batch)
        if self._is_single:
            values = [value for (value,) in rows]
        else:
            values = [dict(zip(self._names, row, strict=True)) for row in rows]
        return {key: (value, table.encoded(key, value)) for key, value in zip(keys, values, strict=True)}
