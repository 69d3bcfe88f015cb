"""Ids: random, packed, signed, positional."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree.errors import PositionError, TupleTreeError, WireError
from tuple_tree.ids import (
    ID_MASK,
    Position,
    pack_ids,
    position_of,
    positional_root,
    random_ids,
    root_of_word,
    roots_of_words,
    signed,
    topic_key,
    unpack_ids,
    unsigned,
)
from tuple_tree.routing import acker_partition

_VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "positional_roots.json").read_text())
_IDS = st.integers(0, ID_MASK)
_POSITIONS = st.builds(
    Position, st.integers(0, 63), st.integers(0, 4095), st.integers(0, 2**40 - 1), st.integers(0, 63)
)


def test_random_ids_are_never_zero() -> None:
    half_zero = b"".join(bytes(8) + number.to_bytes(8, "little") for number in range(1, 513))
    assert 0 not in list(islice(random_ids(lambda size: half_zero), 512))


@given(st.lists(_IDS, max_size=50))
@example([0, 2**63 - 1, 2**63, ID_MASK])
def test_packed_and_signed_ids_come_back(ids: list[int]) -> None:
    packed = pack_ids(ids)
    assert packed == b"".join(id_.to_bytes(8, "big") for id_ in ids)
    assert packed == b"".join(signed(id_).to_bytes(8, "big", signed=True) for id_ in ids)
    assert unpack_ids(packed).tolist() == [unsigned(signed(id_)) for id_ in ids] == ids


def test_ragged_columns_and_what_is_no_id_are_refused() -> None:
    with pytest.raises(WireError, match="ack_vals has 9 bytes"):
        unpack_ids(bytes(9), "ack_vals")
    for id_ in (-1, 2**64):
        with pytest.raises(OverflowError):
            pack_ids([id_])


@given(_POSITIONS, st.text(), st.text())
@example(Position(0, 0, 0, 0), "", "a")
@example(Position(63, 4095, 2**40 - 1, 63), "", "a")
def test_a_root_says_its_position_and_differs_from_topic_to_topic(position: Position, one: str, other: str) -> None:
    keys = topic_key(one), topic_key(other)
    roots = [positional_root(position, key) for key in keys]
    assert all(0 <= root <= ID_MASK for root in roots)
    assert [position_of(root, key) for root, key in zip(roots, keys, strict=True)] == [position, position]
    assert (roots[0] == roots[1]) == (one == other)


def test_positions_that_do_not_fit() -> None:
    limits = {"spout": 64, "partition": 4096, "offset": 2**40, "attempt": 64}
    for field, limit in limits.items():
        for value in (-1, limit):
            position = Position(**{**dict.fromkeys(limits, 0), field: value})
            with pytest.raises(PositionError, match=f"{field} {value} .*below {limit}") as raised:
                positional_root(position, 0)
            assert isinstance(raised.value, TupleTreeError)


def test_pinned_roots() -> None:
    for vector in _VECTORS:
        position = Position(vector["spout"], vector["partition"], vector["offset"], vector["attempt"])
        root = int(vector["root"], 16)
        assert positional_root(position, 0) == root
        assert position_of(root, 0) == position
        assert signed(root) == vector["signed"]
        assert acker_partition(root, 8) == vector["root_mod_8"]


def test_roots_spread_over_acker_partitions() -> None:
    varied: list[Callable[[int], Position]] = [
        lambda number: Position(0, 0, number),
        lambda number: Position(5, 11, 1_000_000 + 8 * number),
        lambda number: Position(0, number % 4096, 7, number // 4096),
    ]
    # 99.9 % of fair draws lie below these; the inputs are fixed, so this never flickers.
    for partitions, bound in ((3, 13.82), (8, 24.33)):
        for position in varied:
            counts = Counter(
                acker_partition(positional_root(position(number), 0), partitions) for number in range(8000)
            )
            expected = 8000 / partitions
            assert sum((counts[each] - expected) ** 2 / expected for each in range(partitions)) < bound


@given(words=st.lists(st.integers(0, 2**64 - 1), max_size=200))
def test_roots_of_many_words_are_those_of_each(words: list[int]) -> None:
    assert roots_of_words(words) == [root_of_word(word) for word in words]
