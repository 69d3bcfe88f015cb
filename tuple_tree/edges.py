"""Edge ids of the tuples of a pack, which follow from the pack's seed and the number of a tuple; see ADR 29.

The mixer is SplitMix64: a bijection of 64-bit integers that is not linear, neither over GF(2) nor modulo 2^64.
"""

import os
from collections.abc import Callable
from typing import Final

import numpy as np

from tuple_tree.ids import ID_BYTES, ID_MASK, IdColumn

_GAMMA: Final = 0x9E3779B97F4A7C15  # the step from one number to the next, and the edge in place of zero
_FACTORS: Final = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_CACHED: Final = 4096
_FEW: Final = 12
"""Up to this number of edges numpy takes longer than Python."""

_gamma: Final = np.uint64(_GAMMA)
_first, _second = map(np.uint64, _FACTORS)
_shifts: Final = tuple(map(np.uint64, (30, 27, 31)))
_steps: Final = np.arange(1, _CACHED + 1, dtype=np.uint64) * _gamma


def new_seed(entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Draws the seed of a pack; draw another one for each attempt to send it."""
    return int.from_bytes(entropy(ID_BYTES))


def edge(seed: int, number: int) -> int:
    """The edge of a tuple, by the seed and its number; never zero, since such an edge would not show in a checksum."""
    mixed = seed + (number + 1) * _GAMMA & ID_MASK
    mixed = (mixed ^ mixed >> 30) * _FACTORS[0] & ID_MASK
    mixed = (mixed ^ mixed >> 27) * _FACTORS[1] & ID_MASK
    return mixed ^ mixed >> 31 or _GAMMA


def edge_column(seed: int, first: int, size: int) -> IdColumn:
    """The edges of consecutive numbers: shape `(size,)`, as `edge` makes each."""
    if size <= _FEW:
        return np.array([edge(seed, number) for number in range(first, first + size)], np.uint64)
    end = first + size
    steps = _steps[first:end] if end <= _CACHED else np.arange(first + 1, end + 1, dtype=np.uint64) * _gamma
    return _mixed(steps + np.uint64(seed))


def edges_of(seeds: IdColumn, numbers: IdColumn) -> IdColumn:
    """The edges of tuples of many packs: shape `(n,)`, by the seed and the number of each."""
    return _mixed((numbers.astype(np.uint64) + np.uint64(1)) * _gamma + seeds.astype(np.uint64))


def _mixed(column: IdColumn) -> IdColumn:
    column = (column ^ column >> _shifts[0]) * _first
    column = (column ^ column >> _shifts[1]) * _second
    column ^= column >> _shifts[2]
    if not column.all():
        column[column == 0] = _gamma
    return column
