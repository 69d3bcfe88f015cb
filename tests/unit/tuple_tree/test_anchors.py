"""Anchors: the header, the edges of children, and ack vals; `TestTrees` has whole trees."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuple_tree.anchors import Edges, pack_anchors, unpack_anchors
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK

_IDS = st.integers(0, ID_MASK)


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


def test_entries_of_a_repeated_root_are_xored() -> None:
    header = pack_anchors({7: 0b1100}) + pack_anchors({9: 1}) + pack_anchors({7: 0b1010})
    assert unpack_anchors(header) == {7: 0b0110, 9: 1}
