"""The wire form of vals: consecutive edges of a seed are runs, and all others are written out.

The val of an input without children is its edge, so the acks of a pack that a bolt handles in order are one run. Runs
are found by the vals alone: each edge has one seed under which it is number 0, as the mixer is a bijection, and from
one edge of a pack to the next that seed rises by a constant. So `joined` returns the vals that `split` was called with,
in their order, whatever they are.
"""

import struct
from typing import Final

import numpy as np

from tuple_tree.edges import STEP, Mixer, edges_of_runs, mix, seeds_of
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn

_RUN: Final = struct.Struct(">IIQ")
"""The number of other vals between it and the previous run, its length, and the seed whose edge 0 is its first val."""

FEWEST: Final = 1_000
"""Vals in the runs of a batch, at least: it takes readers longer to compute few edges than to read them."""

SHORTEST: Final = 64
"""Vals of a run, at least, for the same reason."""


def split(vals: IdColumn) -> tuple[bytes, IdColumn]:
    """Divides vals into runs of edges, in their wire form, and all others."""
    # Zero is not an edge, but has a seed like any number.
    if len(vals) < FEWEST or not vals.all():
        return b"", vals
    seeds = seeds_of(vals)
    follows = np.zeros(len(vals) + 1, np.bool_)  # whether a val is the edge that follows the val before
    np.equal(seeds[1:], seeds[:-1] + STEP, out=follows[1:-1])
    turns = np.flatnonzero(follows[1:] != follows[:-1])
    begins, sizes = turns[::2], turns[1::2] + 1 - turns[::2]
    long = sizes >= SHORTEST
    begins, sizes = begins[long], sizes[long]
    if sizes.sum() < FEWEST:
        return b"", vals
    ends = (begins + sizes).tolist()
    gaps = list(zip([0, *ends], [*begins.tolist(), len(vals)], strict=True))
    heads = zip(gaps, sizes.tolist(), seeds[begins].tolist(), strict=False)
    runs = [_RUN.pack(end - begin, size, seed) for (begin, end), size, seed in heads]
    return b"".join(runs), np.concatenate([vals[begin:end] for begin, end in gaps])


def joined(runs: bytes, vals: IdColumn, size: int, column: str, mixer: Mixer = mix) -> IdColumn:
    """The `size` vals that were split, in their order; raises `WireError` if these are not as many."""
    if len(runs) % _RUN.size:
        raise WireError("ragged-column", f"{column} has {len(runs)} bytes, which is not a multiple of {_RUN.size}")
    heads = list(_RUN.iter_unpack(runs))
    befores, sizes = [head[0] for head in heads], [head[1] for head in heads]
    edges, place = sum(sizes), sum(befores)
    if edges + len(vals) != size or place > len(vals):
        detail = f"{column} has {edges} vals, the last run after {place} of {len(vals)} others, for {size} roots"
        raise WireError("uneven-columns", detail)
    if not edges:
        return vals
    made = edges_of_runs([(seed, size) for _, size, seed in heads], mixer)
    return np.insert(vals, np.repeat(np.cumsum(befores), sizes), made) if len(vals) else made
