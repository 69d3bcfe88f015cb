"""Records and tuples that a bolt's process has read and not executed yet."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sized
from typing import Any

from confluent_kafka import Message


class Backlog:
    """For each partition, records that are not begun, and the rest of a record that is.

    Attributes:
        begun: partition → an iterator of tuples, a list of tuples, or rows.
    """

    def __init__(self) -> None:
        self.begun: dict[int, Any] = {}
        self._records: defaultdict[int, deque[Message]] = defaultdict(deque)

    def add(self, records: Iterable[Message]) -> None:
        for record in records:
            self._records[record.partition()].append(record)  # type: ignore[index]

    @property
    def partitions(self) -> Collection[int]:
        """Those with anything to execute, what is begun first."""
        return dict.fromkeys((*self.begun, *self._records))

    def has_records(self, partition: int) -> bool:
        """Whether there are records of a partition that are not begun."""
        return partition in self._records

    def next_record(self, partition: int) -> Message:
        records = self._records[partition]
        record = records.popleft()
        if not records:
            del self._records[partition]
        return record

    def take(self, partitions: Iterable[int] | None = None) -> list[Message]:
        """Removes and returns the records that are not begun, of some partitions or of all."""
        wanted = [*self._records] if partitions is None else partitions
        return [record for partition in wanted for record in self._records.pop(partition, ())]

    def drop(self, partitions: Iterable[int]) -> tuple[list[Message], int]:
        """Forgets all of some partitions; returns the records that were not begun, and how many tuples were left."""
        dropped = [*partitions]
        rests = [self.begun.pop(partition) for partition in dropped if partition in self.begun]
        return self.take(dropped), sum(map(_count, rests))


def _count(rest: Any) -> int:
    return len(rest) if isinstance(rest, Sized) else sum(1 for _ in rest)
