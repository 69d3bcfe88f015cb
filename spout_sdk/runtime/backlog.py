"""Records that a bolt's process has read and not begun."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from confluent_kafka import Message

from spout_sdk.statistics.stats import Counters

_RECENT: Final = 0.5  # weight of earlier tuples and records in each new average


class Backlog:
    """Holds for each partition the records that are not begun."""

    def __init__(self) -> None:
        self._records: defaultdict[int, deque[Message]] = defaultdict(deque)
        self._taken: Counter[int] = Counter()  # records that were begun
        self._sizes: dict[int, tuple[int, int, float, float]] = {}

    def add(self, records: Iterable[Message]) -> None:
        for record in records:
            self._records[record.partition()].append(record)  # type: ignore[index]

    @property
    def partitions(self) -> Collection[int]:
        """The partitions with records."""
        return self._records.keys()

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

    def waiting(self, begun: Mapping[int, int], counters: Counters, unread: Callable[[int], int]) -> dict[str, int]:
        """Estimates how many tuples of each partition are not executed, by the average size of recent records.

        Args:
            begun: partition → tuples of begun records that are not executed.
            counters: of the bolt.
            unread: returns how many records of a partition are not read yet.
        """
        loads = {each: counters.load(each) for each in begun}
        # A retried tuple is counted as executed again, but no further record was begun for it.
        return {
            str(each): self._waiting(each, begun[each], load.executed - load.retried, unread(each))
            for each, load in loads.items()
        }

    def _waiting(self, partition: int, begun: int, executed: int, unread: int) -> int:
        tuples, records = executed + begun, self._taken[partition]
        tuples_before, records_before, of_tuples, of_records = self._sizes.get(partition, (executed, 0, 0.0, 0.0))
        if records > records_before:
            of_tuples = _RECENT * of_tuples + max(0, tuples - tuples_before)
            of_records = _RECENT * of_records + records - records_before
        self._sizes[partition] = tuples, records, of_tuples, of_records
        size = of_tuples / of_records if of_records else 1.0
        return begun + round(size * (unread + len(self._records.get(partition, ()))))

    def drop(self, partitions: Iterable[int]) -> list[Message]:
        """Forgets partitions; returns their records that were not begun."""
        dropped = [*partitions]
        for partition in dropped:
            self._taken.pop(partition, None)
            self._sizes.pop(partition, None)
        return self.take(dropped)
