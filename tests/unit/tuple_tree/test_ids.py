"""Ids: random, packed."""

from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK, pack_ids, random_ids, unpack_ids

_IDS = st.integers(0, ID_MASK)


def test_random_ids_are_never_zero() -> None:
    half_zero = b"".join(bytes(8) + number.to_bytes(8, "little") for number in range(1, 513))
    draws = iter([half_zero, half_zero, bytes(range(1, 9)) * 1024])
    assert 0 not in list(islice(random_ids(lambda size: next(draws)), 1024))


@given(st.lists(_IDS, max_size=50))
@example([0, 2**63 - 1, 2**63, ID_MASK])
def test_packed_ids_come_back(ids: list[int]) -> None:
    packed = pack_ids(ids)
    assert packed == b"".join(id_.to_bytes(8, "big") for id_ in ids)
    assert unpack_ids(packed).tolist() == ids


def test_ragged_columns_and_invalid_ids_are_rejected() -> None:
    with pytest.raises(WireError, match="ack_vals has 9 bytes"):
        unpack_ids(bytes(9), "ack_vals")
    for id_ in (-1, 2**64):
        with pytest.raises(OverflowError):
            pack_ids([id_])
