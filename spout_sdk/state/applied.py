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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spout_sdk.state.identity_table import IdentityTable, hashes
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

_LEAST_ROOM: Final = 192  # of the table
_FEW: Final = 24  # up to this number of identities, numpy takes longer than Python
_NEVER: Final = -1
_VERSION: Final = 1
_HEAD: Final = Struct(">BI")  # version, and number of identities
_OFFSET: Final = Struct(">BQ")  # version, and offset
_NUMBER: Final = Struct(">Q")
_PARTITION: Final = Struct(">I")
_WIRE: Final = np.dtype(">u8")
_no_position: Final = np.uint64(NO_POSITION)
_REMEDY: Final = "run the version that has written it, or reset the state"


@dataclass(slots=True)
class _Kept:
    """A record of identities in the changelog: where its identities are in the table's columns.

    `watched` is one of its positions that was not known to be done. The record is kept until that position is done.
    """

    begin: int
    end: int
    watched: int


@dataclass(frozen=True, slots=True)
class _Changes:
    """The last result of `changes`, until it is committed."""

    end: int  # of the identities in the table's columns
    kept: Mapping[int, _Kept]
    deleted: frozenset[int]
    done: frozenset[int]  # keys of the partitions whose done offsets are written
    learned: int


class Applied:
    """The known done positions, and the identities that a task has applied of other positions.

    In each transaction: check tuples with `is_repeat` or `is_applied`, apply the others, and `note` them. Write
    `changes` before the commit, and call `committed` after it. If the transaction is aborted, drop the object, and
    create another one with `restored`.

    It needs 24 to 60 bytes of memory for each identity of an open message.
    """

    def __init__(self) -> None:
        self._table = IdentityTable(_LEAST_ROOM)
        self._singles: dict[tuple[int, int], None] = {}  # noted one by one, and not in the table yet
        self._done = KnownDone()
        self._learned = 0  # how often new done positions were learned
        self._swept = 0  # `_learned` when no record was left whose watched position is known to be done
        self._unwritten: set[int] = set()  # keys of partitions whose known done offsets the changelog lacks
        self._kept: dict[int, _Kept] = {}  # by the number in the record's key
        self._begin = 0  # where the identities of the open transaction begin in the table's columns
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
        numbered = {}
        done = {}
        for key, value in records:
            if key.startswith(APPLIED_PREFIX):
                numbered[_number_of(key, APPLIED_PREFIX, _NUMBER)] = read_identities(value)
            elif key.startswith(DONE_PREFIX):
                done[_number_of(key, DONE_PREFIX, _PARTITION)] = read_done(value)
        applied._done.learn(done)
        for number, (positions, paths) in sorted(numbered.items()):
            begin = applied._table.size
            applied._insert(positions, paths)
            applied._kept[number] = _Kept(begin, applied._table.size, int(positions[-1]))
            applied._next = number + 1
        applied._begin = applied._table.size
        applied._swept = _NEVER
        return applied

    @property
    def kept(self) -> int:
        """How many identities are in memory."""
        return self._table.size + len(self._singles)

    @property
    def in_changelog(self) -> int:
        """About how many identities of open messages the changelog and the open transaction have."""
        committed = sum(each.end - each.begin for each in self._kept.values())
        return committed + self._table.size - self._begin + len(self._singles)

    @property
    def size_bytes(self) -> int:
        return self._table.size_bytes

    @property
    def has_changes(self) -> bool:
        """Whether `changes` would return records."""
        return self._begin < self._table.size or bool(self._singles) or bool(self._deletable())

    def is_repeat(self, positions: IdColumn, paths: IdColumn) -> NDArray[np.bool_]:
        """Returns True for the tuples that must not change the state, because they have changed it before.

        If several tuples of these columns have the same new identity, it returns False for the first of them only. If
        that is not applied in the end, the others must not be acked: call `is_applied` for each, or fail them all.
        """
        if len(positions) <= _FEW:
            # For a short record, do not move the tuples that were noted one by one to the table: that takes longer.
            return self._are_repeats(positions.tolist(), paths.tolist())
        self._flush()
        positions, paths = _native(positions), _native(paths)
        hashed = hashes(positions, paths)
        repeats = self._table.find(hashed, positions, paths)
        repeats |= self._done.contains(positions)
        in_order = np.sort(hashed)
        if (in_order[1:] == in_order[:-1]).any():
            repeats |= _is_again(positions, paths)
        return repeats

    def is_applied(self, position: int, path: int) -> bool:
        """Whether a tuple must not change the state, because it has changed it before."""
        if position == NO_POSITION:
            return False
        return self._done.has(position) or (position, path) in self._singles or self._table.has(position, path)

    def note(self, positions: IdColumn, paths: IdColumn) -> None:
        """Notes tuples that the open transaction has applied."""
        if len(positions) <= _FEW:
            for position, path in zip(positions.tolist(), paths.tolist(), strict=True):
                self.note_one(position, path)
            return
        positions, paths = _native(positions), _native(paths)
        if not (has := positions != _no_position).all():
            positions, paths = positions[has], paths[has]
        self._insert(positions, paths)

    def note_one(self, position: int, path: int) -> None:
        """Notes a tuple that the open transaction has applied."""
        if position != NO_POSITION:
            self._singles[position, path] = None
            if len(self._singles) > MOST_OF_RECORD:
                self._flush()

    def learn(self, done: Mapping[int, DoneSet]) -> None:
        """Adds the done positions in commits of spouts, by partition key: `spout << 12 | number of the partition`."""
        if more := self._done.learn(done):
            self._unwritten |= more
            self._learned += 1

    def changes(self) -> Mapping[bytes, bytes | None]:
        """The changelog records of the open transaction, by key; None deletes a record.

        Do not note tuples between this and `committed`.
        """
        self._flush()
        table = self._table
        records: dict[bytes, bytes | None] = {}
        kept = {}
        for number, begin in enumerate(range(self._begin, table.size, MOST_OF_RECORD), self._next):
            end = min(begin + MOST_OF_RECORD, table.size)
            positions, paths = table.positions[begin:end], table.paths[begin:end]
            records[APPLIED_PREFIX + _NUMBER.pack(number)] = identities_value(positions, paths)
            kept[number] = _Kept(begin, end, int(positions[-1]))
        deleted = self._deletable()
        for number in deleted:
            records[APPLIED_PREFIX + _NUMBER.pack(number)] = None
        done = frozenset(self._unwritten) if deleted else frozenset()
        for partition in done:
            records[DONE_PREFIX + _PARTITION.pack(partition)] = done_value(self._done.of(partition))
        self._changes = _Changes(table.size, kept, deleted, done, self._learned)
        return records

    def committed(self) -> None:
        """Notes that the transaction with the last `changes` is committed."""
        changes, self._changes = self._changes, None
        if changes is None:
            return
        for number in changes.deleted:
            del self._kept[number]
        self._kept |= changes.kept
        self._next += len(changes.kept)
        self._begin = changes.end
        if changes.learned == self._learned:
            self._unwritten -= changes.done
        if any(self._done.has(each.watched) for each in changes.kept.values()):
            self._swept = _NEVER
        elif changes.deleted:
            self._swept = changes.learned

    def _are_repeats(self, positions: list[int], paths: list[int]) -> NDArray[np.bool_]:
        repeats = np.zeros(len(positions), bool)
        seen = set()
        for at, identity in enumerate(zip(positions, paths, strict=True)):
            if self.is_applied(*identity) or identity in seen:
                repeats[at] = True
            elif identity[0] != NO_POSITION:
                seen.add(identity)
        return repeats

    def _flush(self) -> None:
        """Moves the tuples that were noted one by one to the table."""
        if self._singles:
            columns = np.array([*self._singles], np.uint64)
            self._singles.clear()
            self._insert(np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1]))

    def _insert(self, positions: IdColumn, paths: IdColumn) -> None:
        if self._table.size + len(positions) > self._table.room:
            self._remake(len(positions))
        self._table.insert(hashes(positions, paths), positions, paths)

    def _remake(self, more: int) -> None:
        """Rebuilds the table with room for more identities, without the identities of done positions."""
        old = self._table
        positions, paths = old.positions[: old.size], old.paths[: old.size]
        is_left = ~self._done.contains(positions)
        is_left[self._begin :] = True
        before = np.concatenate(([0], is_left.cumsum()))
        for each in self._kept.values():
            each.begin, each.end = int(before[each.begin]), int(before[each.end])
        self._begin = int(before[self._begin])
        self._table = IdentityTable(max(_LEAST_ROOM, 2 * (int(before[-1]) + more)))
        positions, paths = positions[is_left], paths[is_left]
        self._table.insert(hashes(positions, paths), positions, paths)

    def _deletable(self) -> frozenset[int]:
        """The numbers of the changelog records whose positions are all known to be done."""
        if self._swept == self._learned:
            return frozenset()
        numbers = [*self._kept]
        watched = np.fromiter((self._kept[number].watched for number in numbers), np.uint64, len(numbers))
        deletable = []
        for at in self._done.contains(watched).nonzero()[0].tolist():
            kept = self._kept[numbers[at]]
            positions = self._table.positions[kept.begin : kept.end]
            left = positions[~self._done.contains(positions)]
            if len(left):
                kept.watched = int(left[-1])
            else:
                deletable.append(numbers[at])
        if not deletable:
            self._swept = self._learned
        return frozenset(deletable)


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


def _native(column: IdColumn) -> IdColumn:
    return column if column.dtype.isnative else column.astype(np.uint64)


def _is_again(positions: IdColumn, paths: IdColumn) -> NDArray[np.bool_]:
    """Returns True for tuples that have the identity of an earlier tuple of the columns."""
    again = np.zeros(len(positions), bool)
    seen = set()
    for at, identity in enumerate(zip(positions.tolist(), paths.tolist(), strict=True)):
        if identity[0] != NO_POSITION:
            again[at] = identity in seen
            seen.add(identity)
    return again
