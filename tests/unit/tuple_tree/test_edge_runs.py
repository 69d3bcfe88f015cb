"""Runs of edges are a wire form of vals: what is read are the vals that were written, in their order, bit by bit."""

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree import edge_runs
from tuple_tree.edge_runs import joined, split
from tuple_tree.edges import edge, edge_column, seeds_of
from tuple_tree.entries import Entries
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK, NO_IDS, IdColumn
from tuple_tree.messages import AckBatch, SpoutAddress, decode_ack_batch, encode_ack_batch

GAMMA = 0x9E3779B97F4A7C15
SPOUT = SpoutAddress("t.notices.one", 0, 1_000)
ids = st.integers(0, ID_MASK)
# Edges of one seed, also backwards and with gaps; any numbers; zeros, which no edge is.
stretches = st.one_of(
    st.builds(edge_column, ids, st.integers(0, 5_000), st.integers(0, 90)),
    st.builds(
        lambda seed, size, step: edge_column(seed, 0, size)[::step], ids, st.integers(0, 90), st.sampled_from((-1, 2))
    ),
    st.lists(ids, max_size=9).map(lambda vals: np.array(vals, np.uint64)),
    st.builds(lambda size: np.zeros(size, np.uint64), st.integers(0, 2)),
)
columns = st.lists(stretches, max_size=9).map(lambda parts: np.concatenate([NO_IDS, *parts]).astype(np.uint64))


@pytest.fixture(autouse=True, scope="module")
def _short_runs() -> Iterator[None]:
    """So that few vals have many runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_runs, "FEWEST", 1)
        patch.setattr(edge_runs, "SHORTEST", 2)
        yield


@given(columns)
@example(edge_column(-GAMMA - 5 * GAMMA & ID_MASK, 0, 20))  # one of them would be zero
@example(np.array([edge(0, 0), 0, edge(0, 2), 0], np.uint64))
@example(np.array([edge(-GAMMA & ID_MASK, 1), 0, edge(-GAMMA & ID_MASK, 0)], np.uint64))
def test_what_was_split_is_joined(vals: IdColumn) -> None:
    for column in (vals, vals.astype(">u8")):
        runs, others = split(column)
        assert joined(runs, others, len(vals), "ack_runs").tolist() == vals.tolist()
        assert len(runs) + 8 * len(others) <= 8 * len(vals)


@given(columns, columns, st.lists(ids, max_size=40), st.integers(1, 4), st.integers(1, 300))
def test_batches_have_the_pairs_that_were_written_in_their_order(
    inits: IdColumn, acks: IdColumn, others: list[int], partitions: int, largest: int
) -> None:
    """Each entry of the ack log is in one batch of its partition, whatever the entries are."""
    chance = np.random.default_rng(len(acks))
    fails, resets = np.array(others, np.uint64), np.array(others[::2], np.uint64)
    entries: dict[str, Any] = {"fail_roots": fails, "fail_messages": [*map(str, others)], "reset_roots": resets}
    for kind, vals in (("init", inits), ("ack", acks)):
        roots = chance.integers(0, ID_MASK, len(vals), np.uint64)
        if chance.random() < 0.7:
            roots -= roots % np.uint64(partitions)
        entries |= {f"{kind}_roots": roots, f"{kind}_vals": vals}
    pairs = ("init_roots", "init_vals"), ("ack_roots", "ack_vals"), ("fail_roots", "fail_messages")
    read = defaultdict[tuple[int, str], list[Any]](list)
    reached = 0
    for partition, share in Entries(**entries).shares(partitions, largest):
        assert partition >= reached
        reached = partition
        assert 0 < max(map(len, share.values())) <= largest
        batch = decode_ack_batch(encode_ack_batch(AckBatch("w", bytes(16), 0, spout=SPOUT, **share)))
        for roots_of, beside in (*pairs, ("reset_roots", "reset_roots")):
            columns = (getattr(batch, name) for name in (roots_of, beside))
            read[partition, roots_of] += zip(*map(list, columns), strict=True)
    for roots_of, beside in (*pairs, ("reset_roots", "reset_roots")):
        written = [*zip(entries[roots_of].tolist(), list(entries[beside]), strict=True)]
        for partition in range(partitions):
            assert read[partition, roots_of] == [pair for pair in written if pair[0] % partitions == partition]


def test_the_acks_of_a_pack_are_one_run() -> None:
    vals = edge_column(7, 500, 1_000)
    runs, others = split(vals)
    assert (len(runs), len(others)) == (16, 0)
    some = np.array([5, 6], np.uint64)
    # Also between others, such as those of inputs with children.
    runs, others = split(np.concatenate((some, vals, some[:1], edge_column(9, 0, 100))))
    assert (len(runs), others.tolist()) == (32, [5, 6, 5])


@given(st.lists(ids))
def test_each_edge_has_one_seed(seeds: list[int]) -> None:
    edges = np.array([edge(seed, 0) for seed in seeds], np.uint64)
    # The edge in place of zero is that of another seed, too.
    again = seeds_of(edges).tolist()
    assert [edge(seed, 0) for seed in again] == edges.tolist()
    assert all(seed == found or edge(seed, 0) == GAMMA for seed, found in zip(seeds, again, strict=True))


@pytest.mark.parametrize(
    ("runs", "vals", "roots", "reason"),
    [
        ([(0, 2**32 - 1, 7)], 0, 3, "uneven-columns"),
        ([(0, 2, 7)], 1, 4, "uneven-columns"),
        ([(2, 2, 7)], 1, 3, "uneven-columns"),
        ([(1, 1, 7), (1, 1, 7)], 1, 3, "uneven-columns"),
        ([], 1, 2, "uneven-columns"),
        (None, 0, 1, "ragged-column"),
    ],
)
def test_runs_that_cannot_be_used(runs: list[tuple[int, int, int]] | None, vals: int, roots: int, reason: str) -> None:
    packed = bytes(15) if runs is None else b"".join(struct.pack(">IIQ", *run) for run in runs)
    with pytest.raises(WireError) as raised:
        joined(packed, np.zeros(vals, np.uint64), roots, "ack_runs")
    assert raised.value.reason == reason


def test_other_writers_may_send_runs_of_any_size() -> None:
    packed = b"".join(struct.pack(">IIQ", *run) for run in [(1, 0, 7), (0, 1, 8), (1, 0, 9), (0, 2, 9)])
    vals = joined(packed, np.array([5, 6, 7], np.uint64), 6, "ack_runs")
    assert vals.tolist() == [5, edge(8, 0), 6, edge(9, 0), edge(9, 1), 7]
