"""Records of `{topology}.dead-letters`, decoded, and filters for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tuple_tree.headers import PREFIX, REPLAYED

Header = tuple[str, bytes | None]

_OURS: Final = tuple(PREFIX + name for name in ("topic", "partition", "offset", "reason", "detail", "by", "index"))
UNKNOWN: Final = "unknown"  # the reason of a record that another application has put there
_NOWHERE: Final = -1
_DIGITS: Final = 19  # of an offset at most; Python refuses to read numbers that are very long


@dataclass(frozen=True, slots=True)
class DeadLetter:
    offset: int  # of the dead letter, by which it is named
    timestamp_ms: int  # of the dead letter, in milliseconds since the epoch
    key: bytes | None  # as it was
    value: bytes | None  # as it was; None if it had none, or left no room for the headers of a dead letter
    headers: tuple[Header, ...]  # its own, as they were
    topic: str  # the original one; empty if the headers lack it
    partition: int  # of that topic; -1 if the headers lack it
    position: int  # its offset there; -1 if the headers lack it
    reason: str  # a short, stable word
    detail: str  # a sentence
    by: str  # the task that could not use it, as `component/task`
    index: int = _NOWHERE  # which of the tuples of the original record; -1 for all of it

    @property
    def component(self) -> str:
        return self.by.partition("/")[0]

    @property
    def place(self) -> str:
        if not self.topic:
            return "unknown position"
        return f"{self.topic}[{self.partition}]@{self.position}" + ("" if self.index < 0 else f".{self.index}")


@dataclass(frozen=True, slots=True)
class Replay:
    of: int  # the offset of the dead letter
    timestamp_ms: int  # when, in milliseconds since the epoch


def parse(
    offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> DeadLetter | Replay:
    """Reads a record of `{topology}.dead-letters`; no content is invalid."""
    if key is None and value is None and len(headers) == 1 and headers[0][0] == REPLAYED:
        of = _number(headers[0][1])
        if of >= 0:
            return Replay(of, timestamp_ms)
    own, added = _split(headers)
    topic, partition, position, reason, detail, by, index = (added.get(name) for name in _OURS)
    return DeadLetter(
        *(offset, timestamp_ms, key, value, own),
        _text(topic),
        _number(partition),
        _number(position),
        _text(reason) or UNKNOWN,
        _text(detail),
        _text(by),
        _number(index),
    )


def _split(headers: Sequence[Header]) -> tuple[tuple[Header, ...], dict[str, bytes | None]]:
    """The record's own headers, which may be of an earlier dead letter, and those of this one: the last of each."""
    added: dict[str, bytes | None] = {}
    end = len(headers)
    while end and headers[end - 1][0] in _OURS and headers[end - 1][0] not in added:
        end -= 1
        added[headers[end][0]] = headers[end][1]
    return tuple(headers[:end]), added


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")


def _number(value: bytes | None) -> int:
    text = _text(value)
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else _NOWHERE


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, all of which must hold; an empty one selects everything."""

    reasons: frozenset[str] = frozenset()  # any of these
    topics: frozenset[str] = frozenset()  # any of these original topics
    components: frozenset[str] = frozenset()  # any of these that could not use it
    since_ms: int | None = None  # not before, in milliseconds since the epoch
    offsets: frozenset[int] = frozenset()  # any of these offsets of dead letters

    def __bool__(self) -> bool:
        return self != Selection()

    def takes(self, letter: DeadLetter) -> bool:
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.topics or letter.topic in self.topics)
            and (not self.components or letter.component in self.components)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (not self.offsets or letter.offset in self.offsets)
        )
