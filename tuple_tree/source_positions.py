"""What became of the messages of a source that can be read again by position.

No payload is kept: only which offsets are open, since when, and under which attempt. An open position is *pending*
(delivered, no outcome yet) or *due* (to be delivered again). It is closed by an ack of any of its attempts, because
each of them carried the same message.

All this can be rebuilt from the committed prefix and the notices behind a *mark*: how far the notices had been read
when the first open position was delivered. So the mark is committed together with the prefix.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tuple_tree.messages import FailReason
from tuple_tree.offsets import OffsetManager
from tuple_tree.rotating_map import RotatingMap

_BUCKETS: Final = 3
_OFFSET_BITS: Final = 40
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


@dataclass(frozen=True, slots=True)
class Replay:
    """A position that has to be delivered again.

    Attributes:
        attempt: the one to come.
        reason: why the last one failed.
        message: what a bolt said, if one did.
    """

    partition: int
    offset: int
    attempt: int
    reason: FailReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class Prefix:
    """How far a partition is done.

    Attributes:
        offset: everything before it is done.
        mark: outcomes of what is not done lie at this offset of the notices, or behind it.
    """

    partition: int
    offset: int
    mark: int


@dataclass(slots=True)
class _Partition:
    offsets: OffsetManager = field(default_factory=OffsetManager)
    marks: deque[tuple[int, int]] = field(default_factory=deque)
    started: int = -1


class SourcePositions:
    """The open positions of one spout; not thread-safe.

    Args:
        lost_after: seconds without an outcome after which a pending position is due again, and half as long again at
            most.
        now: monotonic seconds.
    """

    def __init__(self, lost_after: float, now: float) -> None:
        self._period = lost_after / (_BUCKETS - 1)
        self._rotate_at = now + self._period
        self._partitions: dict[int, _Partition] = {}
        self._pending: RotatingMap[int, int] = RotatingMap(_BUCKETS)
        self._due: dict[int, dict[int, Replay]] = {}

    def unknown(self, partition: int, offsets: Sequence[int]) -> int:
        """How many of these offsets, which rise, `delivered` would open."""
        found = self._partitions.get(partition)
        return len(offsets) if found is None else len(offsets) - bisect_right(offsets, found.started)

    def delivered(self, partition: int, offsets: Iterable[int], mark: int) -> int:
        """Opens positions under attempt 0; those that are not above all that were opened are passed over.

        Args:
            partition: of the source.
            offsets: in rising order.
            mark: how far the notices were read before the delivery.

        Returns:
            How many were opened.
        """
        found = self._partitions.setdefault(partition, _Partition())
        opened = 0
        base = partition << _OFFSET_BITS
        for offset in offsets:
            if offset <= found.started:
                continue
            if not opened:
                found.marks.append((offset, mark))
            found.started = offset
            found.offsets.start(offset)
            self._pending.put(base | offset, 0)
            opened += 1
        return opened

    def done(self, partition: int, offset: int) -> bool:
        """Closes a position; whether it was open."""
        if self._pending.remove(partition << _OFFSET_BITS | offset) is None and self._forget_due(partition, offset):
            return False
        self._partitions[partition].offsets.done(offset)
        return True

    def failed(self, partition: int, offset: int, attempt: int, reason: FailReason, message: str = "") -> bool:
        """Makes a position due under the attempt after this one; whether it did.

        A failure of an attempt that was given up before is old news. One of an attempt that was never heard of is
        that of an earlier process, which had given up more than the notices tell.
        """
        key = partition << _OFFSET_BITS | offset
        current = self._pending.get(key)
        if current is None:
            due = self._due.get(partition, {}).get(offset)
            if due is None or attempt < due.attempt:
                return False
        elif attempt < current:
            return False
        self._pending.remove(key)
        self._put_due(Replay(partition, offset, attempt + 1, reason, message))
        return True

    def tick(self, now: float) -> int:
        """Makes those due that had no outcome for too long; returns how many."""
        lost = 0
        while now >= self._rotate_at:
            self._rotate_at += self._period
            for key, attempt in self._pending.rotate().items():
                self._put_due(Replay(key >> _OFFSET_BITS, key & _OFFSET_MASK, attempt + 1, FailReason.LOST))
                lost += 1
        return lost

    def take_due(self, limit: int, span: int) -> list[Replay]:
        """Takes positions that are due and makes them pending.

        Args:
            limit: how many, at most.
            span: of one partition, only offsets less than this apart, so that they can be read in one go.
        """
        taken: list[Replay] = []
        for partition in list(self._due):
            room = limit - len(taken)
            if room <= 0:
                break
            # What is left goes behind the other partitions.
            due = self._due.pop(partition)
            offsets = sorted(due)
            chosen = [offset for offset in offsets[:room] if offset < offsets[0] + span]
            for offset in chosen:
                replay = due.pop(offset)
                self._pending.put(partition << _OFFSET_BITS | offset, replay.attempt)
                taken.append(replay)
            if due:
                self._due[partition] = due
        return taken

    @property
    def pending(self) -> int:
        """How many positions are delivered and have no outcome."""
        return len(self._pending)

    @property
    def due(self) -> int:
        """How many positions have to be delivered again."""
        return sum(map(len, self._due.values()))

    def prefixes(self, mark: int) -> list[Prefix]:
        """How far each partition is done.

        Args:
            mark: how far the notices were read; stands for partitions where nothing is open.
        """
        found = []
        for number, partition in self._partitions.items():
            offset = partition.offsets.committable
            if offset is None:
                continue
            marks = partition.marks
            while len(marks) > 1 and marks[1][0] <= offset:
                marks.popleft()
            found.append(Prefix(number, offset, marks[0][1] if partition.offsets.open_count else mark))
        return found

    def _forget_due(self, partition: int, offset: int) -> bool:
        due = self._due.get(partition)
        if due is None or due.pop(offset, None) is None:
            return True
        if not due:
            del self._due[partition]
        return False

    def _put_due(self, replay: Replay) -> None:
        self._due.setdefault(replay.partition, {})[replay.offset] = replay
