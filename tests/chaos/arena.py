"""The effects of each message of a topology, in a file that all its processes map.

A write is seen by the others at once and outlives the process that made it, whatever kills that. So an ack is known to
be false if an effect is missing when its spout's `ack` is called.
"""

from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

MESSAGES: Final = 2_000_000
PARTS: Final = 2
"""Tuples that `split` emits for each message, and so effects of each."""

_ROW: Final = np.dtype(
    [("emitted_at", "f8"), ("acked_at", "f8"), ("effects", "u1", (PARTS,)), ("false_acks", "u1"), ("fails", "u1")]
)


class Arena:
    """One row a message, by its number; times are seconds since the epoch, 0 where it did not happen.

    Args:
        path: of the file.
        mode: `w+` creates it, `r+` opens it.
    """

    def __init__(self, path: Path, mode: Literal["w+", "r+"] = "r+") -> None:
        self._rows = np.memmap(path, _ROW, mode, shape=(MESSAGES,))
        self.emitted_at: NDArray[np.float64] = self._rows["emitted_at"]
        """Shape `(MESSAGES,)`, dtype `f8`: when it was emitted, or written to the source, first."""
        self.acked_at: NDArray[np.float64] = self._rows["acked_at"]
        """Shape `(MESSAGES,)`, dtype `f8`: when its spout's `ack` was called first."""
        self.effects: NDArray[np.uint8] = self._rows["effects"]
        """Shape `(MESSAGES, PARTS)`, dtype `u1`: how often each part was executed by the sink; ends at 255."""
        self.false_acks: NDArray[np.uint8] = self._rows["false_acks"]
        """Shape `(MESSAGES,)`, dtype `u1`: 1 if an effect was missing when it was acked."""
        self.fails: NDArray[np.uint8] = self._rows["fails"]
        """Shape `(MESSAGES,)`, dtype `u1`: how often the `fail` of its spout was called; ends at 255."""

    @property
    def emitted(self) -> int:
        """How many messages there are; their numbers begin at 0, without gaps."""
        return int(np.count_nonzero(self.emitted_at))

    @property
    def acked(self) -> int:
        """How many were acked."""
        return int(np.count_nonzero(self.acked_at))

    @property
    def incomplete(self) -> NDArray[np.bool_]:
        """Of each message that there is, whether an effect is missing."""
        missing: NDArray[np.bool_] = (self.effects[: self.emitted] == 0).any(axis=1)
        return missing

    def emit(self, number: int, now: float) -> None:
        """Notes that a message is there."""
        if not self.emitted_at[number]:
            self.emitted_at[number] = now

    def ack(self, number: int, now: float) -> None:
        """Records a call of the spout's `ack`, and whether all effects existed."""
        if not self.effects[number].all():
            self.false_acks[number] = 1
        if not self.acked_at[number]:
            self.acked_at[number] = now

    def fail(self, number: int) -> None:
        """Records a call of the spout's `fail`."""
        if self.fails[number] < 255:
            self.fails[number] += 1

    def effect(self, number: int, part: int) -> None:
        """Records that the sink has executed a part."""
        if self.effects[number, part] < 255:
            self.effects[number, part] += 1

    def complete_since(self, since: float) -> int:
        """The longest run of consecutive messages, emitted after `since`, that have all effects."""
        first = int(np.searchsorted(self.emitted_at[: self.emitted], since))
        incomplete = self.incomplete[first:]
        return int(np.diff(np.flatnonzero(incomplete), prepend=-1, append=len(incomplete)).max()) - 1

    def first_ack_of_newer(self, since: float) -> float | None:
        """The time of the first ack of a message that was emitted after `since`; None if there is none."""
        first = int(np.searchsorted(self.emitted_at[: self.emitted], since))
        acked = self.acked_at[first : self.emitted]
        acked = acked[acked > 0]
        return float(acked.min()) if len(acked) else None
