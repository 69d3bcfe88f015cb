"""The open calls of a client, and which of them a record belongs to; no I/O.

A call is identified by the position of its message, which the delivery report has. The outcome of the message may be
read before the report is handled. So while a report is missing, records that may belong to its call are kept.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from tuple_tree.outcomes import OutcomeRecord

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
        self.answers: dict[int, bytes] = {}


class _Kept(NamedTuple):
    """A record that is kept: its number, its key in one of the two dictionaries, and the size of its value."""

    number: int
    answer: tuple[int, int] | None
    outcome: tuple[int, int] | None
    size: int


class Calls:
    """Matches delivery reports, answers and outcomes, in any order.

    The answers of a tree precede the outcome of its message, as they do in their topic.
    """

    def __init__(self) -> None:
        self._unreported: dict[Call, int] = {}  # in the order of `begin`: the number of the next record at that time
        self._offsets: dict[int, _Offset] = {}
        # Records that may belong to unreported calls; outcomes with their answers.
        self._number = 0
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0
        self._answers: dict[int, dict[int, tuple[int, bytes]]] = {}  # offset → root → number and value
        self._outcomes: dict[tuple[int, int], tuple[OutcomeRecord, bytes | None]] = {}  # by partition and offset

    def begin(self, call: Call) -> None:
        """Adds a call, before its message is sent."""
        self._unreported[call] = self._number

    def reported(self, call: Call, partition: int, offset: int) -> None:
        """Handles the delivery of a message."""
        if self._unreported.pop(call, None) is None:
            return  # it has ended
        call.position = partition, offset
        if (found := self._outcomes.get(call.position)) is not None:
            call.settle(*found)
        else:
            of = self._offsets.setdefault(offset, _Offset())
            of.calls[partition] = call
            of.answers |= {root: value for root, (_, value) in self._answers.get(offset, {}).items()}
        self._forget_kept()

    def end(self, call: Call) -> None:
        """Removes a call that no longer waits for its outcome, or whose message was not delivered."""
        if self._unreported.pop(call, None) is not None:
            self._forget_kept()
        elif call.position is not None:
            self._remove(*call.position)

    def read(self, record: Answered | Ended) -> None:
        """Handles a record; the records of a tree come in the order of their partition."""
        if isinstance(record, Answered):
            self._answered(record)
        else:
            self._ended(record)

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

    def _answered(self, record: Answered) -> None:
        offset, root, value = record
        if value is None:
            if (of := self._offsets.get(offset)) is not None:
                of.answers.pop(root, None)
            if root in (kept := self._answers.get(offset, {})):
                self._forget_answer(kept[root][0], offset, root)
            return
        if (of := self._offsets.get(offset)) is not None:
            of.answers[root] = value
        if self._unreported:
            self._answers.setdefault(offset, {})[root] = self._number, value
            self._keep(_Kept(self._number, (offset, root), None, len(value)))

    def _ended(self, record: Ended) -> None:
        outcome, root = record
        at = outcome.partition, outcome.offset
        of = self._offsets.get(outcome.offset)
        if of is not None and (call := of.calls.get(outcome.partition)) is not None:
            answer = None if root is None else of.answers.get(root)
            self._remove(*at)
            call.settle(outcome, answer)
        elif self._unreported and at not in self._outcomes:
            answers = {} if root is None else self._answers.get(outcome.offset, {})
            self._outcomes[at] = outcome, answers[root][1] if root in answers else None
            self._keep(_Kept(self._number, None, at, 0))

    def _remove(self, partition: int, offset: int) -> None:
        of = self._offsets.get(offset)
        if of is not None and of.calls.pop(partition, None) is not None and not of.calls:
            del self._offsets[offset]

    def _keep(self, kept: _Kept) -> None:
        self._number += 1
        self._kept.append(kept)
        self._kept_bytes += kept.size

    def _forget_kept(self) -> None:
        """Forgets records that were read before the oldest call without a delivery report began."""
        since = next(iter(self._unreported.values()), self._number)
        kept = self._kept
        while kept and kept[0].number < since:
            number, answer, outcome, size = kept.popleft()
            self._kept_bytes -= size
            if answer is not None:
                self._forget_answer(number, *answer)
            if outcome is not None:
                del self._outcomes[outcome]

    def _forget_answer(self, number: int, offset: int, root: int) -> None:
        """Forgets an answer, unless a later one of the same tree has replaced it."""
        answers = self._answers.get(offset, {})
        if root in answers and answers[root][0] == number:
            del answers[root]
            if not answers:
                del self._answers[offset]
