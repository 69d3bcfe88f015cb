"""Edges from a seed: pinned values, and that XORs of them cancel by chance only; see ADR 29.

Of whole edges no chance is seen in any test, so windows of their bits are counted: with b bits, a set of edges cancels
with a probability of 2^-b.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import count
from math import comb, sqrt
from operator import xor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inspection.trace.ack_matching import Basis
from tuple_tree.edges import edge, edge_column, edges_of, new_seed
from tuple_tree.ids import ID_MASK

GAMMA = 0x9E3779B97F4A7C15

Column = NDArray[np.uint64]
Mixer = Callable[[Column, Column], Column]  # of seeds and numbers

SEEDS = np.random.default_rng(29).integers(0, ID_MASK, 10_000, np.uint64)  # the same in each run
WINDOWS = 0, 22, 44  # the lowest bits, some in the middle, the highest


@given(st.integers(0, ID_MASK), st.integers(0, 2**32 - 1), st.integers(0, 40))
@example(ID_MASK, 4090, 40)
@example(-20 * GAMMA & ID_MASK, 0, 40)
def test_columns_have_the_same_edges(seed: int, first: int, size: int) -> None:
    edges = [edge(seed, number) for number in range(first, first + size)]
    assert edge_column(seed, first, size).tolist() == edges
    assert 0 not in edges
    numbers = np.arange(first, first + size, dtype=np.uint64)
    assert edges_of(np.full(size, seed, ">u8"), numbers.astype(">u8")).tolist() == edges


def test_each_seed_is_drawn() -> None:
    draws = count()
    assert [new_seed(lambda size: next(draws).to_bytes(size)) for _ in range(3)] == [0, 1, 2]
    assert new_seed() != new_seed()


def check_small_sets(mixer: Mixer) -> None:
    """Of the sets of 2, 3 and 4 edges of a pack of 1,000, chance decides which cancel."""
    size, bits, packs = 1000, 20, 5
    numbers = np.arange(size, dtype=np.uint64)
    left, right = np.triu_indices(size, 1)
    for shift in WINDOWS:
        found = np.zeros(3, np.int64)
        for seed in SEEDS[:packs]:
            edges = window(mixer(np.full(size, seed), numbers), shift, bits)
            sums = np.bincount(edges[left] ^ edges[right], minlength=2**bits)
            two, zeros = sums[0], np.count_nonzero(edges == 0)
            # A sum of two edges that is a third one, or that is the sum of two others: three times for each set.
            three = (sums[edges].sum() - zeros * (size - 1)) // 3
            four = ((sums * (sums - 1) // 2).sum() - two * (size - 2)) // 3
            found += [two, three, four]
        for cancelled, number in zip(found.tolist(), (2, 3, 4), strict=True):
            assert_by_chance(cancelled, packs * comb(size, number) / 2**bits)


def check_runs(mixer: Mixer) -> None:
    """Of the runs of neighbours in a pack, such as the children of one tuple, chance decides which cancel."""
    size, bits, packs = 1000, 20, 100
    numbers = np.arange(size, dtype=np.uint64)
    for shift in WINDOWS:
        edges = (window(mixer(np.full(size, seed), numbers), shift, bits) for seed in SEEDS[:packs])
        found = sum(coincidences(np.append(0, np.bitwise_xor.accumulate(each))) for each in edges)
        assert_by_chance(found, packs * comb(size + 1, 2) / 2**bits)


def check_seeds(mixer: Mixer) -> None:
    """The edges of the same tuples have, by seed, XORs like random numbers, so no other edge is likely to cancel them.

    A single tuple is not among them, since each edge belongs to one seed.
    """
    for chosen in ((0, 1), (0, 512), (0, 1, 2), (0, 1, 2, 3), (1, 2, 4, 8), range(9), range(64)):
        for shift in WINDOWS:
            sums = window(sums_by_seed(mixer, chosen), shift, 20)
            assert_by_chance(coincidences(sums), comb(len(SEEDS), 2) / 2**20)


def check_other_seeds(mixer: Mixer) -> None:
    """Any 66 edges have a set of even size that cancels: another one for each seed."""
    for seed in SEEDS[:10]:
        basis = Basis([])
        edges = mixer(np.full(66, seed), np.arange(66, dtype=np.uint64)).tolist()
        sets = (basis.add(1 << 64 | edge, 1 << at) for at, edge in enumerate(edges))
        members = next(found for found in sets if found is not None)
        chosen = [number for number in range(66) if members >> number & 1]
        assert SEEDS[sums_by_seed(mixer, chosen) == 0].tolist() == [seed]


def check_ranks(mixer: Mixer) -> None:
    """64 edges of a pack are as often independent over GF(2) as random ones, and depend on each other as often."""
    packs = 300
    ranks = [len(Basis(mixer(np.full(64, seed), np.arange(64, dtype=np.uint64)).tolist())) for seed in SEEDS[:packs]]
    for rank, share in ((64, 0.2888), (63, 0.5776), (62, 0.1284)):
        assert_by_chance(ranks.count(rank), packs * share)


@pytest.mark.parametrize("check", [check_small_sets, check_runs, check_seeds, check_other_seeds, check_ranks])
def test_edges_of_a_pack_cancel_by_chance(check: Callable[[Mixer], None]) -> None:
    check(edges_of)


def sums_by_seed(mixer: Mixer, numbers: Iterable[int]) -> Column:
    """The XOR of the edges of some tuples, for each seed."""
    return reduce(xor, (mixer(SEEDS, np.full(len(SEEDS), number, np.uint64)) for number in numbers))


def window(edges: Column, shift: int, bits: int) -> NDArray[np.intp]:
    return (edges >> np.uint64(shift) & np.uint64(2**bits - 1)).astype(np.intp)


def coincidences(numbers: NDArray[np.intp]) -> int:
    """How many pairs are equal."""
    counts = np.unique(numbers, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def assert_by_chance(found: int, expected: float) -> None:
    """Sets cancel independently of each other, two at a time, so the variance of their number is its expectation."""
    assert abs(found - expected) < 5 * sqrt(expected)
