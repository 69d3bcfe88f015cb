"""Which ack batches are repeats, and which come from a writer that was replaced, according to the log alone.

Sessions that were opened before the log is read count as current until another opens (ADR 3). No ack is ever wrong
because of a mistake here (see `acking-spec`): a batch wrongly dropped or applied only delays trees until they time out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tuple_tree.rotating_map import RotatingMap

_REMEMBERED: Final = 16
"""Superseded sessions kept for each writer: it would have to restart that often within the window."""
_KEY_BYTES: Final = 8  # the part of a session that is unique among those of its writer


class Standing(Enum):
    """Verdict on a batch, by its writer, session and sequence number."""

    CURRENT = auto()
    REPEATED = auto()
    SUPERSEDED = auto()


@dataclass(slots=True)
class _Writer:
    opened: bytes | None = None
    sequences: dict[bytes, int] = field(default_factory=dict)
    superseded: list[bytes] = field(default_factory=list)
    openings: list["_Opening"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Opening:
    offset: int
    sessions: tuple[bytes, ...]
    """The session that opened last, then the superseded ones, the latest first."""


class Sessions:
    """The writers of one partition of the ack log.

    A writer without batches for a whole window is forgotten. There is no clock inside: the owner rotates. Of writers
    that opened a session before the log is read, `opened` has the last one, and those it superseded.
    """

    def __init__(self, opened: Mapping[str, tuple[bytes, ...]] | None = None) -> None:
        self._writers: RotatingMap[str, _Writer] = RotatingMap(buckets=2)
        for writer, sessions in (opened or {}).items():
            opening = _Opening(-1, sessions)
            self._writers.put(writer, _Writer(sessions[0], superseded=list(sessions[1:]), openings=[opening]))

    def judge(self, writer: str, session: bytes, sequence: int, *, opens: bool, offset: int) -> Standing:
        known = self._writers.get(writer) or _Writer()
        self._writers.put(writer, known)
        session = session[:_KEY_BYTES]
        if opens and session != known.opened:
            if session in known.superseded:
                return Standing.SUPERSEDED
            self._open(known, session, offset)
        elif known.opened is not None and session != known.opened:
            return Standing.SUPERSEDED
        if sequence <= known.sequences.get(session, -1):
            return Standing.REPEATED
        known.sequences[session] = sequence
        return Standing.CURRENT

    def opened_before(self, offset: int) -> dict[str, tuple[bytes, ...]]:
        """For each writer that opened a session before `offset`: the last such session, and those it superseded.

        A reader from `offset` on does not see those openings, and would accept the batches of a zombie. The latest
        stands last.
        """
        openings: list[tuple[int, str, tuple[bytes, ...]]] = []
        for writer in self._writers:
            known = self._writers.get(writer)
            earlier = [opening for opening in known.openings if opening.offset < offset] if known else []
            if known is None or not earlier:
                continue
            known.openings = known.openings[len(earlier) - 1 :]
            openings.append((earlier[-1].offset, writer, earlier[-1].sessions))
        return {writer: sessions for _, writer, sessions in sorted(openings)}

    def rotate(self) -> None:
        """Forgets the writers that had no batch for two calls."""
        self._writers.rotate()

    def __len__(self) -> int:
        return len(self._writers)

    def _open(self, known: _Writer, session: bytes, offset: int) -> None:
        earlier = [other for other in known.sequences if other != session]
        known.superseded = [*dict.fromkeys([*earlier, *known.superseded])][:_REMEMBERED]
        if known.opened is not None and known.opened not in known.superseded:
            known.superseded.insert(0, known.opened)
        known.sequences = {key: last for key, last in known.sequences.items() if key == session}
        known.opened = session
        known.openings.append(_Opening(offset, (session, *known.superseded)))
