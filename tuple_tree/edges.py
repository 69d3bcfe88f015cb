"""Edge ids of the tuples of a pack, which follow from the pack's seed and the number of a tuple; see ADR 29.

The mixer is SplitMix64: a bijection of 64-bit integers that is not linear, neither over GF(2) nor modulo 2^64.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tuple_tree.ids import ID_BYTES, ID_MASK, IdColumn

_GAMMA: Final = 0x9E3779B97F4A7C15  # the step from one number to the next, and the edge in place of zero
FACTORS: Final = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_CACHED: Final = 4096
_FEW: Final = 12
"""Up to this number of edges numpy takes longer than Python."""

STEP: Final = np.uint64(_GAMMA)
"""The difference between the numbers, as `seeds_of` returns them, of consecutive edges of a pack."""

_first, _second = map(np.uint64, FACTORS)
_unfirst, _unsecond = (np.uint64(pow(factor, -1, 2**64)) for factor in FACTORS)
_shifts: Final = tuple(map(np.uint64, (30, 27, 31)))
_steps: Final = np.arange(1, _CACHED + 1, dtype=np.uint64) * STEP

Mixer = Callable[[IdColumn], IdColumn]
"""`mix`, or the same compiled."""


def new_seed(entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Draws the seed of a pack; draw another one for each attempt to send it."""
    return int.from_bytes(entropy(ID_BYTES))


def edge(seed: int, number: int) -> int:
    """The edge of a tuple, by the seed and its number; never zero, since such an edge would not show in a checksum."""
    mixed = seed + (number + 1) * _GAMMA & ID_MASK
    mixed = (mixed ^ mixed >> 30) * FACTORS[0] & ID_MASK
    mixed = (mixed ^ mixed >> 27) * FACTORS[1] & ID_MASK
    return mixed ^ mixed >> 31 or _GAMMA


def edge_column(seed: int, first: int, size: int) -> IdColumn:
    """The edges of consecutive numbers: shape `(size,)`, as `edge` makes each."""
    if size <= _FEW:
        return np.array([edge(seed, number) for number in range(first, first + size)], np.uint64)
    return mix(_numbered(first, size) + np.uint64(seed))


def edges_of(seeds: IdColumn, numbers: IdColumn) -> IdColumn:
    """The edges of tuples of many packs: shape `(n,)`, by the seed and the number of each."""
    return mix((numbers.astype(np.uint64) + np.uint64(1)) * STEP + seeds.astype(np.uint64))


def edges_of_runs(runs: Sequence[tuple[int, int]], mixer: Mixer) -> IdColumn:
    """The first edges of several seeds, in order; of each seed, as many as its size."""
    column = np.empty(sum(size for _, size in runs), np.uint64)
    end = 0
    for seed, size in runs:
        begin, end = end, end + size
        np.add(_numbered(0, size), np.uint64(seed), out=column[begin:end])
    return mixer(column)


def seeds_of(edges: IdColumn) -> IdColumn:
    """The seeds that have these as their first edges: shape `(n,)`; for zero, which is not an edge, any number."""
    column = edges.astype(np.uint64)
    shifted = np.empty_like(column)
    _unshift(column, _shifts[2], shifted)
    column *= _unsecond
    _unshift(column, _shifts[1], shifted)
    column *= _unfirst
    _unshift(column, _shifts[0], shifted)
    column -= STEP
    return column


def mix(column: IdColumn) -> IdColumn:
    """Mixes a native column in place, and returns it."""
    shifted = column >> _shifts[0]
    column ^= shifted
    column *= _first
    column ^= np.right_shift(column, _shifts[1], out=shifted)
    column *= _second
    column ^= np.right_shift(column, _shifts[2], out=shifted)
    if not column.all():
        column[column == 0] = STEP
    return column


def _numbered(first: int, size: int) -> IdColumn:
    """The distances of consecutive edges from their seed."""
    end = first + size
    return _steps[first:end] if end <= _CACHED else np.arange(first + 1, end + 1, dtype=np.uint64) * STEP


def _unshift(column: IdColumn, shift: np.uint64, shifted: IdColumn) -> None:
    """Undoes `column ^= column >> shift`, of a third of the bits or more."""
    column ^= np.right_shift(column, shift, out=shifted)
    column ^= np.right_shift(column, shift + shift, out=shifted)
