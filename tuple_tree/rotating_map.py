"""A map whose entries expire in cohorts, after Storm's RotatingMap.

Entries live in a few buckets. `put` places an entry in the youngest, the nursery; each `rotate` drops the oldest,
death row, and opens a new nursery. With `b` buckets an entry falls off at the b-th rotation after its last `put`, so
between `b - 1` and `b` rotation periods later. There is no clock inside: the owner of the map rotates it.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RotatingMap(Generic[K, V]):
    """A map of a fixed number of buckets, at least 2; every operation costs a look into each bucket at most."""

    __slots__ = ("_buckets",)

    def __init__(self, buckets: int = 3) -> None:
        if buckets < 2:
            raise ValueError(f"a RotatingMap needs at least 2 buckets, not {buckets}: with fewer, rotating empties it")
        self._buckets: deque[dict[K, V]] = deque({} for _ in range(buckets))

    def put(self, key: K, value: V) -> None:
        """Sets the value, and moves the key into the nursery wherever it was."""
        # Out of the nursery too, because a dict keeps the place of a key that is set again.
        for bucket in self._buckets:
            if key in bucket:
                del bucket[key]
                break
        self._buckets[0][key] = value

    def get(self, key: K) -> V | None:
        for bucket in self._buckets:
            if key in bucket:
                return bucket[key]
        return None

    def remove(self, key: K) -> V | None:
        for bucket in self._buckets:
            if key in bucket:
                return bucket.pop(key)
        return None

    def rotate(self) -> dict[K, V]:
        """Drops death row, opens a new nursery, and returns what was dropped, in the order of the last `put`."""
        expired = self._buckets.pop()
        self._buckets.appendleft({})
        return expired

    def __contains__(self, key: object) -> bool:
        for bucket in self._buckets:  # noqa: SIM110 - a generator costs five times as much
            if key in bucket:
                return True
        return False

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket
