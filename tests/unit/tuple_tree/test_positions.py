"""Positional roots."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree.errors import PositionError, TupleTreeError
from tuple_tree.ids import ID_MASK
from tuple_tree.positions import (
    Position,
    position_of,
    position_word,
    positional_root,
    roots_of_words,
    topic_key,
    word_of_root,
    words_of_roots,
)
from tuple_tree.routing import acker_partition

_VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "positional_roots.json").read_text())
_POSITIONS = st.builds(
    Position, st.integers(0, 63), st.integers(0, 4095), st.integers(0, 2**40 - 1), st.integers(0, 63)
)
_PARTITIONS = st.sampled_from([1, 2, 3, 8, 12, 1000])


@given(_POSITIONS, st.text(), st.text(), _PARTITIONS)
@example(Position(0, 0, 0, 0), "", "a", 8)
@example(Position(63, 4095, 2**40 - 1, 63), "", "a", 8)
def test_a_root_decodes_to_its_position_and_differs_between_topics(
    position: Position, one: str, other: str, partitions: int
) -> None:
    keys = topic_key(one), topic_key(other)
    roots = [positional_root(position, key, partitions) for key in keys]
    assert all(0 <= root <= ID_MASK for root in roots)
    assert [position_of(root, key, partitions) for root, key in zip(roots, keys, strict=True)] == [position, position]
    assert (roots[0] == roots[1]) == (one == other)


@given(st.lists(st.integers(0, ID_MASK), unique=True, max_size=200), st.integers(0, ID_MASK), _PARTITIONS)
@example([*range(2**64 - 3 * 2**16, 2**64, 2**13)], 0, 1000)
def test_roots_of_columns_equal_single_roots_and_are_distinct(words: list[int], key: int, partitions: int) -> None:
    roots = roots_of_words(words, [key] * len(words), partitions)
    assert roots.tolist() == [_root_of_word(word, key, partitions) for word in words]
    assert len(set(roots.tolist())) == len(words)
    for order in ("<u8", ">u8"):
        assert words_of_roots(roots.astype(order), key, partitions).tolist() == words
    assert [word_of_root(root, key, partitions) for root in roots.tolist()] == words


def _root_of_word(word: int, key: int, partitions: int) -> int:
    """As `schemas/README.md` describes it."""
    left, right = word >> 40, word >> 16 & 0xFFFFFF
    for number in range(4):
        mixed = xxhash.xxh64_intdigest((right | number << 32).to_bytes(8, "little"), 42) & 0xFFFFFF
        left, right = right, left ^ mixed
    block = left << 24 | right
    rest = ((word & 0xFFFF) * 0x9E37 + block) & 0xFFFF
    is_alone = block >= 2**48 - 2**48 % partitions
    root = block << 16 | rest if is_alone else (block // partitions << 16 | rest) * partitions + block % partitions
    return (root + key) & ID_MASK


@pytest.mark.parametrize("partitions", [3, 1000])
def test_roots_at_the_end_of_the_range_come_back(partitions: int) -> None:
    """The last blocks do not fill a range together: for P = 1000 there are 656 of them."""
    roots = np.array([2**64 - 1 - (number << 14) for number in range(1_500)], dtype=np.uint64)
    words = words_of_roots(roots, 0, partitions)
    assert roots_of_words(words, np.zeros_like(words), partitions).tolist() == roots.tolist()
    assert [position_word(position_of(root, 0, partitions)) for root in roots.tolist()] == words.tolist()
    assert [word_of_root(root, 0, partitions) for root in roots.tolist()] == words.tolist()


def test_positions_that_do_not_fit() -> None:
    limits = {"spout": 64, "partition": 4096, "offset": 2**40, "attempt": 64}
    for field, limit in limits.items():
        for value in (-1, limit):
            position = Position(**{**dict.fromkeys(limits, 0), field: value})
            with pytest.raises(PositionError, match=f"{field} {value} .*below {limit}") as raised:
                positional_root(position, 0, 8)
            assert isinstance(raised.value, TupleTreeError)


def test_pinned_roots() -> None:
    for vector in _VECTORS:
        position = Position(vector["spout"], vector["partition"], vector["offset"], vector["attempt"])
        root, partitions = int(vector["root"], 16), vector["partitions"]
        assert positional_root(position, 0, partitions) == root
        assert position_of(root, 0, partitions) == position
        assert acker_partition(root, partitions) == vector["ack_partition"]


def test_blocks_of_offsets_stay_together_and_spread_over_ack_partitions() -> None:
    for partitions in (3, 8):
        firsts = []
        for block in range(2_000):
            words = [position_word(Position(0, 0, 1024 * block + at, at % 64)) for at in (0, 1, 500, 1023)]
            roots = roots_of_words(words, [0] * len(words), partitions).tolist()
            (partition,) = {acker_partition(root, partitions) for root in roots}
            firsts.append(partition)
        counts, expected = Counter(firsts), 2_000 / partitions
        # 99.9 % of fair draws lie below these; the inputs are fixed, so this never flickers.
        bound = {3: 13.82, 8: 24.33}[partitions]
        assert sum((counts[each] - expected) ** 2 / expected for each in range(partitions)) < bound
