"""What a record of `{topology}.dead-letters` says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tuple_tree.dead_letters import PREFIX, REPLAYED

Header = tuple[str, bytes | None]

_OURS: Final = tuple(PREFIX + name for name in ("topic", "partition", "offset", "reason", "detail", "by", "index"))
UNKNOWN: Final = "unknown"
"""The reason of a record that somebody else has put there."""
_NOWHERE: Final = -1
_DIGITS: Final = 19  # of an offset at most; Python refuses to read numbers that are very long


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be used.

    Attributes:
        offset: of the dead letter, by which it is named.
        timestamp_ms: when it became one, in milliseconds since the epoch.
        key: as it was.
        value: as it was; None if it had none, or left no room for the headers of a dead letter.
        headers: its own, as they were.
        topic: where it lay; empty if that is not said.
        partition: of that topic; -1 if that is not said.
        position: its offset there; -1 if that is not said.
        reason: a short, stable word.
        detail: a sentence.
        by: who could not use it.
        index: which of the tuples of the record that lay there; -1 for all of it.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    topic: str
    partition: int
    position: int
    reason: str
    detail: str
    by: str
    index: int = _NOWHERE

    @property
    def component(self) -> str:
        """The component that could not use it, or `acker`."""
        return self.by.partition("/")[0]

    @property
    def place(self) -> str:
        """Where it lay, for a person."""
        if not self.topic:
            return "it does not say where"
        return f"{self.topic}[{self.partition}]@{self.position}" + ("" if self.index < 0 else f".{self.index}")


@dataclass(frozen=True, slots=True)
class Replay:
    """That a dead letter was replayed.

    Attributes:
        of: the offset of the dead letter.
        timestamp_ms: when, in milliseconds since the epoch.
    """

    of: int
    timestamp_ms: int


def parse(
    offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> DeadLetter | Replay:
    """Reads a record of `{topology}.dead-letters`; whatever stands there, something is made of it.

    Args:
        offset: of the record.
        timestamp_ms: of the record.
        key: of the record.
        value: of the record.
        headers: of the record.
    """
    if key is None and value is None and len(headers) == 1 and headers[0][0] == REPLAYED:
        of = _number(headers[0][1])
        if of >= 0:
            return Replay(of, timestamp_ms)
    own, said = _split(headers)
    return DeadLetter(
        offset,
        timestamp_ms,
        key,
        value,
        own,
        _text(said.get(_OURS[0])),
        _number(said.get(_OURS[1])),
        _number(said.get(_OURS[2])),
        _text(said.get(_OURS[3])) or UNKNOWN,
        _text(said.get(_OURS[4])),
        _text(said.get(_OURS[5])),
        _number(said.get(_OURS[6])),
    )


def _split(headers: Sequence[Header]) -> tuple[tuple[Header, ...], dict[str, bytes | None]]:
    """The record's own headers, and those of the dead letter: the last ones, each name once.

    A record may have been a dead letter before, and be handed on with what was said of it then.
    """
    said: dict[str, bytes | None] = {}
    end = len(headers)
    while end and headers[end - 1][0] in _OURS and headers[end - 1][0] not in said:
        end -= 1
        said[headers[end][0]] = headers[end][1]
    return tuple(headers[:end]), said


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")


def _number(value: bytes | None) -> int:
    text = _text(value)
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else _NOWHERE
