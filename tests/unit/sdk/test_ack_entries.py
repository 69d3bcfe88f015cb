"""How buffered entries are shared out among the partitions of the ack log."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.ack_entries import Entries, split
from tuple_tree.ids import IdColumn

ids = st.integers(0, 2**64 - 1)
pairs = st.lists(st.tuples(ids, ids), max_size=60)


def _column(values: list[int]) -> IdColumn:
    return np.array(values, dtype=np.uint64)


def _of(partition: int, partitions: int, entries: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return [(root, told) for root, told in entries if root % partitions == partition]


@given(
    partitions=st.integers(1, 9),
    inits=pairs,
    acks=pairs,
    fails=st.lists(st.tuples(ids, st.text(max_size=3)), max_size=10),
    resets=st.lists(ids, max_size=10),
)
def test_every_entry_is_in_the_share_of_its_partition_in_its_order(
    partitions: int,
    inits: list[tuple[int, int]],
    acks: list[tuple[int, int]],
    fails: list[tuple[int, str]],
    resets: list[int],
) -> None:
    entries = Entries(
        _column([root for root, _ in inits]),
        _column([val for _, val in inits]),
        _column([root for root, _ in acks]),
        _column([val for _, val in acks]),
        _column([root for root, _ in fails]),
        tuple(message for _, message in fails),
        _column(resets),
    )
    shares = split(entries, partitions)
    if partitions > 1:
        told = {root % partitions for root in resets} | {root % partitions for root, _ in (*inits, *acks, *fails)}
        assert [partition for partition, _ in shares] == sorted(told)
    for partition, share in shares:
        assert list(zip(share.init_roots.tolist(), share.init_vals.tolist(), strict=True)) == _of(
            partition, partitions, inits
        )
        assert list(zip(share.ack_roots.tolist(), share.ack_vals.tolist(), strict=True)) == _of(
            partition, partitions, acks
        )
        assert list(zip(share.fail_roots.tolist(), share.fail_messages, strict=True)) == _of(
            partition, partitions, fails
        )
        assert share.reset_roots.tolist() == [root for root in resets if root % partitions == partition]
