"""The open records of a task's input, which of its offsets may be committed, and how long a record may stay open."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from spout_sdk.api.tuples import InputPack
from tuple_tree.offsets import OffsetManager

_MARK_SECONDS: Final = 1.0


class InputOffsets(OffsetManager):
    """The offsets of one input partition, each of a record with tuples.

    A record is done when all its tuples were acked or failed, and the ack batches about them were delivered.

    With `exactly_once`, what is committed of an input that is read again happens twice. An input is read again if the
    offset to commit does not lie behind it, so none that does not may have had an effect. Two things are effects: a
    tuple or a record that was sent, and an ack or a fail. Which input something was sent for cannot be known, as it
    need not be anchored; but it was for one that was executed before. So an open record has had no effect, surely, if
    none of its tuples is settled, and since it was executed nothing was sent and no record behind it was done. A bolt
    that collects inputs, and emits and acks for all of them at once, meets that at any time. So does one that is a fold
    over its inputs: its effects of open inputs are committed beside the offset.

    Args:
        sent: with `exactly_once`, returns how many tuples the task has emitted, and how many records it has written.
    """

    def __init__(self, sent: Callable[[], int] | None = None) -> None:
        super().__init__()
        self.folds = False  # whether what was done with open records is committed beside the offset
        self._packs: dict[int, InputPack] = {}
        self._tuples = 0
        self._kept_to = -1  # up to this offset, records that are too old and open have untracked tuples, which are held
        # The last offset that was started, once a second, with the time.
        self._marks: deque[tuple[float, int]] = deque()
        self._mark_at = 0.0
        self._sent = sent
        # Offset of a record → how much was sent before it, where that changed.
        self._traces: deque[tuple[int, int]] = deque()

    def open(self, pack: InputPack) -> None:
        """Opens a record; raises `ValueError` if its offset is not above all that were opened."""
        self.start(pack.offset)
        self._packs[pack.offset] = pack
        self._tuples += pack.size
        if self._sent is not None:
            sent = self._sent()
            if not self._traces or self._traces[-1][1] != sent:
                self._traces.append((pack.offset, sent))

    def is_open(self, offset: int) -> bool:
        """Whether the record at an offset was opened, and is not settled."""
        return offset in self._packs

    def settle(self, packs: Sequence[InputPack]) -> None:
        """Closes records that are done."""
        for pack in packs:
            self._forget(pack.offset)
        self.all_done([pack.offset for pack in packs])

    def expire(self, now: float, max_age: float) -> list[int]:
        """Closes records that are open for longer than any tree: one forgotten ack would block all commits.

        All up to a mark of `max_age` seconds ago are too old: their trees have failed, and were replayed. Returns their
        offsets. Untracked tuples that a window holds are not replayed: their records stay open until it closes.
        """
        stale: list[int] = []
        if now < self._mark_at:
            return stale
        self._mark_at = now + _MARK_SECONDS
        marks, oldest = self._marks, self.oldest_open
        if oldest is not None:
            marks.append((now, self.last_started))
        while marks and (oldest is None or marks[0][1] < oldest):
            marks.popleft()
        while marks and now - marks[0][0] >= max_age:
            kept_to, self._kept_to = self._kept_to, marks.popleft()[1]
            for offset in self.open_to(self._kept_to):
                if offset <= kept_to or (self.folds and self._packs[offset].has_untracked):
                    continue
                self._forget(offset)
                self.done(offset)
                stale.append(offset)
        return stale

    def open_seconds(self, now: float) -> float:
        """Age of the oldest open record in seconds, to within one."""
        # A copy, because the thread that publishes stats calls this.
        oldest = self.oldest_open
        return now - next((at for at, last in list(self._marks) if oldest is None or last >= oldest), now)

    @property
    def defers_failures(self) -> bool:
        """Whether a failure of an input is an effect, which waits until no older input is open."""
        return self._sent is not None and not self.folds

    @property
    def oldest_unsettled(self) -> InputPack | None:
        """The first record of which a tuple is neither acked nor failed."""
        return next((pack for pack in self._packs.values() if pack.left), None)

    @property
    def weight(self) -> int:
        """Tuples of records that are not done, and records that are done behind one that is not."""
        return self.done_ahead + self._tuples

    @property
    def is_repeatable(self) -> bool:
        """Whether all that lies behind the committable offset can be read again without anything happening twice."""
        traces, oldest = self._traces, self.oldest_open
        if self._sent is None or oldest is None or self.folds:
            traces.clear()
            return True
        while len(traces) > 1 and traces[1][0] <= oldest:
            traces.popleft()
        return (
            not self.done_ahead
            and self._sent() == traces[0][1]
            and all(pack.left == pack.size for pack in self._packs.values())
        )

    def _forget(self, offset: int) -> None:
        pack = self._packs.pop(offset, None)
        if pack is not None:
            self._tuples -= pack.size
