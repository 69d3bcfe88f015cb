"""Identities: their header, the numbers of what is emitted, and which components need them."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifests import bolt, counting, manifest, spout
from tuple_tree.components import Subscription
from tuple_tree.errors import WireError
from tuple_tree.identities import IDENTITIES_HEADER, NO_POSITION, IdentityColumns
from tuple_tree.ids import ID_MASK
from tuple_tree.input_batch import InputBatch
from tuple_tree.manifest import Guarantee
from tuple_tree.streams import declare

_IDS = st.integers(0, ID_MASK)
_IDENTITIES = st.lists(st.tuples(_IDS, st.sampled_from([0, 1, ID_MASK])), min_size=1, max_size=9)


def columns(*pairs: tuple[int, int]) -> IdentityColumns:
    return IdentityColumns(*(np.array(column, np.uint64) for column in zip(*pairs, strict=True)))


def pairs_of(of: IdentityColumns) -> list[tuple[int, int]]:
    return list(zip(of.positions.tolist(), of.paths.tolist(), strict=True))


@given(_IDENTITIES, st.data())
def test_the_header_of_any_tuples_round_trips(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(pairs) - 1))
    end = data.draw(st.integers(begin + 1, len(pairs)))
    part = columns(*pairs).part(begin, end)
    headers = dict(part.headers())
    assert headers.keys() == (
        {IDENTITIES_HEADER} if any(each != NO_POSITION for each, _ in pairs[begin:end]) else set()
    )
    expected = pairs[begin:end] if headers else [(NO_POSITION, 0)] * (end - begin)
    assert pairs_of(IdentityColumns.read(headers.get(IDENTITIES_HEADER), end - begin)) == expected


def test_there_is_no_header_without_identities_and_no_paths_where_all_are_zero() -> None:
    assert columns((NO_POSITION, 0), (NO_POSITION, 0)).headers() == []
    assert columns((1, 0), (NO_POSITION, 0)).headers() == [(IDENTITIES_HEADER, bytes(7) + b"\1" + b"\xff" * 8)]
    for absent in (None, b""):
        assert pairs_of(IdentityColumns.read(absent, 2)) == [(NO_POSITION, 0)] * 2


@pytest.mark.parametrize("length", [1, 8, 15, 24, 40])
def test_a_header_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(WireError, match=f"has {length} bytes, and 2 tuples have 16 or 32") as raised:
        IdentityColumns.read(bytes(length), 2)
    assert raised.value.reason == "ragged-identities"


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=4), st.booleans())
def test_each_tuple_that_is_anchored_to_a_place_has_the_next_number(calls: list[list[int]], again: bool) -> None:
    batch, counts = InputBatch(is_identified=True), defaultdict[int, int](int)
    roots = np.arange(6, dtype=np.uint64)
    batch.add(roots, roots, columns(*((place, 100) for place in range(5)), (NO_POSITION, 7)))
    for places in calls:
        numbers = batch.numbers(np.array(places, np.intp))
        expected = []
        for place in places:
            expected.append(counts[place])
            counts[place] += 1
        assert numbers.tolist() == expected
        found = batch.identities(np.array(places, np.intp), numbers)
        assert pairs_of(found) == [
            (place, 100 + number) if place < 5 else (NO_POSITION, 0)
            for place, number in zip(places, expected, strict=True)
        ]
        if again:
            batch.reset_emit_sequence(range(3))
            counts = defaultdict(int, {place: counts[place] for place in range(3, 6)})


SIDE = declare({"word": str}, name="side")
WORDS = declare({"word": str})


@pytest.mark.parametrize(
    ("guarantee", "external", "identified"),
    [
        ("at_least_once", None, {"lines", "split", "count"}),
        ("exactly_once", None, {"lines", "split", "count"}),
        ("at_most_once", None, set()),
        ("at_least_once", "split", {"count"}),
        ("at_least_once", "lines", {"split", "count"}),
    ],
)
def test_what_leads_to_a_state(guarantee: Guarantee, external: str | None, identified: set[str]) -> None:
    topology = manifest(
        spout("lines", external=external == "lines"),
        spout("others"),
        bolt("split", "lines", streams=(WORDS, SIDE), external=external == "split"),
        counting("count", "split", streams=(WORDS,)),
        bolt("print", "count", "others"),
        guarantee=guarantee,
    )
    assert {each.name for each in topology.components if topology.is_identified(each.name)} == identified


def test_a_circle_of_bolts_leads_to_a_state_behind_it() -> None:
    back = Subscription(source="again", stream="default", grouping="shuffle")
    first = bolt("first", "lines", streams=(WORDS,))
    topology = manifest(
        spout("lines"),
        first.model_copy(update={"subscriptions": (*first.subscriptions, back)}),
        bolt("again", "first", streams=(WORDS,)),
        counting("count", "again"),
    )
    assert all(topology.is_identified(name) for name in ("lines", "first", "again", "count"))
