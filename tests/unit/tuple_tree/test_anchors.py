"""Anchors: the header, the edges of children, and what is acked; `TestTrees` has whole trees of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree.anchors import Edges, ack_vals, new_child, pack_anchors, unpack_anchors
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK

_IDS = st.integers(0, ID_MASK)


@dataclass
class _Tuple:
    edges: Edges
    out: int = field(default=0)


def _given(*ids: int) -> Callable[[], int]:
    return iter(ids).__next__


@given(st.dictionaries(_IDS, _IDS, max_size=8))
@example({0: 0})
@example({ID_MASK: ID_MASK})
def test_header_round_trip(edges: Edges) -> None:
    header = pack_anchors(edges)
    assert len(header) == 16 * len(edges)
    assert unpack_anchors(header) == edges
    with pytest.raises(WireError, match=f"the anchors header has {len(header) + 8} bytes"):
        unpack_anchors(header + bytes(8))


def test_the_header_is_big_endian_root_first() -> None:
    assert pack_anchors({1: 2, 3: 4}).hex() == "".join(f"{id_:016x}" for id_ in (1, 2, 3, 4))


def test_a_root_that_stands_twice_is_xored_together() -> None:
    header = pack_anchors({7: 0b1100}) + pack_anchors({9: 1}) + pack_anchors({7: 0b1010})
    assert unpack_anchors(header) == {7: 0b0110, 9: 1}


def test_multi_anchoring_joins_all_trees() -> None:
    left, right = _Tuple({7: 1}), _Tuple({9: 2, 11: 4})
    assert new_child([left, right], _given(16, 32)) == {7: 16, 9: 32, 11: 32}
    assert ack_vals(left) == [(7, 1 ^ 16)]
    assert ack_vals(right) == [(9, 2 ^ 32), (11, 4 ^ 32)]


def test_untracked_anchors_draw_no_edge_and_pass_nothing_on() -> None:
    untracked, tracked = _Tuple({}), _Tuple({7: 1})
    assert new_child([], _given()) == {}
    assert new_child([untracked], _given()) == {}
    assert new_child([untracked, tracked], _given(2)) == {7: 2}
    assert (untracked.out, ack_vals(untracked)) == (0, [])
