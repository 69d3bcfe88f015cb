"""Which ack batches are repeats, and which come from a writer that was replaced: the log itself says so.

Within a session, what does not exceed the last sequence number is a repeat. A batch that opens a session supersedes
the writer's earlier ones, whose later batches are dropped. Sessions that were opened before the log is read count as
current until another opens. No ack is ever wrong because of a mistake here (see `acking-spec`): a batch wrongly
dropped or applied only delays trees until they time out.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tuple_tree.rotating_map import RotatingMap

_REMEMBERED: Final = 64
"""Superseded sessions kept for each writer: it would have to restart that often within the window."""


class Standing(Enum):
    """What a batch is, judged by its writer, session and sequence number."""

    CURRENT = auto()
    REPEATED = auto()
    SUPERSEDED = auto()


@dataclass(slots=True)
class _Writer:
    opened: bytes | None = None
    sequences: dict[bytes, int] = field(default_factory=dict)
    superseded: dict[bytes, None] = field(default_factory=dict)


class Sessions:
    """The writers of one partition of the ack log.

    A writer that says nothing for a whole window is forgotten. There is no clock inside: the owner rotates.
    """

    def __init__(self) -> None:
        self._writers: RotatingMap[str, _Writer] = RotatingMap(buckets=2)

    def judge(self, writer: str, session: bytes, sequence: int, *, opens: bool) -> Standing:
        """Says what the batch is, and remembers it."""
        known = self._writers.get(writer) or _Writer()
        self._writers.put(writer, known)
        if opens and session != known.opened:
            if session in known.superseded:
                return Standing.SUPERSEDED
            self._open(known, session)
        elif known.opened is not None and session != known.opened:
            return Standing.SUPERSEDED
        if sequence <= known.sequences.get(session, -1):
            return Standing.REPEATED
        known.sequences[session] = sequence
        return Standing.CURRENT

    def rotate(self) -> None:
        """Forgets the writers that were silent for two calls."""
        self._writers.rotate()

    def __len__(self) -> int:
        return len(self._writers)

    @staticmethod
    def _open(known: _Writer, session: bytes) -> None:
        last = known.sequences.pop(session, None)
        known.superseded.update(dict.fromkeys(known.sequences))
        while len(known.superseded) > _REMEMBERED:
            del known.superseded[next(iter(known.superseded))]
        known.sequences = {} if last is None else {session: last}
        known.opened = session
