"""A hash table of identities in numpy arrays, which finds and inserts columns of identities.

It is an open-addressing table. A bucket has 16 slots, and each slot has 15 bits of the hash of its identity, and the
row of the identity in the columns. An identity that is not in the table usually matches no slot of its bucket, so the
columns are not read. If a slot matches, the identity is compared exactly.

Identities are never removed one by one. A full table is rebuilt without the identities of done positions.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.edges import FACTORS
from tuple_tree.ids import ID_MASK, IdColumn

Mask = NDArray[np.bool_]

_SLOTS: Final = 16  # in a bucket
_MOST_FILLED: Final = 12  # of the slots of a bucket, on average
_AT_ONCE: Final = 16_384  # identities that are inserted together
_TAG_BITS: Final = 15
_USED: Final = 1 << _TAG_BITS
_FACTOR: Final = 0x9E3779B97F4A7C15
_HALF: Final = 32
_factor, _mixer, _half = (np.uint64(number) for number in (_FACTOR, FACTORS[0], _HALF))
_tag_mask, _used = np.uint64(_USED - 1), np.uint64(_USED)


def hashes(positions: IdColumn, paths: IdColumn) -> IdColumn:
    """The hash of each identity; each bit of a position and a path changes bits at both ends."""
    hashed: IdColumn = positions * _factor
    hashed ^= paths
    hashed ^= hashed >> _half
    hashed *= _mixer
    hashed ^= hashed >> _half
    return hashed


def hash_of(position: int, path: int) -> int:
    hashed = position * _FACTOR & ID_MASK ^ path
    hashed = (hashed ^ hashed >> _HALF) * FACTORS[0] & ID_MASK
    return hashed ^ hashed >> _HALF


class IdentityTable:
    """Identities in the order in which they were inserted, with a hash table.

    Args:
        room: the least number of identities that it must have room for.

    Attributes:
        size: the number of identities.
        room: the largest number of identities. Create a larger table before there are more.
        positions, paths: columns of shape `(room,)`; the first `size` rows are set.
    """

    __slots__ = ("_buckets", "_filled", "_places", "_tags", "paths", "positions", "room", "size")

    def __init__(self, room: int) -> None:
        self._buckets = buckets = max(1, -(-room // _MOST_FILLED))
        self._tags = np.zeros((buckets, _SLOTS), np.uint16)
        self._places = np.zeros(buckets * _SLOTS, np.uint32)
        self._filled = np.zeros(buckets, np.uint8)
        self.room = buckets * _MOST_FILLED
        self.positions = np.empty(self.room, np.uint64)
        self.paths = np.empty(self.room, np.uint64)
        self.size = 0

    @property
    def size_bytes(self) -> int:
        return sum(each.nbytes for each in (self._tags, self._places, self._filled, self.positions, self.paths))

    def find(self, hashed: IdColumn, positions: IdColumn, paths: IdColumn) -> Mask:
        """Returns True for identities that the table has."""
        found = np.zeros(len(hashed), bool)
        buckets, tags = self._homes(hashed)
        rows = None  # of the identities that are looked for; None for all
        while True:
            matches = self._tags.take(buckets, 0) == tags[:, None]
            if matches.any():
                at, slots = matches.nonzero()
                places = self._places[buckets[at] * _SLOTS + slots]
                chosen = at if rows is None else rows[at]
                equal = (self.positions[places] == positions[chosen]) & (self.paths[places] == paths[chosen])
                found[chosen[equal]] = True
            full = (self._filled.take(buckets) == _SLOTS).nonzero()[0]
            if not len(full):
                return found
            rows = full if rows is None else rows[full]
            buckets = self._behind(buckets[full])
            tags = tags[full]

    def has(self, position: int, path: int) -> bool:
        """Whether the table has an identity."""
        hashed = hash_of(position, path)
        bucket, tag = (hashed >> _HALF) * self._buckets >> _HALF, hashed & _USED - 1 | _USED
        while True:
            tags = self._tags[bucket].tolist()
            if tag in tags:
                for slot, other in enumerate(tags):
                    if other == tag:
                        place = self._places.item(bucket * _SLOTS + slot)
                        if self.positions.item(place) == position and self.paths.item(place) == path:
                            return True
            if not tags[-1]:
                return False
            bucket = (bucket + 1) % self._buckets

    def insert(self, hashed: IdColumn, positions: IdColumn, paths: IdColumn) -> None:
        """Inserts identities that the table does not have; it must have room for them."""
        begin, end = self.size, self.size + len(hashed)
        self.positions[begin:end] = positions
        self.paths[begin:end] = paths
        self.size = end
        for first in range(0, len(hashed), _AT_ONCE):
            part = hashed[first : first + _AT_ONCE]
            self._fill(part, np.arange(begin + first, begin + first + len(part), dtype=np.uint32))

    def _fill(self, hashed: IdColumn, places: NDArray[np.uint32]) -> None:
        buckets, tags = self._homes(hashed)
        flat = self._tags.reshape(-1)
        while len(places):
            filled = self._filled.take(buckets)
            if len(full := (filled == _SLOTS).nonzero()[0]):
                buckets[full] = self._behind(buckets[full])
                continue
            # Identities of one bucket write to the same slot: the last one stays, and the others try the next slot.
            slots = buckets * _SLOTS + filled
            self._places[slots] = places
            is_in = self._places[slots] == places
            flat[slots[is_in]] = tags[is_in]
            self._filled[buckets[is_in]] += np.uint8(1)
            left = (~is_in).nonzero()[0]
            places, buckets, tags = places[left], buckets[left], tags[left]

    def _homes(self, hashed: IdColumn) -> tuple[NDArray[np.intp], NDArray[np.uint16]]:
        """The bucket where the search for each hash begins, and the tag of each hash."""
        buckets = (hashed >> _half) * np.uint64(self._buckets) >> _half
        return buckets.astype(np.intp), (hashed & _tag_mask | _used).astype(np.uint16)

    def _behind(self, buckets: NDArray[np.intp]) -> NDArray[np.intp]:
        """The bucket after each of these; after the last comes the first."""
        behind = buckets + 1
        behind[behind == self._buckets] = 0
        return behind
