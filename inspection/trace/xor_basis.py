"""A basis of 64-bit vectors over GF(2) that remembers out of which members each of its rows was made.

Gaussian elimination, one vector at a time: a vector that is the XOR of some that were added before is not added, and
which ones they are is told. Edges are random, so as long as there are far fewer than 64 of them, the subset is the only
one there is.
"""


class XorBasis:
    """Vectors with their members; a member is a bit of a mask."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, vector: int, member: int) -> int | None:
        """Adds a vector."""
        while vector:
            row = self._rows.get(vector.bit_length())
            if row is None:
                self._rows[vector.bit_length()] = (vector, member)
                return None
            vector ^= row[0]
            member ^= row[1]
        return member

    def subset(self, vector: int) -> int | None:
        """The members whose vectors have this XOR; None if no subset has."""
        members = 0
        while vector:
            row = self._rows.get(vector.bit_length())
            if row is None:
                return None
            vector ^= row[0]
            members ^= row[1]
        return members
