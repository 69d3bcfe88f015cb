"""Entries of the ack log are shared out among its partitions: each once, in order, in batches of a limited size."""

from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.entries import Entries

roots = st.lists(st.integers(0, 2**64 - 1), max_size=40)


@given(roots, roots, roots, roots, st.integers(1, 300), st.integers(1, 7))
def test_each_entry_is_in_one_batch_of_its_partition_in_order(
    inits: list[int], acks: list[int], fails: list[int], resets: list[int], partitions: int, largest: int
) -> None:
    columns: list[Any] = [np.array(each, np.uint64) for each in (inits, acks, fails, resets)]
    init, ack, fail, reset = columns
    texts = [f"fail {number}" for number in range(len(fails))]
    entries = Entries(init, ~init, ack, ~ack, fail, texts, reset)
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    reached = -1
    for partition, batch in entries.shares(partitions, largest):
        assert partition >= reached
        reached = partition
        sizes = {name: len(column) for name, column in batch.items()}
        assert 0 < max(sizes.values()) <= largest
        for kind, beside in (("init", "init_vals"), ("ack", "ack_vals"), ("fail", "fail_messages"), ("reset", None)):
            own = batch[f"{kind}_roots"].tolist() if f"{kind}_roots" in batch else []
            others = own if beside is None else list(batch.get(beside, []))
            found[kind, partition] += zip(own, others, strict=True)
    expected: dict[tuple[str, int], list[Any]] = defaultdict(list)
    pairs: list[tuple[str, list[Any]]] = [
        ("init", list(zip(inits, list(~init), strict=True))),
        ("ack", list(zip(acks, list(~ack), strict=True))),
        ("fail", list(zip(fails, texts, strict=True))),
        ("reset", list(zip(resets, resets, strict=True))),
    ]
    for kind, of_kind in pairs:
        for root, other in of_kind:
            expected[kind, root % partitions].append((root, other))
    assert {key: value for key, value in found.items() if value} == expected
