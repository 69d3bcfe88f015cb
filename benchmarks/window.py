"""A sliding window of trees, the same ids in the same order for all sides, and rounds of a ledger and a dict over it.

In turn, a batch of old trees is acked, in another order, and a batch of new ones is initialised, so that the window
slides and every ack completes a tree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from acker_worker.ledger import Ledger, LedgerSettings
from tuple_tree.ids import IdColumn
from tuple_tree.messages import SpoutAddress

BATCH: Final = 4_096
SETTINGS: Final = LedgerSettings(tick_ms=1_000, max_age_ms=300_000, orphan_timeout_ms=30_000)
SPOUT: Final = SpoutAddress("bench.notices.spout", 0, 30_000)

Round = Callable[[], float]
"""Runs a round, and returns messages (inits and acks) a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Trees of one round.

    Attributes:
        pending: trees in the window.
        turns: trees that are acked, and as many that follow them; a multiple of `BATCH`.
        roots, vals: shape `(pending + turns,)`; the window, then what follows it.
        order: shape `(turns,)`, i8; index of each ack's root.
    """

    pending: int
    turns: int
    roots: IdColumn
    vals: IdColumn
    order: NDArray[np.int64]

    @classmethod
    def drawn(cls, pending: int, turns: int, seed: int = 7) -> "Window":
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
    def load(cls, file: Path, pending: int, turns: int) -> "Window":
        """Maps what `save` wrote, which is not in memory before it is used."""
        ids: IdColumn = np.memmap(file, dtype="<u8", mode="r")
        roots, vals, order = np.split(ids, [pending + turns, 2 * (pending + turns)])
        return cls(pending, turns, roots, vals, order.view(np.int64))


def ledger_round(window: Window, clock: Callable[[], float]) -> Round:
    """The acker's ledger; the time of filling the window does not count."""
    acks, ack_vals = window.roots[window.order], window.vals[window.order]
    news, new_vals = np.array(window.roots[window.pending :]), np.array(window.vals[window.pending :])

    def run() -> float:
        ledger = Ledger(SETTINGS)
        for start in range(0, window.pending, BATCH):
            old = slice(start, min(start + BATCH, window.pending))
            ledger.init(np.array(window.roots[old]), np.array(window.vals[old]), SPOUT)
        assert len(ledger) == window.pending
        acked = 0
        began = clock()
        for start in range(0, window.turns, BATCH):
            batch = slice(start, start + BATCH)
            acked += len(ledger.ack(acks[batch], ack_vals[batch]))
            ledger.init(news[batch], new_vals[batch], SPOUT)
        seconds = clock() - began
        assert acked == window.turns
        assert len(ledger) == window.pending
        return 2 * window.turns / seconds

    return run


def dict_round(window: Window, clock: Callable[[], float]) -> Round:
    """A plain dict of checksums in Python, one message at a time."""
    acks = list(zip(window.roots[window.order].tolist(), window.vals[window.order].tolist(), strict=True))
    # Other objects than those of the acks, as if they came from a log.
    trees = list(zip(window.roots.tolist(), window.vals.tolist(), strict=True))
    old, new = dict(trees[: window.pending]), trees[window.pending :]

    def run() -> float:
        ledger = dict(old)
        began = clock()
        for start in range(0, window.turns, BATCH):
            for root, val in acks[start : start + BATCH]:
                checksum = ledger[root] ^ val
                if checksum:
                    ledger[root] = checksum
                else:
                    del ledger[root]
            for root, val in new[start : start + BATCH]:
                ledger[root] = ledger.get(root, 0) ^ val
        seconds = clock() - began
        assert len(ledger) == window.pending
        return 2 * window.turns / seconds

    return run
