"""Rows of a record, as values or as columns: they wait for a step, and become tuples when a bolt takes these."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from spout_sdk.api.tuples import InputPack, Tuple
from tuple_tree.anchors import Rows
from tuple_tree.ids import IdColumn
from tuple_tree.streams import Values

if TYPE_CHECKING:
    from tuple_tree.arrow_packs import PackCodec


ValuesOf = Callable[[Any], Values]


class InputRows:
    """Rows of a record, as values or as objects; a slice of it is some of them.

    Attributes:
        rows: the values of each row; its object, if the rows are objects.
        indices: the index of each row among the record's tuples, rising.
        values_of: returns the values of an object; None if the rows are values.
    """

    __slots__ = ("indices", "pack", "rows", "values_of")

    def __init__(
        self, rows: list[Any], pack: InputPack, indices: Sequence[int], values_of: ValuesOf | None = None
    ) -> None:
        self.rows, self.pack, self.indices, self.values_of = rows, pack, indices, values_of

    @classmethod
    def of(
        cls,
        rows: list[Any],
        pack: InputPack,
        without: Container[int] = (),
        values_of: ValuesOf | None = None,
    ) -> Self:
        """The rows of a record that are neither acked nor failed, without some of them."""
        if pack.left == pack.size and not without:
            return cls(rows, pack, range(pack.size), values_of)
        indices = [at for at, settled in enumerate(pack.settled) if not (settled or at in without)]
        return cls([rows[at] for at in indices], pack, indices, values_of)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> "InputRows":
        return InputRows(self.rows[part], self.pack, self.indices[part], self.values_of)

    def tuples(self) -> list[Tuple]:
        """Its rows as tuples."""
        pack, indices, values = self.pack, self.indices, self.rows
        if self.values_of is not None:
            values = [_values_of(self.values_of, each) for each in values]
        if not pack.batch.is_tracked:
            return list(map(Tuple, values, repeat(pack), indices, repeat(0)))
        if pack.starts is None:
            return list(map(Tuple, values, repeat(pack), indices, map(pack.first.__add__, indices)))
        return list(map(pack.tuple_at, indices, values))


def _values_of(values_of: ValuesOf, row: Any) -> Values:
    """The values of an object; () if one of its members has another type than its class says."""
    try:
        return values_of(row)
    except Exception:  # noqa: BLE001 - of the conversion of a member
        return ()


@dataclass(slots=True, eq=False, repr=False)
class ArrowInput:
    """Rows of a record, as a record batch; a slice of it shares everything with the whole."""

    batch: Any
    pack: InputPack
    codec: "PackCodec"
    indices: Rows  # shape `(n,)`: the index of each row among the record's tuples

    @classmethod
    def of(cls, batch: Any, pack: InputPack, codec: "PackCodec") -> "ArrowInput":
        """The rows of a record that are neither acked nor failed."""
        indices = np.flatnonzero(np.frombuffer(pack.settled, np.uint8) == 0)
        return cls(batch if len(indices) == pack.size else batch.take(indices), pack, codec, indices)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __getitem__(self, rows: slice) -> "ArrowInput":
        begin, end, _ = rows.indices(len(self))
        part = self.batch.slice(begin, end - begin)
        return ArrowInput(part, self.pack, self.codec, self.indices[begin:end])

    def __iter__(self) -> Iterator[Tuple]:
        return iter(self.tuples(np.arange(len(self))))

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Shape `(n,)`: whether each row was acked or failed."""
        settled: NDArray[np.bool_] = np.frombuffer(self.pack.settled, np.uint8)[self.indices] != 0
        return settled

    def open_rows(self) -> Rows:
        """The rows that were neither acked nor failed."""
        return np.flatnonzero(~self.settled)

    def places(self, rows: Rows) -> tuple[Rows, Rows | None]:
        """Places of some rows in the input batch, and how many each row has; None if each has one."""
        pack = self.pack
        rows = self.indices[rows]
        if not pack.batch.is_tracked:
            return np.zeros(len(rows), np.intp), None
        return pack.places_of(rows), None if pack.starts is None else pack.starts[rows + 1] - pack.starts[rows]

    def numbers(self, rows: Rows) -> IdColumn | None:
        """The numbers of tuples that are emitted, each anchored to one row; None if they need no identities.

        A row with several places, or none, gives no identity.
        """
        pack = self.pack
        if pack.batch.emitted is None:
            return None
        rows = self.indices[rows]
        if pack.starts is None:
            return pack.batch.numbers(rows + pack.first)
        numbers, is_single = np.zeros(len(rows), np.uint64), np.diff(pack.starts)[rows] == 1
        numbers[is_single] = pack.batch.numbers(pack.starts[rows[is_single]] + pack.first)
        return numbers

    def tuples(self, rows: Rows) -> list[Tuple]:
        """Some rows as tuples."""
        values = self.codec.readable(self.batch.take(rows))[0]
        return list(map(self.pack.tuple_at, self.indices[rows].tolist(), values))

    def as_tuples(self) -> list[Tuple]:
        """Returns all rows as tuples, and keeps none."""
        made = list(self)
        self.batch, self.indices = self.batch.slice(0, 0), self.indices[:0]
        return made


Inputs = Sequence[Tuple] | InputRows | ArrowInput
"""Rows of one record; or tuples, of one record or for one call."""


def first_of(inputs: Inputs) -> tuple[InputPack, int]:
    """The record of the first input, and its index in it."""
    if isinstance(inputs, InputRows | ArrowInput):
        return inputs.pack, int(inputs.indices[0])
    return inputs[0].pack, inputs[0].index
