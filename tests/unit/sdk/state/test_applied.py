"""The identities that a task has applied: against a naive model, and their records in the changelog."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from spout_sdk.state import applied as module
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
from tuple_tree.ids import IdColumn
from tuple_tree.state_records import ABOUT_KEY

Identity = tuple[int, int]


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


def test_any_identities_are_known_as_in_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_RECORD", 100)

    def check(seed: int) -> None:
        chance = random.Random(seed)
        applied, log, known = Applied(), dict[bytes, bytes](), set[Identity]()
        for size in chance.choices((1, 5, 40, 300), k=12):
            identities = [(chance.randrange(400), chance.choice((7, 8, 2**64 - 1))) for _ in range(size)]
            identities += chance.sample([*known, *identities], min(size, 20))
            columns = _columns(identities)
            repeats = applied.is_repeat(*columns)
            expected = [each in known or each in identities[:at] for at, each in enumerate(identities)]
            assert repeats.tolist() == expected
            assert [applied.is_applied(*each) for each in identities] == [each in known for each in identities]
            applied.note(*(each[~repeats] for each in columns))
            known.update(identities)
            _commit(applied, log)
        assert Applied.restored(log.items()).is_repeat(*_columns([*known])).all()

    each_seed(check)


def test_tuples_without_a_position_are_never_repeats() -> None:
    applied = Applied()
    columns = _columns([*[(NO_POSITION, 7)] * 40, (1, 7)])
    for is_known in (False, True):
        assert applied.is_repeat(*columns).tolist() == [False] * 40 + [is_known]
        applied.note(*(each[: 41 - is_known] for each in columns))
    assert (applied.is_applied(NO_POSITION, 7), applied.kept) == (False, 1)


def test_a_record_is_deleted_with_what_is_known_once_all_its_positions_are_done() -> None:
    applied, log = Applied(), dict[bytes, bytes]()
    first, second = APPLIED_PREFIX + bytes(8), APPLIED_PREFIX + bytes(7) + b"\1"
    applied.note(*_columns([(_position(2, 5), 9), (_position(2, 8), 9), (_position(2, 6), 9)]))
    _commit(applied, log)
    applied.note(*_columns([(_position(3, 0), 9)]))
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
    _commit(applied, log)
    assert len([key for key in log if key.startswith(APPLIED_PREFIX)]) == 1
    assert Applied.restored(log.items()).is_applied(0, 1)


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
        (APPLIED_PREFIX + bytes(8), b"\2" + _VALUE[1:], VersionError, "identities of version 2, .* version 1: run"),
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
