"""The identities that a task has applied: against a naive model, and their records in the changelog."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from spout_sdk.state import applied as module
from spout_sdk.state import identity_table
from spout_sdk.state.applied import (
    APPLIED_PREFIX,
    DONE_PREFIX,
    Applied,
    identities_value,
    read_identities,
)
from tests.seeds import each_seed
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import VersionError, WireError
from tuple_tree.identities import NO_POSITION
from tuple_tree.ids import ID_MASK, IdColumn
from tuple_tree.state_records import ABOUT_KEY

Identity = tuple[int, int]
_PARTITIONS = 0, 1, 4_095, 63 << 12 | 4_095


def _columns(identities: Sequence[Identity]) -> tuple[IdColumn, IdColumn]:
    columns = np.array(identities, np.uint64).reshape(-1, 2)
    return columns[:, 0].copy(), columns[:, 1].copy()


def _position(partition: int, offset: int) -> int:
    return partition << 40 | offset


def _commit(applied: Applied, log: dict[bytes, bytes]) -> dict[bytes, bytes | None]:
    changes = dict(applied.changes())
    for key, value in changes.items():
        if value is None:
            del log[key]
        else:
            log[key] = value
    applied.committed()
    return changes


@pytest.mark.parametrize("is_weak", [False, True])
def test_any_history_is_that_of_a_set(is_weak: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where most hashes are equal: identities are compared exactly."""
    if is_weak:
        monkeypatch.setattr(identity_table, "hash_of", lambda position, path: ID_MASK - (position ^ path) % 5)
        last, five = np.uint64(ID_MASK), np.uint64(5)
        monkeypatch.setattr(module, "hashes", lambda positions, paths: last - (positions ^ paths) % five)
    monkeypatch.setattr(module, "MOST_OF_RECORD", 100)

    def check(seed: int) -> None:
        chance = random.Random(seed)
        applied, log = Applied(), dict[bytes, bytes]()
        known: set[Identity] = set()
        ends = dict.fromkeys(_PARTITIONS, 0)

        def is_repeat(identity: Identity) -> bool:
            position = identity[0]
            done = position != NO_POSITION and position % 2**40 < ends.get(position >> 40, 0)
            return done or identity in known

        for _ in range(12):
            for _ in range(chance.randint(0, 3)):
                size = chance.choice((1, 5, 40, 300))
                identities = [
                    (_position(chance.choice(_PARTITIONS), chance.randrange(400)), chance.choice((7, 8, 2**64 - 1)))
                    if chance.random() < 0.95
                    else (NO_POSITION, 7)
                    for _ in range(size)
                ]
                if chance.random() < 0.5:
                    columns = _columns(identities)
                    repeats = applied.is_repeat(*columns).tolist()
                    for at, identity in enumerate(identities):
                        is_again = identity[0] != NO_POSITION and identity in identities[:at]
                        assert repeats[at] == (is_repeat(identity) or is_again)
                    fresh = [not each for each in repeats]
                    applied.note(columns[0][fresh], columns[1][fresh])
                    known.update(each for each in identities if each[0] != NO_POSITION)
                else:
                    for identity in identities:
                        assert applied.is_applied(*identity) == is_repeat(identity)
                        if not is_repeat(identity):
                            applied.note_one(*identity)
                            known.update({identity} if identity[0] != NO_POSITION else ())
            if chance.random() < 0.3:
                partition = chance.choice(_PARTITIONS)
                ends[partition] = max(ends[partition], offset := chance.randrange(400))
                applied.learn({partition: DoneSet(offset)})
            _commit(applied, log)
            _commit(applied, log)  # it may delete records that the last one has written
            assert not applied.has_changes
            if chance.random() < 0.2:
                ends_before, ends = ends, dict.fromkeys(_PARTITIONS, 0)
                applied = Applied.restored(log.items())
                for partition, end in ends_before.items():
                    applied.learn({partition: DoneSet(end)})
                    ends[partition] = end
        applied.learn({partition: DoneSet(400) for partition in _PARTITIONS})
        _commit(applied, log)
        assert not [key for key in log if key.startswith(APPLIED_PREFIX)]

    each_seed(check)


def test_a_record_is_deleted_with_what_is_known_once_all_its_positions_are_done() -> None:
    applied, log = Applied(), dict[bytes, bytes]()
    first, second = APPLIED_PREFIX + bytes(8), APPLIED_PREFIX + bytes(7) + b"\1"
    applied.note(*_columns([(_position(2, 5), 9), (_position(2, 8), 9), (_position(2, 6), 9)]))
    _commit(applied, log)
    applied.note_one(_position(3, 0), 9)
    _commit(applied, log)
    for done in (DoneSet(6), DoneSet(7)):
        applied.learn({2: done})
        assert not applied.has_changes
        assert _commit(applied, log) == {}
    applied.learn({2: DoneSet(6, [(8, 9)])})
    assert applied.has_changes
    changes = _commit(applied, log)
    assert changes == {first: None, DONE_PREFIX + b"\0\0\0\2": log[DONE_PREFIX + b"\0\0\0\2"]}
    assert not applied.changes()
    restored = Applied.restored([*log.items(), (ABOUT_KEY, b"{}")])
    offsets = [restored.is_applied(_position(2, offset), 1) for offset in range(5, 10)]
    assert offsets == [True, True, False, True, False]
    assert [restored.is_applied(_position(3, 0), path) for path in (8, 9)] == [False, True]
    restored.learn({3: DoneSet(1)})
    assert _commit(restored, log).keys() == {second, DONE_PREFIX + b"\0\0\0\3"}


def test_identities_of_done_positions_leave_memory_before_their_record_is_deleted() -> None:
    """A message that stays open for ever keeps a record, and not what else was applied in its transaction."""
    applied, log = Applied(), dict[bytes, bytes]()
    applied.note(*_columns([(_position(0, 0), 1)]))
    for begin in range(1, 200_000, 1_000):
        offsets = np.arange(begin, begin + 1_000, dtype=np.uint64)
        assert not applied.is_repeat(offsets, np.ones_like(offsets)).any()
        applied.note(offsets, np.ones_like(offsets))
        _commit(applied, log)
        applied.learn({0: DoneSet(0, [(1, begin + 1_000)])})
        assert applied.kept <= 4_000
        assert applied.size_bytes <= 4_000 * 26
    _commit(applied, log)
    assert len([key for key in log if key.startswith(APPLIED_PREFIX)]) == 1
    assert Applied.restored(log.items()).is_applied(0, 1)


def test_an_identity_needs_at_most_fifty_bytes() -> None:
    applied = Applied()
    offsets = np.arange(1_000, dtype=np.uint64)
    for begin in range(0, 60_000, 1_000):
        applied.note(offsets + np.uint64(begin), offsets)
        assert begin < 10_000 or applied.size_bytes < 50 * applied.kept


def test_a_large_transaction_has_several_records() -> None:
    applied, log = Applied(), dict[bytes, bytes]()
    offsets = np.arange(70_000, dtype=np.uint64)
    applied.note(offsets, offsets)
    changes = _commit(applied, log)
    sizes = [len(read_identities(value)[0]) for value in changes.values() if value is not None]
    assert sizes == [32_768, 32_768, 4_464]
    assert max(map(len, log.values())) < 1_000_000
    assert Applied.restored(log.items()).is_repeat(offsets, offsets).all()


def test_the_keys_of_the_sdk_s_records_are_fixed() -> None:
    assert (APPLIED_PREFIX, DONE_PREFIX) == (b"\xff\x00acker.state/applied/", b"\xff\x00acker.state/done/")


_VALUE = identities_value(*_columns([(1, 2), (3, 4)]))


@pytest.mark.parametrize(
    ("key", "value", "error", "text"),
    [
        (
            APPLIED_PREFIX + bytes(8),
            b"\2" + _VALUE[1:],
            VersionError,
            "identities of version 2, .* version 1: run",
        ),
        (APPLIED_PREFIX + bytes(8), _VALUE[:-1], WireError, "2 of them need 32 or 24 bytes, and there are 31"),
        (APPLIED_PREFIX + bytes(8), b"\1\0\0\0\0", WireError, "0 of them"),
        (APPLIED_PREFIX + bytes(8), b"", WireError, "it has 0 bytes"),
        (APPLIED_PREFIX + bytes(7), _VALUE, WireError, "its key is"),
        (DONE_PREFIX + bytes(4), b"\3" + bytes(8), VersionError, "done offsets of version 3"),
        (DONE_PREFIX + bytes(4), b"\1", WireError, "it has 1 bytes"),
        (DONE_PREFIX + bytes(4), b"\1" + bytes(8) + b"!", WireError, "the set past offset 0 is damaged"),
        (DONE_PREFIX + bytes(4), b"\1" + bytes(8) + b"\xff", WireError, "the set past offset 0 is damaged"),
        (DONE_PREFIX + b"x", b"\1" + bytes(8), WireError, "its key is"),
    ],
)
def test_a_record_that_cannot_be_read_is_an_error(key: bytes, value: bytes, error: type[WireError], text: str) -> None:
    with pytest.raises(error, match=text) as raised:
        Applied.restored([(key, value)])
    assert "reset the state" in str(raised.value)
