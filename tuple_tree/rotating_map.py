"""A map whose entries expire in cohorts, after Storm's RotatingMap.

Entries live in a few buckets. `put` places an entry in the youngest, the nursery; each `rotate` drops the oldest,
death row, and opens a new nursery. With `b` buckets an entry falls off at the b-th rotation after its last `put`, so
between `b - 1` and `b` rotation periods later. There is no clock inside: the owner of the map rotates it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RotatingMap(Generic[K, V]):
    """A map of a fixed number of buckets, at least 2; every operation costs a look into each bucket at most."""

    __slots__ = ("_buckets", "_size")

    def __init__(self, buckets: int = 3) -> None:
        if buckets < 2:
            raise ValueError(f"a RotatingMap needs at least 2 buckets, not {buckets}: with fewer, rotating empties it")
        self._buckets: deque[dict[K, V]] = deque({} for _ in range(buckets))
        self._size = 0

    def put(self, key: K, value: V) -> None:
        """Sets the value, and moves the key into the nursery wherever it was."""
        # Out of the nursery too, because a dict keeps the place of a key that is set again.
        for bucket in self._buckets:
            if key in bucket:
                del bucket[key]
                break
        else:
            self._size += 1
        self._buckets[0][key] = value

    def add(self, key: K, value: V) -> bool:
        """Puts a key into the nursery; False, and nothing changes, if it is in the map."""
        for bucket in self._buckets:
            if key in bucket:
                return False
        self._buckets[0][key] = value
        self._size += 1
        return True

    def add_all(self, entries: dict[K, V]) -> bool:
        """Puts entries into the nursery; returns False and changes nothing if one of the keys is in the map."""
        if any(not entries.keys().isdisjoint(bucket) for bucket in self._buckets):
            return False
        self._buckets[0].update(entries)
        self._size += len(entries)
        return True

    def remove_all(self, keys: Iterable[K]) -> list[V]:
        """Removes keys; returns the values of the keys that were in the map, in order."""
        removed: list[V] = []
        nursery = self._buckets[0]
        for key in keys:
            value = nursery.pop(key, None)
            if value is None:
                value = self.remove(key)
            else:
                self._size -= 1
            if value is not None:
                removed.append(value)
        return removed

    def get(self, key: K) -> V | None:
        for bucket in self._buckets:
            if key in bucket:
                return bucket[key]
        return None

    def remove(self, key: K) -> V | None:
        for bucket in self._buckets:
            if key in bucket:
                self._size -= 1
                return bucket.pop(key)
        return None

    def rotate(self) -> dict[K, V]:
        """Drops death row, opens a new nursery, and returns what was dropped, in the order of the last `put`."""
        expired = self._buckets.pop()
        self._buckets.appendleft({})
        self._size -= len(expired)
        return expired

    def values(self) -> Iterator[V]:
        """The values, the oldest cohort first, and of a cohort in the order of the last `put`."""
        for bucket in reversed(self._buckets):
            yield from bucket.values()

    def __contains__(self, key: object) -> bool:
        for bucket in self._buckets:  # noqa: SIM110 - a generator costs five times as much
            if key in bucket:
                return True
        return False

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket
