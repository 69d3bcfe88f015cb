"""Records and tuples that a bolt's process has read and not executed yet."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sized
from operator import length_hint
from typing import Any, Final

from confluent_kafka import Message

from spout_sdk.statistics.stats import Counters

_RECENT: Final = 0.5  # weight of earlier tuples and records in each new average


class Backlog:
    """Holds for each partition the records that are not begun, and the rest of a record that is begun.

    Attributes:
        begun: partition → an iterator of tuples, a list of tuples, or rows.
    """

    def __init__(self) -> None:
        self.begun: dict[int, Any] = {}
        self._records: defaultdict[int, deque[Message]] = defaultdict(deque)
        self._taken: Counter[int] = Counter()  # records that were begun
        self._sizes: dict[int, tuple[int, int, float, float]] = {}

    def add(self, records: Iterable[Message]) -> None:
        for record in records:
            self._records[record.partition()].append(record)  # type: ignore[index]

    @property
    def partitions(self) -> Collection[int]:
        """The partitions with something to execute, begun records first."""
        return dict.fromkeys((*self.begun, *self._records))

    @property
    def waits(self) -> bool:
        """Whether there is a tuple that is not begun."""
        return bool(self._records) or any(length_hint(rest, 1) for rest in self.begun.values())

    def has_records(self, partition: int) -> bool:
        """Whether a partition has records that are not begun."""
        return partition in self._records

    def next_record(self, partition: int) -> Message:
        records = self._records[partition]
        record = records.popleft()
        self._taken[partition] += 1
        if not records:
            del self._records[partition]
        return record

    def take(self, partitions: Iterable[int] | None = None) -> list[Message]:
        """Removes and returns the records that are not begun; of all partitions unless some are given."""
        wanted = [*self._records] if partitions is None else partitions
        return [record for partition in wanted for record in self._records.pop(partition, ())]

    def waiting(self, partitions: Iterable[int], counters: Counters, unread: Callable[[int], int]) -> dict[str, int]:
        """Estimates how many tuples of each partition are not executed, by the average size of recent records.

        `unread` returns how many records of a partition are not read yet.
        """
        loads = {each: counters.load(each) for each in partitions}
        # A retried tuple is counted as executed again, but no further record was begun for it.
        return {
            str(each): self._waiting(each, load.executed - load.retried, unread(each)) for each, load in loads.items()
        }

    def _waiting(self, partition: int, executed: int, unread: int) -> int:
        begun = length_hint(self.begun.get(partition, ()))
        tuples, records = executed + begun, self._taken[partition]
        tuples_before, records_before, of_tuples, of_records = self._sizes.get(partition, (executed, 0, 0.0, 0.0))
        if records > records_before:
            of_tuples = _RECENT * of_tuples + max(0, tuples - tuples_before)
            of_records = _RECENT * of_records + records - records_before
        self._sizes[partition] = tuples, records, of_tuples, of_records
        size = of_tuples / of_records if of_records else 1.0
        return begun + round(size * (unread + len(self._records.get(partition, ()))))

    def drop(self, partitions: Iterable[int]) -> tuple[list[Message], int]:
        """Forgets partitions; returns their records that were not begun, and the number of other unexecuted tuples."""
        dropped = [*partitions]
        rests = [self.begun.pop(partition) for partition in dropped if partition in self.begun]
        for partition in dropped:
            self._taken.pop(partition, None)
            self._sizes.pop(partition, None)
        return self.take(dropped), sum(map(_count, rests))


def _count(rest: Any) -> int:
    return len(rest) if isinstance(rest, Sized) else sum(1 for _ in rest)
