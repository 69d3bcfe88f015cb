"""Groupings: who receives a tuple."""

from collections import Counter

import pytest

from spout_sdk.groupings import choose_for
from tuple_tree.manifest import Grouping, Subscription
from tuple_tree.routing import fields_task, grouping_key

FIELDS = ("word", "n", "ok")


def subscription(grouping: Grouping, *fields: str) -> Subscription:
    return Subscription(source="lines", stream="default", grouping=grouping, fields=fields)


def test_shuffle_spreads_evenly_from_its_start() -> None:
    choose = choose_for(subscription("shuffle"), 3, FIELDS, start=10**18 + 2)
    chosen = [choose(("w", 1, True)) for _ in range(30)]
    assert Counter(chosen) == {(None, (0,)): 10, (None, (1,)): 10, (None, (2,)): 10}
    assert chosen[0] == (None, ((10**18 + 2) % 3,))


def test_equal_fields_reach_the_same_task_under_a_readable_key() -> None:
    by_word = choose_for(subscription("fields", "word"), 4, FIELDS, start=0)
    assert by_word(("wörd", 1, True)) == ("wörd".encode(), (fields_task("wörd".encode(), 4),))
    assert {by_word((f"w{n}", n, True))[1] for n in range(100)} == {(0,), (1,), (2,), (3,)}

    by_two = choose_for(subscription("fields", "n", "ok"), 4, FIELDS, start=0)
    assert by_two(("x", 7, False))[0] == grouping_key((7, False)) == b"7\x1ffalse"

    by_number = choose_for(subscription("fields", "n"), 4, FIELDS, start=0)
    assert by_number(("x", -7, False))[0] == b"-7"


def test_what_cannot_be_grouped_by_is_refused() -> None:
    choose = choose_for(subscription("fields", "word"), 4, FIELDS, start=0)
    with pytest.raises(TypeError, match="float cannot be grouped by"):
        choose((1.5, 1, True))


def test_global_takes_the_lowest_and_all_takes_every_task() -> None:
    assert choose_for(subscription("global"), 4, FIELDS, start=3)(("w", 1, True)) == (None, (0,))
    assert choose_for(subscription("all"), 4, FIELDS, start=3)(("w", 1, True)) == (None, (0, 1, 2, 3))
