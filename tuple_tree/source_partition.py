"""A partition of a spout's source: its open messages, how often they have failed, and what its owner has reserved.

An owner of a partition must not use a root that may still be open in a ledger under an earlier owner: the tree would
mix the edges of two deliveries and could only time out. So the numbers of attempts continue from owner to owner: the
metadata of the committed offset has the first unused one, and a new owner commits a reservation of some before it emits
a message. See ADR 10.

In the same way, the metadata has an offset up to which messages may have been emitted, and an owner commits a higher
one before it emits beyond it. So a new owner knows which messages an earlier owner may have left open. See ADR 32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tuple_tree.done_sets import DoneSet
from tuple_tree.messages import Failure
from tuple_tree.offsets import OffsetManager
from tuple_tree.positions import MAX_ATTEMPTS, MAX_OFFSET, OFFSET_SHIFT, Position, position_word
from tuple_tree.source_commits import SourceCommit

RESERVED: Final = 4  # attempts that an owner takes at once: the first delivery and three retries
MOST_RESERVED: Final = 16  # attempts of an owner; further retries use these again, whose trees have failed long ago
LEAST_AHEAD: Final = 10  # offsets that an owner may emit without another commit, at least
MOST_AHEAD: Final = 1_000_000
AHEAD_SECONDS: Final = 1.0  # an owner that needs more within this time takes twice as many, and otherwise half


class SourcePartition(NamedTuple):
    """The name of a partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(slots=True, eq=False)
class FailedMessage:
    """A message that has failed and is not done.

    Attributes:
        failures: how often, under all owners.
        attempt: the number of its last delivery by this owner, from 0.
        last: the last failure under this owner; None without one.
        exhausted: why it is not delivered again; empty otherwise.
        kind: its retry queue.
        is_open: whether it counts as emitted there.
        separator: of an attempt that has the root of an earlier one: whether a record between their answers is
            delivered; None if none was sent.
    """

    failures: int = 0
    attempt: int = 0
    last: Failure | None = None
    exhausted: str = ""
    kind: int = 0
    is_open: bool = False
    separator: bool | None = None

    @property
    def repeats_root(self) -> bool:
        """Whether the next delivery has the root of an earlier one by this owner."""
        return self.attempt >= MOST_RESERVED


class OwnedPartition:
    """A source partition of a task.

    Args:
        number: its number in positional roots.
        spout: the number of the spout there.
        start: where this owner begins.
        end: the end of the log.
        committed: what the last owner has committed.
        is_replayed: whether a message is open until it is done; otherwise it is done when it may be emitted.
        is_transactional: whether commits are made in transactions, except those of reservations.

    Attributes:
        offsets: the open messages.
        failed: messages that have failed and are not done, by offset.
        inherited_to: after the last message that an earlier owner may have emitted.
        read_to: after the last message that was emitted.
        buffered_to: after the last message that was read.
        may_emit_to: messages before this offset may be emitted without another commit.
    """

    def __init__(
        self,
        at: SourcePartition,
        number: int,
        spout: int,
        topic_key: int,
        start: int,
        end: int,
        committed: SourceCommit | None,
        *,
        is_replayed: bool,
        is_transactional: bool = False,
    ) -> None:
        committed = committed or SourceCommit(DoneSet(start))
        done = committed.done
        # Without an attempt, no owner has committed: this one is the first, or an operator has reset the offset.
        self._begin = start if committed.next_attempt is None else committed.begin
        self.inherited_to = max(start, min(end, committed.emitted_to), done.known_to) if is_replayed else start
        self._is_replayed = is_replayed
        self.at, self.number, self.topic_key = at, number, topic_key
        self.first_key = number * MAX_OFFSET
        self.offsets = OffsetManager(start, done.runs, self.inherited_to)
        self.failed = {at: FailedMessage(count) for at, count in done.failures.items() if at >= start}
        self.read_to = self.buffered_to = self._committed_to = start
        self.may_emit_to = self._reserved_to = self.inherited_to
        self._ahead, self._reserved_at = LEAST_AHEAD, 0.0
        self.is_paused = False
        # The done set that transactions have committed; None without transactions.
        self._done: DoneSet | None = done if is_transactional else None
        self._next = committed  # the result of the last `next_commit`
        self._first_attempt = committed.next_attempt or 0  # that no earlier owner has used
        self._attempts = self._reserved_attempts = RESERVED
        self._first_id = position_word(Position(spout, number, 0))
        self.first_attempt_id = self._first_id | self._first_attempt  # of the first delivery of offset 0

    # Messages

    @property
    def has_inherited(self) -> bool:
        """Whether messages that an earlier owner may have emitted were not read yet."""
        return self.read_to < self.inherited_to

    def start(self, offset: int) -> bool:
        """Opens a message; they must come in ascending order. Returns False if it is done already."""
        self._forget_failures(offset)  # messages that were in the log under an earlier owner
        self.read_to = offset + 1
        return not self._is_replayed or self.offsets.start(offset)

    def start_run(self, begin: int, end: int) -> bool:
        """Opens the messages from `begin` to `end - 1`; returns False and changes nothing if each needs `start`."""
        if self.failed or begin < self.read_to or (self._is_replayed and end > MAX_OFFSET):
            return False
        if self._is_replayed and not self.offsets.start_run(begin, end):
            return False
        self.read_to = end
        return True

    def skip_to(self, offset: int) -> None:
        """Skips to an offset: the log has no message between the last one that was started and this offset."""
        if offset <= self.read_to:
            return
        self._forget_failures(offset)
        self.read_to = offset
        if self._is_replayed:
            self.offsets.skip_to(offset)

    def done(self, offsets: Sequence[int]) -> list[FailedMessage]:
        """Closes messages; returns the failed ones."""
        if self._is_replayed:
            self.offsets.all_done(offsets)
        return [self.failed.pop(offset) for offset in self.failed.keys() & offsets] if self.failed else []

    def attempt_id(self, offset: int) -> int:
        """The `position_word` of the last delivery of a message, or of the next one after a failure."""
        failed = self.failed.get(offset)
        number = 0 if failed is None else _number(failed.attempt)
        return self._first_id | offset << OFFSET_SHIFT | (self._first_attempt + number) % MAX_ATTEMPTS

    def _forget_failures(self, offset: int) -> None:
        """Forgets the failures of messages between the last one that was started and an offset."""
        if self.failed and offset > self.read_to:
            gone = range(self.read_to, offset)
            for each in gone if len(gone) < len(self.failed) else [each for each in self.failed if each in gone]:
                self.failed.pop(each, None)

    # Commits

    @property
    def next_attempt(self) -> int:
        """The first attempt that a next owner may use."""
        return (self._first_attempt + self._reserved_attempts) % MAX_ATTEMPTS

    @property
    def commit(self) -> SourceCommit:
        """The commit of messages that are done, or may be emitted if they are not replayed."""
        if not self._is_replayed:
            return self._commit_of(DoneSet(self._reserved_to))
        failures = {offset: each.failures for offset, each in self.failed.items()}
        return self._commit_of(DoneSet(self.offsets.committable or 0, self.offsets.runs, failures=failures))

    def next_commit(self) -> SourceCommit:
        """The `commit`; `committed` is called when it is committed."""
        self._next = self.commit
        return self._next

    def committed(self) -> None:
        """Notes that the last result of `next_commit` is committed."""
        if self._done is not None:
            self._done = self._next.done
        self._committed_to = self._next.offset

    @property
    def reservation(self) -> SourceCommit:
        """A commit of reserved attempts and offsets, without messages that are done in the open transaction."""
        return self.commit if self._done is None else self._commit_of(self._done)

    def _commit_of(self, done: DoneSet) -> SourceCommit:
        return SourceCommit(done, self.next_attempt, self._begin, self._reserved_to if self._is_replayed else 0)

    @property
    def progress_key(self) -> Any:
        """A value that changes whenever the result of `commit` changes."""
        return self.read_to, self._reserved_to, self.offsets.committable, self.offsets.open_count

    # Reservations

    @property
    def is_behind(self) -> bool:
        """Whether messages that were read must not be emitted without another commit."""
        return self.may_emit_to < self.buffered_to

    def reserve(self, to: int, now: float) -> None:
        """Takes the offsets before `to`, which `reserved` allows to emit; for replays about those of a second more."""
        if to <= self._reserved_to:
            return  # a commit of that has failed
        if self._is_replayed:
            is_fast = now < self._reserved_at + AHEAD_SECONDS
            self._ahead = min(2 * self._ahead, MOST_AHEAD) if is_fast else max(self._ahead // 2, LEAST_AHEAD)
            self._reserved_at = now
            to += self._ahead
        self._reserved_to = max(self._reserved_to, to)
        self._committed_to = max(self._committed_to, to)

    def has_attempt(self, failed: FailedMessage) -> bool:
        """Whether a message may be delivered again; takes more attempts if not, which `reserved` allows to use."""
        if _number(failed.attempt) < self._attempts:
            return True
        self._reserved_attempts = min(self._attempts + RESERVED, MOST_RESERVED)
        return False

    def reserved(self) -> None:
        """Notes that a `reservation` is committed."""
        self.may_emit_to, self._attempts = self._reserved_to, self._reserved_attempts

    def trim(self) -> None:
        """Gives back the offsets that were not emitted; a message beyond is emitted after another `reserve`."""
        self.may_emit_to = self._reserved_to = max(self.read_to, self.inherited_to)

    @property
    def lost(self) -> tuple[int, int] | None:
        """Offsets that no process will emit: they may be committed with `at_most_once`, and were not emitted."""
        is_any = not self._is_replayed and self.read_to < self._committed_to
        return (self.read_to, self._committed_to) if is_any else None


def _number(attempt: int) -> int:
    """The number of a delivery among the attempts of an owner."""
    return attempt if attempt < MOST_RESERVED else 1 + (attempt - 1) % (MOST_RESERVED - 1)
