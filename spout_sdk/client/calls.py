"""The open calls of a client, and which of them a record belongs to; no I/O.

A call is identified by the position of its message, which the delivery report has. The outcome of the message may be
read before the report is handled. So while a report is missing, records that may belong to its call are kept.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from tuple_tree.outcome_records import OutcomeRecord

MOST_KEPT: Final = 100_000
MOST_KEPT_BYTES: Final = 64 * 2**20


class Answered(NamedTuple):
    """An answer of a bolt.

    Attributes:
        offset: the offset of a message, in any partition, which the root contains.
        root: the root of the tree that it belongs to.
        value: the value of the record; None where an attempt begins that has the root of an earlier one, whose answers
            do not count.
    """

    offset: int
    root: int
    value: bytes | None


class Ended(NamedTuple):
    """The outcome of a message of the topic that the client writes to.

    Attributes:
        record: the outcome.
        root: the root of the tree that has ended; None if answers are not read, or the message was in no tree.
    """

    record: OutcomeRecord
    root: int | None

    @property
    def offset(self) -> int:
        return self.record.offset


Settle = Callable[[OutcomeRecord, bytes | None], None]
"""Called with the outcome of a call's message, and the answer of its tree; None without one."""


class Call:
    """A message that was sent, and that has no outcome yet.

    Attributes:
        position: partition and offset of the message; None until it is delivered.
    """

    __slots__ = ("position", "settle")

    def __init__(self, settle: Settle) -> None:
        self.settle = settle
        self.position: tuple[int, int] | None = None


class _Offset:
    """The open calls whose messages have the same offset in different partitions, and answers that may be for them."""

    __slots__ = ("answers", "calls")

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self.answers: dict[int | None, bytes] = {}


class Calls:
    """Matches delivery reports, answers and outcomes, in any order.

    The answers of a tree precede the outcome of its message, as they do in their topic.
    """

    def __init__(self) -> None:
        self._unreported: dict[Call, int] = {}  # in the order of `begin`: the number of the next record at that time
        self._offsets: dict[int, _Offset] = {}
        # Records that may belong to unreported calls: with their numbers, and by offset.
        self._number = 0
        self._kept: deque[tuple[int, Answered | Ended]] = deque()
        self._kept_bytes = 0
        self._kept_of: defaultdict[int, deque[Answered | Ended]] = defaultdict(deque)

    def begin(self, call: Call) -> None:
        """Adds a call, before its message is sent."""
        self._unreported[call] = self._number

    def reported(self, call: Call, partition: int, offset: int) -> None:
        """Handles the delivery of a message."""
        if self._unreported.pop(call, None) is None:
            return  # it has ended
        call.position = partition, offset
        answers: dict[int | None, bytes] = {}
        for record in self._kept_of.get(offset, ()):
            if isinstance(record, Answered):
                _answer(answers, record)
            elif record.record.partition == partition:
                call.settle(record.record, answers.get(record.root))
                break
        else:
            of = self._offsets.setdefault(offset, _Offset())
            of.calls[partition] = call
            of.answers |= answers
        self._forget_kept()

    def end(self, call: Call) -> None:
        """Removes a call that no longer waits for its outcome, or whose message was not delivered."""
        if self._unreported.pop(call, None) is not None:
            self._forget_kept()
        elif call.position is not None:
            self._remove(*call.position)

    def read(self, record: Answered | Ended) -> None:
        """Handles a record; the records of a tree come in the order of their partition."""
        of = self._offsets.get(record.offset)
        if isinstance(record, Answered):
            if of is not None:
                _answer(of.answers, record)
        elif of is not None and (call := of.calls.get(record.record.partition)) is not None:
            self._remove(record.record.partition, record.offset)
            call.settle(record.record, of.answers.get(record.root))
            return
        if self._unreported:
            self._kept.append((self._number, record))
            self._kept_of[record.offset].append(record)
            self._kept_bytes += _size(record)
            self._number += 1

    @property
    def kept(self) -> int:
        """How many records are kept for calls whose reports are missing."""
        return len(self._kept)

    @property
    def is_full(self) -> bool:
        """Whether no more records may be read until a delivery report arrives."""
        return len(self._kept) >= MOST_KEPT or self._kept_bytes >= MOST_KEPT_BYTES

    def __len__(self) -> int:
        """How many calls have a message that is delivered and has no outcome."""
        return sum(len(of.calls) for of in self._offsets.values())

    def _remove(self, partition: int, offset: int) -> None:
        of = self._offsets.get(offset)
        if of is not None and of.calls.pop(partition, None) is not None and not of.calls:
            del self._offsets[offset]

    def _forget_kept(self) -> None:
        """Forgets records that were read before the oldest call without a delivery report began."""
        since = next(iter(self._unreported.values()), self._number)
        while self._kept and self._kept[0][0] < since:
            _, record = self._kept.popleft()
            self._kept_bytes -= _size(record)
            of = self._kept_of[record.offset]
            of.popleft()
            if not of:
                del self._kept_of[record.offset]


def _answer(answers: dict[int | None, bytes], record: Answered) -> None:
    if record.value is None:
        answers.pop(record.root, None)
    else:
        answers[record.root] = record.value


def _size(record: Answered | Ended) -> int:
    return len(record.value or b"") if isinstance(record, Answered) else 0
