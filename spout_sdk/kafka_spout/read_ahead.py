"""Messages that were read and are not emitted yet, in runs with consecutive offsets."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spout_sdk.records import Record
from tuple_tree.ids import IdColumn
from tuple_tree.positions import MAX_OFFSET, OFFSET_SHIFT, roots_of_words
from tuple_tree.source_messages import SourceMessages
from tuple_tree.source_partition import OwnedPartition, SourcePartition


class Run(NamedTuple):
    """Messages of a partition with consecutive offsets.

    Attributes:
        of: the partition.
        offset: the offset of the first message.
        records: the messages.
        roots: the roots of their first deliveries, shape `(n,)`; None if the messages are not tracked.
    """

    of: OwnedPartition
    offset: int
    records: Sequence[Record]
    roots: IdColumn | None

    def part(self, begin: int, end: int | None = None) -> "Run":
        """The messages from index `begin` to `end - 1`."""
        roots = None if self.roots is None else self.roots[begin:end]
        return Run(self.of, self.offset + begin, self.records[begin:end], roots)


class ReadAhead:
    """The messages of a task that are not emitted yet, in order.

    Args:
        ack_partitions: how many ack partitions the topology has.
        has_roots: whether the messages are tracked.
    """

    def __init__(self, messages: SourceMessages, ack_partitions: int, *, has_roots: bool) -> None:
        self._messages, self._ack_partitions, self._has_roots = messages, ack_partitions, has_roots
        self._runs: deque[Run] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, records: Sequence[Record]) -> None:
        """Adds messages that were read."""
        if not records:
            return
        names = [(record.topic(), record.partition()) for record in records]
        offsets = np.array([record.offset() for record in records], np.int64)
        is_next = np.diff(offsets) == 1
        if len(set(names)) > 1:
            is_next &= [name == before for name, before in zip(names[1:], names, strict=False)]
        ends = [*(np.flatnonzero(~is_next) + 1).tolist(), len(records)]
        begin = 0
        for end in ends:
            of = self._messages.named(*names[begin])
            self._runs.append(Run(of, int(offsets[begin]), records[begin:end], self._roots(of, offsets[begin:end])))
            of.buffered_to = int(offsets[end - 1]) + 1
            begin = end
        self._size += len(records)

    @property
    def first(self) -> Run:
        return self._runs[0]

    def take_inherited(self, most: int) -> Run | None:
        """Removes and returns messages that an earlier owner may have emitted, at most `most`; None without any."""
        for index, run in enumerate(self._runs):
            count = min(most, run.of.inherited_to - run.offset, len(run.records))
            if count > 0:
                del self._runs[index]
                if count < len(run.records):
                    self._runs.insert(index, run.part(count))
                self._size -= count
                return run.part(0, count)
        return None

    def skip_inherited(self) -> set[SourcePartition]:
        """The partitions with messages; the log has no inherited message any more before a first one beyond."""
        seen: set[SourcePartition] = set()
        for run in self._runs:
            if run.of.at not in seen:
                seen.add(run.of.at)
                if run.offset >= run.of.inherited_to:
                    run.of.skip_to(run.of.inherited_to)
        return seen

    def take(self, most: int) -> Run:
        """Removes and returns the first messages of the first run, at most `most`."""
        run = self._runs.popleft()
        if len(run.records) > most:
            self._runs.appendleft(run.part(most))
            run = run.part(0, most)
        self._size -= len(run.records)
        return run

    def _roots(self, of: OwnedPartition, offsets: NDArray[np.int64]) -> IdColumn | None:
        if not self._has_roots:
            return None
        positions = (offsets.astype(np.uint64) % np.uint64(MAX_OFFSET)) << np.uint64(OFFSET_SHIFT)
        words = positions | np.uint64(of.first_attempt_id)
        roots: IdColumn = roots_of_words(words, [of.topic_key], self._ack_partitions)
        return roots
