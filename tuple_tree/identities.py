"""Identities: what the tuples of a message keep when it is replayed, for states that count each tuple once.

An identity is the position of the source message, without the attempt, and a path, which tells the tuples of the
message apart: it follows from the components and streams that the tuple has come through, and of each bolt, from how
many tuples that had emitted before with the same input as the anchor. It does not depend on tasks, packs and edges.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from tuple_tree.edges import mix
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_BYTES, ID_MASK, IdColumn, pack_ids, unpack_ids

IDENTITIES_HEADER: Final = "identities"
NO_POSITION: Final = ID_MASK
"""The position of a tuple that has no identity: it is anchored to several inputs or none, or its source has none."""

_SEED: Final = 42


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """The identities of consecutive tuples.

    Attributes:
        positions: shape `(n,)`, dtype `u8`: `tuple_tree.positions.position_word` without the attempt, or `NO_POSITION`.
        paths: shape `(n,)`, dtype `u8`; 0 where there is no position.
    """

    positions: IdColumn
    paths: IdColumn

    @classmethod
    def none(cls, tuples: int) -> "IdentityColumns":
        return cls(np.full(tuples, NO_POSITION, np.uint64), np.zeros(tuples, np.uint64))

    @classmethod
    def read(cls, header: bytes | None, tuples: int) -> "IdentityColumns":
        """Reads the header of a record with `tuples` tuples; raises `WireError` if it does not go with that number."""
        if not header:
            return cls.none(tuples)
        sizes = ID_BYTES * tuples, 2 * ID_BYTES * tuples
        if len(header) not in sizes:
            raise WireError(
                "ragged-identities",
                f"the {IDENTITIES_HEADER} header has {len(header)} bytes, and {tuples} tuples have {sizes[0]} or "
                f"{sizes[1]}",
            )
        column = unpack_ids(header).astype(np.uint64)
        return cls(column[:tuples], column[tuples:] if len(column) > tuples else np.zeros(tuples, np.uint64))

    def part(self, begin: int, end: int) -> "IdentityColumns":
        return IdentityColumns(self.positions[begin:end], self.paths[begin:end])

    def spread(self, counts: NDArray[np.intp]) -> "IdentityColumns":
        """The identity of each tuple as often as it is counted."""
        return IdentityColumns(np.repeat(self.positions, counts), np.repeat(self.paths, counts))

    def received(self, source: np.uint64) -> "IdentityColumns":
        """These identities with their paths at the bolt that receives the tuples; `source` is their `source_hash`."""
        return IdentityColumns(self.positions, mix(self.paths + source))

    def headers(self) -> list[tuple[str, bytes]]:
        """The header of a record with these tuples; none if none of them has an identity."""
        if (self.positions == np.uint64(NO_POSITION)).all():
            return []
        value = pack_ids(self.positions)
        if self.paths.any():
            value += pack_ids(self.paths)
        return [(IDENTITIES_HEADER, value)]


def source_hash(source: bytes) -> np.uint64:
    """XXH64, seed 42, of a `source` header: what a stream adds to the path of its tuples."""
    return np.uint64(xxhash.xxh64_intdigest(source, _SEED))
