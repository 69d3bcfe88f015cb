"""The last attempt and the last failure of a message, its outcome, and its dead letter: searches in topics.

The ack log, notices and dead letters are read from their end, outcomes around the time of the message.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from confluent_kafka import Message

from inspection.dead_letters import DeadLetter, parse
from inspection.message_status.blocks import BlockReader
from inspection.message_status.outcome_topics import OutcomeTopic
from inspection.message_status.verdict import DEAD_LETTER, LastFailure, SourceMessage
from kafka_clients.log_reader import Place
from tuple_tree.anchors import ANCHORS_HEADER, readable_roots
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_BYTES
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason, decode_ack_batch, decode_notice_batch, failed_by_of
from tuple_tree.outcome_records import OutcomeRecord

_PREFIX: Final = 5
"""The first bytes of a root, which it shares with those of the other attempts at its message."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The init of a tree, by the ack log."""

    root: int
    at_ms: int


class _Mentions:
    """Whether a value has one of some roots, or one that begins as one of them: it decides what is decoded."""

    def __init__(self, roots: Iterable[int]) -> None:
        self.roots = np.array(sorted(set(roots)), np.uint64)
        self._prefixes = {root.to_bytes(ID_BYTES, "big")[:_PREFIX] for root in self.roots.tolist()}

    def __call__(self, value: bytes | None) -> bool:
        return value is not None and any(prefix in value for prefix in self._prefixes)

    def rows(self, roots: np.ndarray) -> list[int]:
        found: list[int] = np.flatnonzero(np.isin(roots.astype(np.uint64), self.roots)).tolist()
        return found


def last_attempt(reader: BlockReader, log: Mapping[Place, range], roots: Collection[int]) -> Attempt | None:
    """The last init of one of these roots in ranges of the ack log."""
    wanted, found = _Mentions(roots), list[tuple[int, int, int]]()

    def take(message: Message) -> None:
        if not wanted(message.value()):
            return
        with suppress(WireError):
            inits = decode_ack_batch(message.value()).init_roots
            found.extend((message.timestamp()[1], message.offset() or 0, int(inits[row])) for row in wanted.rows(inits))

    reader.read("the ack log", log, take, lambda: bool(found))
    if not found:
        return None
    at_ms, _, root = max(found)
    return Attempt(root, at_ms)


def last_failure(
    reader: BlockReader, notices: Mapping[Place, range], roots: Collection[int], manifest: Manifest
) -> LastFailure | None:
    """The last failure of one of these roots in ranges of the notices of its spout."""
    wanted, found = _Mentions(roots), list[LastFailure]()

    def take(message: Message) -> None:
        if not wanted(message.value()):
            return
        with suppress(WireError):
            batch = decode_notice_batch(message.value())
            by = failed_by_of(dict(message.headers() or ()), len(batch.failed_roots))
            for row in wanted.rows(batch.failed_roots):
                reason = FailReason(int(batch.fail_reasons[row])).word
                component, text = manifest.failed_in(by[row], batch.fail_messages[row])
                found.append(LastFailure(reason, component or None, text, message.timestamp()[1]))

    reader.read("notices", notices, take, lambda: bool(found))
    return max(found, key=lambda each: each.at_ms or 0, default=None)


def outcome_of(
    reader: BlockReader,
    parts: Sequence[Mapping[Place, range]],
    around: Mapping[Place, int],
    message: SourceMessage,
    topic: OutcomeTopic,
    has_letter_since: Callable[[int], bool],
) -> OutcomeRecord | None:
    """The outcome of a message in parts of its topic: of several the last one.

    It has several if a process has died before the commit, or if the offsets of the group were reset to process the
    message once more. Then the last one may be far from the message. So the parts are read to their ends if an outcome
    is a dead letter, or if the message has a later dead letter.

    Args:
        parts: ranges of offsets to search, one after the other, until an outcome is found.
        around: the offsets of the partitions near which it is expected.
        has_letter_since: whether the message has a dead letter that is not older than a time, in milliseconds since
            the epoch.
    """
    found: list[OutcomeRecord] = []
    key, at = message.key, (message.topic, message.partition, message.offset)

    def take(record: Message) -> None:
        # Nearly all are of other messages. An outcome that was too large for a record with its key has none.
        if key is not None and record.key() not in (key, None):
            return
        read = topic.read(record)
        if read is not None and (read.topic, read.partition, read.offset) == at:
            found.append(read)

    for part in parts:
        reader.read("outcomes", part, take, lambda: bool(found), around=around)
        if found and (_last(found).outcome == DEAD_LETTER or has_letter_since(_last(found).end)):
            reader.read("outcomes", part, take)
        if found:
            return _last(found)
    return None


def _last(outcomes: Iterable[OutcomeRecord]) -> OutcomeRecord:
    return max(outcomes, key=lambda each: each.end)


def dead_letter(
    reader: BlockReader, offset_ranges: Mapping[Place, range], message: SourceMessage, roots: Iterable[int]
) -> DeadLetter | None:
    """The last dead letter of a message, or of a tuple of one of these roots."""
    found: list[DeadLetter] = []
    at, of_tuples = (message.topic, message.partition, message.offset), _Mentions(roots)

    def take(record: Message) -> None:
        letter = parse(record)
        if not isinstance(letter, DeadLetter):
            return
        anchors = dict(letter.headers).get(ANCHORS_HEADER) or b""
        if (letter.topic, letter.partition, letter.position) == at or (
            of_tuples(anchors) and of_tuples.rows(readable_roots(anchors))
        ):
            found.append(letter)

    reader.read("dead letters", offset_ranges, take, lambda: bool(found))
    return max(found, key=lambda letter: letter.offset, default=None)
