"""Anchors: roots and edges of the tuples of a record, and its headers."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.packs import edges_in
from tuple_tree.anchors import AnchorColumns, concatenated, readable_roots
from tuple_tree.edges import edge
from tuple_tree.errors import WireError
from tuple_tree.ids import ID_MASK, pack_ids

_IDS = st.integers(0, ID_MASK)
_ROOTS = st.lists(st.lists(_IDS, max_size=4, unique=True), min_size=1, max_size=8)
HEAD = bytes.fromhex("0123456789abcdef 00000003")


def columns(roots: list[list[int]], seed: int = 0, first: int = 0) -> AnchorColumns:
    flat = np.array([root for each in roots for root in each], np.uint64)
    has_one = all(len(each) == 1 for each in roots)
    return AnchorColumns(flat, None if has_one else np.cumsum([0, *map(len, roots)]), seed, first)


@given(_ROOTS, _IDS, st.integers(0, 2**32 - 9))
@example([[0]], 0, 0)
@example([[], [ID_MASK]], ID_MASK, 2**32 - 9)
def test_headers_round_trip(roots: list[list[int]], seed: int, first: int) -> None:
    of = columns(roots, seed, first)
    headers = dict(of.headers())
    read = AnchorColumns.read(headers.get("anchors"), headers.get("anchor-counts"), len(roots))
    expected = [(root, edge(seed, first + index)) for index, each in enumerate(roots) for root in each]
    for found in (of, read):
        assert list(zip(found.roots.tolist(), found.edges.tolist(), strict=True)) == expected
        assert found.counts.tolist() == [len(each) for each in roots]
        assert found.tuples == len(roots)


@given(_ROOTS, _IDS, st.data())
def test_parts_keep_the_edges_of_the_whole(roots: list[list[int]], seed: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(roots)))
    end = data.draw(st.integers(begin, len(roots)))
    whole = edges_in(columns(roots, seed, 5).headers(), len(roots))
    part = columns(roots, seed, 5).part(begin, end)
    for each in (part, part.part(0, end - begin)):
        assert edges_in(each.headers(), end - begin) == whole[begin:end]


@given(st.lists(_ROOTS, min_size=1, max_size=3), st.lists(st.integers(0, 7), max_size=5))
def test_roots_of_several_columns_and_of_some_tuples(several: list[list[list[int]]], picked: list[int]) -> None:
    whole = [roots for each in several for roots in each]
    rows = [row % len(whole) for row in picked]
    joined = concatenated([columns(each) for each in several])
    for found, expected in ((joined, whole), (joined.take(np.array(rows, np.intp)), [whole[row] for row in rows])):
        assert found.roots.tolist() == [root for each in expected for root in each]
        assert found.counts.tolist() == [len(each) for each in expected]


def test_anchor_counts_are_sent_only_where_a_tuple_has_other_than_one() -> None:
    assert [name for name, _ in columns([[1], [2]]).headers()] == ["anchors"]
    assert columns([[1], [], [2, 3]]).headers()[1] == ("anchor-counts", bytes.fromhex("0001 0000 0002"))
    assert columns([[], []]).headers() == AnchorColumns.none(2).headers() == []


@pytest.mark.parametrize(
    ("anchors", "counts", "tuples", "message"),
    [
        (HEAD[:11], None, 1, "the anchors header has 11 bytes, which is not 12 and a multiple of 8"),
        (HEAD + bytes(9), None, 1, "the anchors header has 21 bytes"),
        (HEAD + bytes(8), None, 2, "the headers have anchors for 1 tuples, and there are 2"),
        (HEAD, None, 1, "the headers have anchors for 0 tuples, and there are 1"),
        (HEAD + bytes(8), b"\0\1\0", 1, "the anchor-counts header has 3 bytes, which is an odd number"),
        (HEAD + bytes(8), b"\0\2", 1, "the anchors header has 1 roots, and the counts add up to 2"),
        (None, b"\0\1", 1, "the anchors header has 0 roots, and the counts add up to 1"),
        (HEAD + bytes(8), b"\0\1\0\0", 1, "the headers have anchors for 2 tuples, and there are 1"),
        (
            HEAD + pack_ids([9, 5, 9, 4, 9]),
            b"\0\1\0\1\0\3",
            3,
            "the anchors header has root 0000000000000009 twice for tuple 2",
        ),
    ],
)
def test_headers_that_do_not_go_together(
    anchors: bytes | None, counts: bytes | None, tuples: int, message: str
) -> None:
    with pytest.raises(WireError, match=message) as raised:
        AnchorColumns.read(anchors, counts, tuples)
    assert raised.value.reason == "ragged-anchors"


@pytest.mark.parametrize(("anchors", "counts"), [(None, None), (b"", None), (None, b"\0\0\0\0"), (HEAD, b"\0\0\0\0")])
def test_tuples_of_no_tree(anchors: bytes | None, counts: bytes | None) -> None:
    found = AnchorColumns.read(anchors, counts, 2)
    assert (found.counts.tolist(), found.edges.tolist()) == ([0, 0], [])


def test_readable_roots() -> None:
    whole = HEAD + pack_ids([1, 2])
    assert [readable_roots(whole[:size]).tolist() for size in (0, 11, 12, 20, 27, 28)] == [[], [], [], [1], [1], [1, 2]]


def test_more_anchors_than_can_be_counted() -> None:
    with pytest.raises(ValueError, match="a tuple has 65,536 anchors, and may have 65,535"):
        columns([[1], [*range(2**16)]]).headers()
