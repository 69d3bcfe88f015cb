"""The identities of tuples that a task with a state has applied, so that each tuple changes the state once.

A failed message is emitted again, and its tuples come again, perhaps long after another tree of the message has
succeeded. A tuple that comes again has the identity of the tuple that was applied: the position of the source message,
and a path. Three rules:

1. A tuple whose position is known to be done is a repeat. A position is done when the spout has committed it.
2. A tuple whose identity is kept is a repeat. Identities are kept from the transaction that applies them, and are part
   of the state.
3. Identities are dropped from the state when their positions are known to be done. The same transaction writes the
   known done positions to the state, because a later commit of the spout may contain fewer.
"""

import struct
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spout_sdk.state.known_done import KnownDone
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError, StateRecordError, VersionError
from tuple_tree.identities import NO_POSITION
from tuple_tree.ids import ID_BYTES, IdColumn
from tuple_tree.state_records import SYSTEM_PREFIX

APPLIED_PREFIX: Final = SYSTEM_PREFIX + b"applied/"
"""Prefix of the keys of records with the identities that a transaction has applied; a number of 8 bytes follows."""
DONE_PREFIX: Final = SYSTEM_PREFIX + b"done/"
"""Prefix of the keys of records with the known done offsets of a partition; the partition key of 4 bytes follows."""

MOST_OF_RECORD: Final = 32_768
"""Largest number of identities in a record: half a megabyte, because a record may have a megabyte."""

_NEVER: Final = -1
_FEW: Final = 24  # up to this number of identities, numpy takes longer than Python
_PATH_BITS: Final = 64
_UNIDENTIFIED: Final = NO_POSITION << _PATH_BITS  # the least identity of a tuple without a position
_VERSION: Final = 1
_HEAD: Final = Struct(">BI")  # version, and number of identities
_OFFSET: Final = Struct(">BQ")  # version, and offset
_NUMBER: Final = Struct(">Q")
_PARTITION: Final = Struct(">I")
_WIRE: Final = np.dtype(">u8")
_REMEDY: Final = "run the version that has written it, or reset the state"


@dataclass(frozen=True, slots=True)
class _Kept:
    """The identities in a record of the changelog whose positions are not known to be done."""

    positions: IdColumn
    paths: IdColumn


@dataclass(frozen=True, slots=True)
class _Changes:
    """The last result of `changes`, until it is committed."""

    kept: Mapping[int, _Kept]
    deleted: Set[int]
    done: Set[int]  # keys of the partitions whose done offsets are written
    learned: int


class Applied:
    """The known done positions, and the identities that a task has applied of other positions.

    In each transaction: check tuples with `is_repeat` or `is_applied`, apply the others, and `note` them. Write
    `changes` before the commit, and call `committed` after it. If the transaction is aborted, drop the object, and
    create another one with `restored`.

    An identity is one number here, the position and the path behind it. It needs about 90 bytes of memory until its
    message is known to be done.
    """

    def __init__(self) -> None:
        self._identities: set[int] = set()
        self._noted: list[int] = []  # in the open transaction
        self._kept: dict[int, _Kept] = {}  # by the number in the record's key
        self._ended: set[int] = set()  # numbers of records whose positions are all known to be done
        self._done = KnownDone()
        self._learned = 0  # how often new done positions were learned
        self._swept = 0  # `_learned` when identities of done positions were dropped last
        self._unwritten: set[int] = set()  # keys of partitions whose known done offsets the changelog lacks
        self._next = 0  # the number of the next record
        self._changes: _Changes | None = None

    @classmethod
    def restored(cls, records: Iterable[tuple[bytes, bytes]]) -> "Applied":
        """Restores the identities and done positions from the SDK's records of a changelog; ignores other records.

        Raises:
            VersionError: if another version has written a record.
            StateRecordError: if a record cannot be read.
        """
        applied = cls()
        done = {}
        for key, value in records:
            if key.startswith(APPLIED_PREFIX):
                number = _number_of(key, APPLIED_PREFIX, _NUMBER)
                applied._kept[number] = kept = _Kept(*read_identities(value))
                applied._identities.update(_numbers(kept.positions, kept.paths))
                applied._next = max(applied._next, number + 1)
            elif key.startswith(DONE_PREFIX):
                done[_number_of(key, DONE_PREFIX, _PARTITION)] = read_done(value)
        applied._done.learn(done)
        applied._swept = _NEVER
        return applied

    @property
    def kept(self) -> int:
        """How many identities are in memory."""
        return len(self._identities)

    @property
    def in_changelog(self) -> int:
        """About how many identities of open messages the changelog and the open transaction have."""
        return sum(len(each.positions) for each in self._kept.values()) + len(self._noted)

    @property
    def has_changes(self) -> bool:
        self._sweep()
        return bool(self._noted or self._ended)

    def is_repeat(self, positions: IdColumn, paths: IdColumn) -> NDArray[np.bool_]:
        """Returns True for the tuples that must not change the state, because they have changed it before.

        If several tuples of these columns have the same new identity, it returns False for the first of them only. If
        that is not applied in the end, the others must not be acked: call `is_applied` for each, or fail them all.
        """
        identities, known = _numbers(positions, paths), self._identities
        if len(identities) <= _FEW:
            repeats = np.array([self._done.has(identity >> _PATH_BITS) for identity in identities], np.bool_)
        else:
            repeats = self._done.contains(positions)
        if known.isdisjoint(identities) and len(set(identities)) == len(identities):
            return repeats
        seen = set[int]()
        for at, identity in enumerate(identities):
            if identity < _UNIDENTIFIED:
                repeats[at] |= identity in known or identity in seen
                seen.add(identity)
        return repeats

    def is_applied(self, position: int, path: int) -> bool:
        """Whether a tuple must not change the state, because it has changed it before."""
        if position == NO_POSITION:
            return False
        return self._done.has(position) or position << _PATH_BITS | path in self._identities

    def note(self, positions: IdColumn, paths: IdColumn) -> None:
        """Notes tuples that the open transaction has applied."""
        noted = [identity for identity in _numbers(positions, paths) if identity < _UNIDENTIFIED]
        self._identities.update(noted)
        self._noted += noted

    def learn(self, done: Mapping[int, DoneSet]) -> None:
        """Adds the done positions in commits of spouts, by partition key: `spout << 12 | number of the partition`."""
        if more := self._done.learn(done):
            self._unwritten |= more
            self._learned += 1

    def changes(self) -> Mapping[bytes, bytes | None]:
        """The changelog records of the open transaction, by key; None deletes a record.

        Do not note tuples between this and `committed`.
        """
        self._sweep()
        columns = np.frombuffer(b"".join([identity.to_bytes(16) for identity in self._noted]), _WIRE)
        positions, paths = (columns[at::2].astype(np.uint64) for at in (0, 1))
        records: dict[bytes, bytes | None] = {}
        kept = {}
        for number, begin in enumerate(range(0, len(positions), MOST_OF_RECORD), self._next):
            part = slice(begin, begin + MOST_OF_RECORD)
            kept[number] = each = _Kept(positions[part], paths[part])
            records[APPLIED_PREFIX + _NUMBER.pack(number)] = identities_value(each.positions, each.paths)
        deleted = frozenset(self._ended)
        for number in deleted:
            records[APPLIED_PREFIX + _NUMBER.pack(number)] = None
        done = frozenset(self._unwritten) if deleted else frozenset()
        for partition in done:
            records[DONE_PREFIX + _PARTITION.pack(partition)] = done_value(self._done.of(partition))
        self._changes = _Changes(kept, deleted, done, self._learned)
        return records

    def committed(self) -> None:
        """Notes that the transaction with the last `changes` is committed."""
        changes, self._changes = self._changes, None
        if changes is None:
            return
        self._ended -= changes.deleted
        self._kept |= changes.kept
        self._next += len(changes.kept)
        self._noted.clear()
        if changes.learned == self._learned:
            self._unwritten -= changes.done
        if any(self._done.contains(each.positions).any() for each in changes.kept.values()):
            self._swept = _NEVER

    def _sweep(self) -> None:
        """Drops identities of positions that are known to be done from memory."""
        if self._swept == self._learned:
            return
        self._swept = self._learned
        for number, kept in [*self._kept.items()]:
            is_done = self._done.contains(kept.positions)
            if is_done.any():
                self._identities.difference_update(_numbers(kept.positions[is_done], kept.paths[is_done]))
                self._kept[number] = _Kept(kept.positions[~is_done], kept.paths[~is_done])
            if is_done.all():
                self._ended.add(number)
                del self._kept[number]


def identities_value(positions: IdColumn, paths: IdColumn) -> bytes:
    """The value of a record of identities: version, count, positions, and paths, or one path if all are equal."""
    if (paths == paths[:1]).all():
        paths = paths[:1]
    return _HEAD.pack(_VERSION, len(positions)) + positions.astype(_WIRE).tobytes() + paths.astype(_WIRE).tobytes()


def read_identities(value: bytes) -> tuple[IdColumn, IdColumn]:
    """The positions and paths in a record's value. Raises the errors of `Applied.restored`."""
    size = _head("identities", value, _HEAD)
    columns, whole, one = value[_HEAD.size :], 2 * size * ID_BYTES, (size + 1) * ID_BYTES
    if not size or len(columns) not in (whole, one):
        raise _unreadable("identities", f"{size} of them need {whole} or {one} bytes, and there are {len(columns)}")
    ids = np.frombuffer(columns, _WIRE).astype(np.uint64)
    paths = ids[size:]
    return ids[:size], paths if len(paths) == size else np.full(size, paths[0])


def done_value(done: DoneSet) -> bytes:
    """The value of a record of done offsets: version, offset, and the text of the set."""
    return _OFFSET.pack(_VERSION, done.offset) + done.text.encode()


def read_done(value: bytes) -> DoneSet:
    """The set in a record's value. Raises the errors of `Applied.restored`."""
    offset = _head("done offsets", value, _OFFSET)
    try:
        return DoneSet.read(offset, value[_OFFSET.size :].decode())
    except (UnicodeDecodeError, CommitError) as error:
        raise _unreadable("done offsets", f"the set past offset {offset} is damaged") from error


def _head(kind: str, value: bytes, layout: Struct) -> int:
    """The number after the version."""
    if value and value[0] != _VERSION:
        raise VersionError(
            f"a state has a record of {kind} of version {value[0]}, and this program reads version {_VERSION}: "
            f"{_REMEDY}"
        )
    try:
        _, number = layout.unpack_from(value)
    except struct.error as error:
        raise _unreadable(kind, f"it has {len(value)} bytes, fewer than its head") from error
    return int(number)


def _unreadable(kind: str, detail: str) -> StateRecordError:
    return StateRecordError(f"a state has a record of {kind} that cannot be read ({detail}): {_REMEDY}")


def _number_of(key: bytes, prefix: bytes, layout: Struct) -> int:
    try:
        (number,) = layout.unpack(key[len(prefix) :])
    except struct.error as error:
        raise _unreadable("the SDK", f"its key is {key!r}") from error
    return int(number)


def _numbers(positions: IdColumn, paths: IdColumn) -> list[int]:
    pairs = zip(positions.tolist(), paths.tolist(), strict=True)
    return [position << _PATH_BITS | path for position, path in pairs]
