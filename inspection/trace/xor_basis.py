"""A basis of 64-bit vectors over GF(2) that remembers out of which members each of its rows was made.

Gaussian elimination, one vector at a time. Edges are random, so as long as there are far fewer than 64 of them, a
subset with a given XOR is the only one.
"""


class XorBasis:
    """Vectors with their members: each is a bit of a mask."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, vector: int, member: int) -> int | None:
        """Adds a vector; if it is the XOR of earlier ones, returns its members and theirs instead."""
        vector, members = self._reduced(vector, member)
        if not vector:
            return members
        self._rows[vector.bit_length()] = (vector, members)
        return None

    def subset(self, vector: int) -> int | None:
        """The members whose vectors have this XOR; None if no subset has."""
        vector, members = self._reduced(vector, 0)
        return None if vector else members

    def _reduced(self, vector: int, members: int) -> tuple[int, int]:
        while vector and (row := self._rows.get(vector.bit_length())) is not None:
            vector ^= row[0]
            members ^= row[1]
        return vector, members
