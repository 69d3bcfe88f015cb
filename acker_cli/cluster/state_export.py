"""Writing a state to a file: a row for each key."""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from spout_sdk.state import StateEntry, StateView
from tuple_tree.arrow_packs import ArrowColumn

FORMATS: Final = (".jsonl", ".csv", ".parquet")
_ROWS: Final = 50_000
_CHANGED: Final = "changed"


def write(view: StateView, path: Path, lines: Iterable[str] | None = None) -> int:
    """Writes all keys to a file, and returns how many; JSON lines if there are `lines`, one for each."""
    if lines is not None:
        count = 0
        with path.open("w", encoding="utf-8") as file:
            for count, line in enumerate(lines, 1):  # noqa: B007 - the last one is the number of lines
                file.write(f"{line}\n")
        return count
    columns = _Columns(view, as_text=path.suffix == ".csv")
    new = pa.csv.CSVWriter if path.suffix == ".csv" else pa.parquet.ParquetWriter
    count, entries = 0, view.entries()
    with new(str(path), columns.schema) as writer:
        while rows := [*islice(entries, _ROWS)]:
            writer.write_table(columns.table(rows))
            count += len(rows)
    return count


class _Columns:
    """The columns of a state: fields of the key, fields of the value, and the time of the last change."""

    def __init__(self, view: StateView, *, as_text: bool) -> None:
        state = view.manifest.component(view.bolt).state  # type: ignore[union-attr]
        assert state is not None  # noqa: S101 - the view has checked it
        kinds = [(field.name, field.type) for field in state.key]
        taken = {name for name, _ in kinds} | {_CHANGED}
        for name, kind in state.value.field_types.items():
            kinds.append((f"value_{name}" if name in taken else name, kind))
        self._is_single, self._names = state.is_single, state.value.field_names
        self._made = [_arrow(name, kind, as_text=as_text) for name, kind in kinds]
        self.schema = pa.schema([*(field for field, _ in self._made), pa.field(_CHANGED, pa.timestamp("ms", "UTC"))])

    def table(self, entries: Sequence[StateEntry]) -> Any:
        rows = [[*each.key, *self._values(each.value), each.changed_ms] for each in entries]
        columns = [*zip(*rows, strict=True)]
        arrays = [
            pa.array([_text(value) for value in column] if is_text else column, type=field.type)
            for column, (field, is_text) in zip(columns, self._made, strict=False)
        ]
        return pa.Table.from_arrays(
            [*arrays, pa.array(columns[-1], self.schema.field(_CHANGED).type)], schema=self.schema
        )

    def _values(self, value: Any) -> Iterable[Any]:
        return (value,) if self._is_single else (value[name] for name in self._names)


def _arrow(name: str, kind: Any, *, as_text: bool) -> tuple[Any, bool]:
    """The column of a field, and whether its values are written as text."""
    column = ArrowColumn(name, kind)
    is_text = column.is_avro or (as_text and column.field.type == pa.binary())
    return pa.field(name, pa.string() if is_text else column.field.type), is_text


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.hex() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, default=str)
