"""The source partitions of a spout's task: their open messages, their commits, and the attempts of this owner.

An owner of a partition must not use a root that may still be open in a ledger under an earlier owner: the tree would
mix the edges of two deliveries and could only time out. So the numbers of attempts continue from owner to owner: the
metadata of the committed offset has the first unused one, and a new owner commits a reservation of some before it emits
a message. See ADR 10.

In the same way, the metadata has an offset up to which messages may have been emitted, and an owner commits a higher
one before it emits beyond it. So a new owner knows which messages an earlier owner may have left open. See ADR 32.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from spout_sdk.errors import TopicsError
from spout_sdk.records import Record
from tuple_tree.done_sets import DoneSet
from tuple_tree.offsets import OffsetManager
from tuple_tree.positions import MAX_ATTEMPTS, MAX_OFFSET, MAX_PARTITIONS, OFFSET_SHIFT, Position, position_word
from tuple_tree.source_commits import SourceCommit

KEY_SHIFT: Final = 40  # the key of a message is `number << KEY_SHIFT | offset`
_OFFSET_MASK: Final = MAX_OFFSET - 1
RESERVED: Final = 4  # attempts that an owner takes at once: the first delivery and three retries
LEAST_AHEAD: Final = 10  # offsets that an owner may emit without another commit, at least
MOST_AHEAD: Final = 1_000_000
AHEAD_SECONDS: Final = 1.0  # an owner that needs more within this time takes twice as many, and otherwise half
MOST_RESERVED: Final = 16  # attempts of an owner; further retries use these again, whose trees have failed long ago


class SourcePartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class OffsetOutOfRange:
    """Messages from `expected` on were deleted before they were read; reading continues at `first`."""

    at: SourcePartition
    expected: int
    first: int


@dataclass(slots=True)
class Fetched:
    """The result of reading by position: records, offsets that retention has deleted, and offsets not read in time."""

    records: list[Record]
    gone: list[tuple[SourcePartition, int]]
    unread: list[tuple[SourcePartition, int]]


def owned_numbers(counts: Mapping[str, int], task: int, tasks: int) -> dict[SourcePartition, int]:
    """The partitions of a task, with their numbers in positional roots; topics have equal shares, and can grow.

    The partitions of a topic are assigned to the tasks in turn; the next topic begins one task later. So no partition
    moves if a topic grows. `counts` has the partitions of each topic, in the order in which the spout names them.
    """
    share = MAX_PARTITIONS // len(counts)
    owned = {}
    for index, (topic, count) in enumerate(counts.items()):
        if count > share:
            raise TopicsError(
                topic,
                f"has partition {share}, and positional roots have room for {share} of each of "
                f"{len(counts)} topics: read fewer topics with a spout, or copy the topic to one with fewer partitions",
            )
        for partition in range(count):
            if (index + partition) % tasks == task:
                owned[SourcePartition(topic, partition)] = index * share + partition
    return owned


def start_offset(
    at: SourcePartition, strategy: str, committed: SourceCommit | None, bounds: tuple[int, int]
) -> tuple[int, int]:
    """The offset to begin at, and how many messages, at most, were deleted between the committed offset and it."""
    first, end = bounds
    ours = committed is not None and committed.next_attempt is not None
    if committed is None or not (ours or strategy.startswith("uncommitted")):
        return (first if strategy.endswith("earliest") else end), 0
    if committed.done.known_to > end:
        raise TopicsError(
            str(at),
            f"ends at offset {end}, before offset {committed.done.known_to}, which its group has committed: if the "
            "topic was created again, reset the group's offsets",
        )
    return max(committed.offset, first), max(0, first - committed.offset)


class SourceProgress(NamedTuple):
    """Progress of a task in its source.

    Attributes:
        lag: messages that were not emitted yet, as far as is known without a request.
        uncommitted: offsets that were emitted and lie after the one to be committed.
        retries: messages that wait to be delivered again.
    """

    lag: int
    uncommitted: int
    retries: int


class OwnedPartition:
    """A source partition of a task: its open messages, and the attempts that may be used.

    Attributes:
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
        first_attempt = committed.next_attempt or 0
        # Without an attempt, no owner has committed: this one is the first, or an operator has reset the offset.
        self._begin = start if committed.next_attempt is None else committed.begin
        emitted_to = max(min(end, committed.emitted_to), committed.done.known_to) if is_replayed else start
        self.inherited_to = max(start, emitted_to)
        self._is_replayed = is_replayed
        self.at = at
        self.topic_key = topic_key
        self.key_base = number << KEY_SHIFT
        self.offsets = OffsetManager(start, committed.done.runs, self.inherited_to)
        # Failures of open messages, by offset: under all owners, as committed, and under this one, to number attempts.
        self._failures = {at: count for at, count in committed.done.failures.items() if at >= start}
        self._own_failures: dict[int, int] = {}
        self.read_to = start
        self.may_emit_to = self._reserved_to = self.inherited_to
        self.buffered_to = self._committed_to = start
        self._ahead, self._extended_at = LEAST_AHEAD, 0.0
        self.is_paused = False
        # The done set that transactions have committed; None without transactions.
        self._done: DoneSet | None = committed.done if is_transactional else None
        self._next = committed  # the result of the last `next_commit`
        self._first_attempt = first_attempt  # the first one that no earlier owner has used
        self._attempts = self._reserved_attempts = RESERVED
        self._word = position_word(Position(spout, number, 0))
        self.first_word = self._word | first_attempt  # the `position_word` of the first delivery of offset 0

    @property
    def next_attempt(self) -> int:
        """The first attempt that a next owner may use."""
        return (self._first_attempt + self._reserved_attempts) % MAX_ATTEMPTS

    @property
    def commit(self) -> SourceCommit:
        """The commit of messages that are done, or may be emitted if trees are not tracked."""
        if not self._is_replayed:
            return self._commit_of(DoneSet(self._reserved_to))
        committable: int = self.offsets.committable  # type: ignore[assignment]
        return self._commit_of(DoneSet(committable, self.offsets.runs, failures=self._failures))

    @property
    def reservation(self) -> SourceCommit:
        """A commit of reserved attempts and offsets, without messages that are done in the open transaction."""
        return self.commit if self._done is None else self._commit_of(self._done)

    def _commit_of(self, done: DoneSet) -> SourceCommit:
        return SourceCommit(done, self.next_attempt, self._begin, self._reserved_to if self._is_replayed else 0)

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
    def is_behind(self) -> bool:
        """Whether messages that were read must not be emitted without another commit."""
        return self.may_emit_to < self.buffered_to

    def extend(self, to: int, now: float) -> None:
        """Takes the offsets before `to`, which `reserved` allows to emit; for replays about those of a second more."""
        if to <= self._reserved_to:
            return  # a commit of that has failed
        if self._is_replayed:
            is_fast = now < self._extended_at + AHEAD_SECONDS
            self._ahead = min(2 * self._ahead, MOST_AHEAD) if is_fast else max(self._ahead // 2, LEAST_AHEAD)
            self._extended_at = now
            to += self._ahead
        self._reserved_to = max(self._reserved_to, to)
        self._committed_to = max(self._committed_to, to)

    def reserved(self) -> None:
        """Notes that a `reservation` is committed."""
        self.may_emit_to, self._attempts = self._reserved_to, self._reserved_attempts

    def trim(self) -> None:
        """Gives back the offsets that were not emitted; a message beyond is emitted after another `extend`."""
        self.may_emit_to = self._reserved_to = max(self.read_to, self.inherited_to)

    @property
    def lost(self) -> tuple[int, int] | None:
        """Offsets that no process will emit: they may be committed with `at_most_once`, and were not emitted."""
        is_any = not self._is_replayed and self.read_to < self._committed_to
        return (self.read_to, self._committed_to) if is_any else None

    @property
    def has_inherited(self) -> bool:
        """Whether messages that an earlier owner may have emitted were not read yet."""
        return self._is_replayed and self.read_to < self.inherited_to

    @property
    def has_failures(self) -> bool:
        """Whether any open message has failed."""
        return bool(self._failures)

    def start(self, offset: int) -> bool:
        """Opens a message; they must come in ascending order. Returns False if it is done already."""
        if self._failures and offset > self.read_to:
            # These messages were in the log under an earlier owner.
            gone = range(self.read_to, offset)
            for at in gone if len(gone) < len(self._failures) else [at for at in self._failures if at in gone]:
                self._failures.pop(at, None)
        self.read_to = offset + 1
        return not self._is_replayed or self.offsets.start(offset)

    def start_run(self, begin: int, end: int) -> bool:
        """Opens the messages from `begin` to `end - 1`; returns False and changes nothing if each needs `start`."""
        if self._failures or begin < self.read_to or (self._is_replayed and end > MAX_OFFSET):
            return False
        if self._is_replayed and not self.offsets.start_run(begin, end):
            return False
        self.read_to = end
        return True

    def skip_to(self, offset: int) -> None:
        """Skips to an offset: the log has no message between the last one that was started and this offset."""
        if offset <= self.read_to:
            return
        if self._failures:
            self._failures = {at: count for at, count in self._failures.items() if not self.read_to <= at < offset}
        self.read_to = offset
        if self._is_replayed:
            self.offsets.skip_to(offset)

    def failed(self, offset: int) -> int:
        """Counts a failure of a message, and returns how often it has failed, under earlier owners, too."""
        self._own_failures[offset] = self.own_failures(offset) + 1
        self._failures[offset] = failures = self.failures(offset) + 1
        return failures

    def failures(self, offset: int) -> int:
        """How often a message has failed, under earlier owners, too."""
        return self._failures.get(offset, 0)

    def own_failures(self, offset: int) -> int:
        """How often a message has failed under this owner."""
        return self._own_failures.get(offset, 0)

    def done(self, offset: int) -> None:
        if self._failures:
            self._failures.pop(offset, None)
            self._own_failures.pop(offset, None)
        if self._is_replayed:
            self.offsets.done(offset)

    def all_done(self, offsets: Sequence[int]) -> None:
        if self._failures:
            for offset in self._failures.keys() & offsets:
                del self._failures[offset]
                self._own_failures.pop(offset, None)
        if self._is_replayed:
            self.offsets.all_done(offsets)

    def has_attempt(self, failures: int) -> bool:
        """Whether a message may be delivered after `failures` failures; takes more attempts if not.

        They may be used once `reserved` is called.
        """
        if _number(failures) < self._attempts:
            return True
        self._reserved_attempts = min(self._attempts + RESERVED, MOST_RESERVED)
        return False

    def word(self, offset: int, failures: int) -> int:
        """The `position_word` of a delivery after `failures` failures."""
        return self._word | offset << OFFSET_SHIFT | (self._first_attempt + _number(failures)) % MAX_ATTEMPTS

    @staticmethod
    def repeats_root(failures: int) -> bool:
        """Whether a delivery after `failures` failures has the root of an earlier one by this owner."""
        return failures >= MOST_RESERVED


def _number(failures: int) -> int:
    """The number of a delivery among the attempts of an owner."""
    return failures if failures < MOST_RESERVED else 1 + (failures - 1) % (MOST_RESERVED - 1)


class OwnedPartitions:
    __slots__ = ("named", "numbered")

    def __init__(self) -> None:
        self.named: dict[tuple[str | None, int | None], OwnedPartition] = {}
        self.numbered: dict[int, OwnedPartition] = {}

    def add(self, each: OwnedPartition) -> None:
        self.named[each.at] = each
        self.numbered[each.key_base >> KEY_SHIFT] = each

    def skip_to(self, ends: Mapping[SourcePartition, int]) -> None:
        """Skips to ends of logs, which have no message between the last one that was started and their end."""
        for at, end in ends.items():
            self.named[at].skip_to(end)

    def key(self, topic: str | None, partition: int | None, offset: int | None) -> int:
        return self.named[topic, partition].key_base | (offset or 0)

    def at(self, key: int) -> tuple[OwnedPartition, int]:
        return self.numbered[key >> KEY_SHIFT], key & _OFFSET_MASK

    def done(self, key: int) -> None:
        self.numbered[key >> KEY_SHIFT].done(key & _OFFSET_MASK)

    def all_done(self, keys: Sequence[int]) -> None:
        column = np.array(keys, np.int64)
        numbers, offsets = column >> KEY_SHIFT, column & _OFFSET_MASK
        for number in np.unique(numbers).tolist():
            self.numbered[number].all_done(offsets[numbers == number].tolist())

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter(self.numbered.values())
