"""Groupings: who receives a tuple."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from spout_sdk import CustomGrouping
from spout_sdk.groupings import choose_for
from tuple_tree.manifest import Grouping, Subscription
from tuple_tree.routing import fields_task, grouping_key, partial_key_tasks

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


@pytest.mark.parametrize("grouping", ["none", "local_or_shuffle"])
def test_what_does_not_care_is_a_shuffle(grouping: Grouping) -> None:
    choose = choose_for(subscription(grouping), 3, FIELDS, start=1)
    assert [choose(("w", 1, True)) for _ in range(4)] == [(None, (task,)) for task in (1, 2, 0, 1)]


def test_a_partial_key_goes_to_the_emptier_of_two_tasks() -> None:
    choose = choose_for(subscription("partial_key", "word"), 8, FIELDS, start=0)
    chosen = Counter(choose(("often", 1, True)) for _ in range(100))
    two = set(partial_key_tasks(b"often", 8))
    assert len(two) == 2
    assert chosen == {(b"often", (task,)): 50 for task in two}

    load = Counter(choose((word, 1, True))[1][0] for word in ["often"] * 500 + [f"w{n}" for n in range(500)])
    by_fields = Counter(fields_task(word.encode(), 8) for word in ["often"] * 500 + [f"w{n}" for n in range(500)])
    assert max(load.values()) < max(by_fields.values()) / 1.5


class ByLength(CustomGrouping):
    prepared = False

    def prepare(self) -> None:
        self.prepared = True
        assert (self.tasks, self.fields) == (4, FIELDS)

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        assert self.prepared
        return range(len(values[0]))


def test_a_custom_grouping_says_who_receives() -> None:
    choose = choose_for(subscription("custom"), 4, FIELDS, 0, ByLength)
    assert choose(("abc", 1, True)) == (None, (0, 1, 2))
    assert choose(("", 1, True)) == (None, ())
    with pytest.raises(TypeError, match=r"ByLength\.choose\(\) returned task 4: the bolt has 4, numbered from 0"):
        choose(("abcde", 1, True))


class Twice(CustomGrouping):
    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        return (1, 1)


def test_a_custom_grouping_gives_each_task_one_copy_at_most() -> None:
    with pytest.raises(TypeError, match="each task may receive one copy"):
        choose_for(subscription("custom"), 4, FIELDS, 0, Twice)(("a", 1, True))


def test_a_custom_grouping_without_its_code_is_refused() -> None:
    with pytest.raises(ValueError, match="lives in the topology's code"):
        choose_for(subscription("custom"), 4, FIELDS, 0)


def test_a_direct_grouping_chooses_nobody() -> None:
    with pytest.raises(TypeError, match="use emit_direct"):
        choose_for(subscription("direct"), 4, FIELDS, 0)(("a", 1, True))
