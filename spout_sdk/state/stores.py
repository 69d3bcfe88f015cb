"""Stores, which are local copies of partitions of a changelog: their interface, and the store in memory."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from tuple_tree.state_records import SYSTEM_PREFIX

Changes = Mapping[bytes, tuple[bytes | None, int]]
"""Key → its value, or None for a deleted key, and the time of the change in milliseconds since the epoch."""

_MS_BYTES: Final = 8
_KEY_OVERHEAD: Final = 240  # measured: bytes of an entry in memory, besides its key and value


class Store(Protocol):
    """The committed keys and values of one task, as bytes, as in its partition of the changelog.

    A store is for one thread.

    Attributes:
        position: the offset of the changelog up to which all records are applied; None if the store is empty. Later
            records may be applied as well: to apply records again, in order, changes nothing.
    """

    position: int | None

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if it has none."""

    def apply(self, changes: Changes, position: int | None) -> None:
        """Applies committed changes, and sets the position unless it is None; atomic."""

    def load(self, changes: Changes, position: int) -> None:
        """Applies changes while the changelog is read; a crash before `flush` may lose them."""

    def flush(self) -> None:
        """Ends reading of the changelog, and makes loaded changes durable."""

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes, int]]:
        """Yields key, value and time of change of the keys with a prefix; without one, of the keys of the state.

        Do not change the store during the iteration.
        """

    def __len__(self) -> int:
        """The number of keys of the state, without the SDK's."""

    def __bool__(self) -> bool:
        """True, also for a store without keys."""

    @property
    def size_bytes(self) -> int:
        """Bytes in memory or on disk, as an estimate."""

    def close(self) -> None:
        """Closes the store; a store on disk keeps what was applied."""


class MemoryStore:
    """A store in the memory of the process; the next process restores it from the changelog."""

    def __init__(self) -> None:
        self.position: int | None = None
        # The time of the change and then the value, in one bytes object: a tuple of both would take 70 bytes more.
        self._values: dict[bytes, bytes] = {}
        self._system: dict[bytes, bytes] = {}
        self._bytes = 0

    def get(self, key: bytes) -> bytes | None:
        found = self._values.get(key)
        if found is None and key.startswith(SYSTEM_PREFIX):
            found = self._system.get(key)
        return None if found is None else found[_MS_BYTES:]

    def changed_ms(self, key: bytes) -> int:
        """The time of the last change of a key that has a value, in milliseconds since the epoch."""
        return int.from_bytes(self._values[key][:_MS_BYTES])

    def apply(self, changes: Changes, position: int | None) -> None:
        size = 0
        values, system = self._values, self._system
        for key, (value, ms) in changes.items():
            kept = system if key.startswith(SYSTEM_PREFIX) else values
            if value is None:
                before = kept.pop(key, None)
            else:
                before, new = kept.get(key), ms.to_bytes(_MS_BYTES) + value
                kept[key] = new
                size += len(key) + len(new)
            if before is not None:
                size -= len(key) + len(before)
        self._bytes += size
        if position is not None:
            self.position = position

    def load(self, changes: Changes, position: int) -> None:
        self.apply(changes, position)

    def flush(self) -> None:
        """Does nothing."""

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes, int]]:
        kept = self._system if prefix.startswith(SYSTEM_PREFIX) else self._values
        for key, value in kept.items():
            if key.startswith(prefix):
                yield key, value[_MS_BYTES:], int.from_bytes(value[:_MS_BYTES])

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return True

    @property
    def size_bytes(self) -> int:
        return self._bytes + _KEY_OVERHEAD * (len(self._values) + len(self._system))

    def close(self) -> None:
        """Does nothing."""
