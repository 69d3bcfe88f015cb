"""The two messages of the wire contract, as frozen dataclasses with numpy columns.

Columns are `IdColumn`s: shape `(n,)`, dtype `>u8` when read from the wire, any unsigned 64-bit dtype when built.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.ids import IdColumn

SESSION_BYTES: Final = 16
_NO_IDS: Final[IdColumn] = np.empty(0, dtype=">u8")
_NO_IDS.flags.writeable = False


def _no_ids() -> IdColumn:
    return _NO_IDS


def _no_reasons() -> NDArray[np.uint8]:
    return np.empty(0, dtype=np.uint8)


class FailReason(IntEnum):
    """Why a tree failed; the number is what stands in a notice."""

    FAILED = 1
    """A bolt failed a tuple of the tree; the notice carries its message."""
    TIMEOUT = 2
    """No progress for the spout's message timeout."""
    TOO_OLD = 3
    """Progress, but no end, for the largest tree age."""
    LOST = 4
    """No outcome at all for the largest tree age and a margin: decided by the spout itself, never on the wire."""

    @property
    def word(self) -> str:
        """The reason as users, logs and metrics see it."""
        return self.name.lower()

    @property
    def by_bolt(self) -> bool:
        """Whether a bolt gives it; the others are decided when a tree expires."""
        return self is FailReason.FAILED

    @property
    def on_wire(self) -> bool:
        """Whether it may stand in a notice."""
        return self is not FailReason.LOST


@dataclass(frozen=True, slots=True)
class SpoutAddress:
    """The receiver of the outcome of a tree: a partition of `{topology}.notices.{spout}`.

    A tree of this spout may make no progress for `timeout_ms` milliseconds.
    """

    topic: str
    task: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class AckBatch:
    """The entries of one writer for one partition of the ack log: inits first, then acks, fails and resets."""

    writer: str  # `component/task`; in Spark, a partition of a bolt's inbox, or an attempt of a task
    session: bytes  # 16 random bytes, drawn by each new owner of the writer
    sequence: int  # rises with each batch of a session on a partition; what does not rise is a repeat
    opens: bool = False  # the first batch of a session on a partition; it supersedes the writer's earlier sessions
    spout: SpoutAddress | None = None  # the owner of the inits; None where there are none
    init_roots: IdColumn = field(default_factory=_no_ids)
    init_vals: IdColumn = field(default_factory=_no_ids)  # XOR of the edge ids of every recipient
    ack_roots: IdColumn = field(default_factory=_no_ids)
    ack_vals: IdColumn = field(default_factory=_no_ids)
    fail_roots: IdColumn = field(default_factory=_no_ids)
    fail_messages: tuple[str, ...] = ()  # why, one for each of `fail_roots`
    reset_roots: IdColumn = field(default_factory=_no_ids)  # trees whose clock starts again

    def __len__(self) -> int:
        return len(self.init_roots) + len(self.ack_roots) + len(self.fail_roots) + len(self.reset_roots)


@dataclass(frozen=True, slots=True, eq=False)
class NoticeBatch:
    """Outcomes of tuple trees for one task of a spout."""

    acks_partition: int  # of `{topology}.acks`, whose ledger decided
    acks_offset: int  # the ledger had applied everything before this offset
    acked_roots: IdColumn = field(default_factory=_no_ids)
    failed_roots: IdColumn = field(default_factory=_no_ids)
    fail_reasons: NDArray[np.uint8] = field(default_factory=_no_reasons)  # `FailReason` numbers, of `failed_roots`
    fail_messages: tuple[str, ...] = ()  # one for each of `failed_roots`, empty without a message of a bolt
    failed_by: tuple[str, ...] = ()
    """The writer of each fail, `component/task`, empty where no bolt failed the tree; or nothing at all. It travels in
    a header, and only people read it."""

    def __len__(self) -> int:
        return len(self.acked_roots) + len(self.failed_roots)
