"""The trees of the ledger's benchmark: the same ids in the same order for whoever follows them.

A window of trees is pending. In turn, a batch of old ones is acked, in another order, and a batch of new ones is
initialised, so that the window slides and every ack completes a tree.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

BATCH: Final = 4_096
SEED: Final = 7

Ids = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class WindowIds:
    """Trees of one round.

    Attributes:
        pending: trees in the window.
        turns: trees that are acked, and as many that follow them; a multiple of `BATCH`.
        roots, vals: shape `(pending + turns,)`; the window, then what follows it.
        order: shape `(turns,)`, i8; index of each ack's root.
    """

    pending: int
    turns: int
    roots: Ids
    vals: Ids
    order: NDArray[np.int64]

    @classmethod
    def drawn(cls, pending: int, turns: int, seed: int = SEED) -> "WindowIds":
        """Draws them, always the same for a seed."""
        rng = np.random.default_rng(seed)
        turns = turns // BATCH * BATCH
        roots, vals = rng.integers(0, 2**64, size=(2, pending + turns), dtype=np.uint64)
        order = np.arange(pending + turns)
        half = max(pending // 2, 1)
        for start in range(0, len(order), half):
            rng.shuffle(order[start : start + half])
        return cls(pending, turns, roots, vals, order[:turns])

    def save(self, file: Path) -> None:
        """Writes roots, vals and order, each as 64-bit little-endian integers."""
        with file.open("wb") as out:
            for column in (self.roots, self.vals, self.order):
                column.astype("<u8").tofile(out)

    @classmethod
    def load(cls, file: Path, pending: int, turns: int) -> "WindowIds":
        """Reads what `save` wrote, without bringing it into memory before it is used."""
        ids: Ids = np.memmap(file, dtype="<u8", mode="r")
        trees = pending + turns
        order = ids[2 * trees :].view(np.int64)
        return cls(pending, turns, ids[:trees], ids[trees : 2 * trees], order)
