"""The commit of a spout for a partition of its source: where it began, how far it has emitted, and what is done."""

from collections.abc import Mapping
from dataclasses import dataclass

from tuple_tree.commit_metadata import (
    ATTEMPT,
    BEGIN,
    DONE,
    EMITTED,
    LARGEST_METADATA,
    NOTICES,
    Commit,
    read_commit_metadata,
)
from tuple_tree.done_sets import DoneSet
from tuple_tree.offsets import Runs
from tuple_tree.positions import MAX_ATTEMPTS


@dataclass(frozen=True, slots=True)
class SourceCommit:
    """The commit of the group for a partition.

    Attributes:
        done: the messages that are done, and how often open ones have failed. Those before `begin` are only skipped.
        next_attempt: the first attempt that no owner of the partition has used; None if another program committed.
        begin: no owner has emitted a message before this offset since the group has begun, or was reset.
        emitted_to: no owner has emitted a message from this offset on.
        is_complete: False if the driver of a spout in Spark ran that may have emitted more.
    """

    done: DoneSet
    next_attempt: int | None = None
    begin: int = 0
    emitted_to: int = 0
    is_complete: bool = True

    @property
    def offset(self) -> int:
        """All messages before it are done or skipped."""
        return self.done.offset

    @property
    def processed(self) -> DoneSet:
        """The messages that were emitted and are done, without failures."""
        if not self.begin:
            return DoneSet(self.offset, self.done.runs)
        before = [(self.begin, self.offset)] if self.begin < self.offset else []
        return DoneSet(0, [*before, *self.done.runs])

    def open_runs(self, end: int) -> Runs:
        """Runs of offsets before `end` that an owner may have emitted, and that are not done."""
        begins = [self.offset, *(end for _, end in self.done.runs)]
        last = max(self.emitted_to, self.done.known_to) if self.is_complete else end
        ends = [*(begin for begin, _ in self.done.runs), last]
        runs = ((begin, min(end, stop)) for begin, stop in zip(begins, ends, strict=True))
        return [(begin, stop) for begin, stop in runs if begin < stop]

    def made(self, room: int = LARGEST_METADATA) -> Commit:
        """The commit as Kafka takes it; its metadata has `room` bytes at most."""
        numbers = {ATTEMPT: self.next_attempt, BEGIN: self.begin or None, EMITTED: self.emitted_to or None}
        return Commit.of(self.done, {name: str(each) for name, each in numbers.items() if each is not None}, room)

    @classmethod
    def read(cls, offset: int, metadata: str | None) -> "SourceCommit":
        """Reads a committed offset and its metadata; raises `CommitError` if they cannot be read."""
        texts = read_commit_metadata(offset, metadata) or {}
        done = DoneSet.read(offset, texts.get(DONE, ""))
        attempt = _number(texts, ATTEMPT)
        # The version before has not committed how far it has emitted, but what is done or has failed was emitted.
        known_to = max((each + 1 for each in done.failures), default=0)
        emitted = _number(texts, EMITTED)
        return cls(
            done,
            None if attempt is None else attempt % MAX_ATTEMPTS,
            _number(texts, BEGIN) or 0,
            emitted or known_to,
            emitted is not None or NOTICES not in texts,
        )


def _number(texts: Mapping[str, str], name: str) -> int | None:
    digits = texts.get(name, "")
    return int(digits) if digits.isascii() and digits.isdigit() else None
