"""Groupings: which tasks receive a tuple."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from spout_sdk.groupings import BoltDeclarer, CustomGrouping
from tests.pages import ROOT
from tuple_tree.components import Grouping, Subscription
from tuple_tree.routing import chooser, fields_task, partial_key_tasks

FIELDS = ("word", "n", "ok")


def choosing(grouping: Grouping, *fields: str, tasks: int = 4, start: int = 0, custom: Any = None) -> Any:
    subscription = Subscription(source="lines", stream="default", grouping=grouping, fields=fields)
    choose, _, key_of, _ = chooser(subscription, tasks, FIELDS, start, custom)
    return choose if key_of is None else lambda values: (key_of(values), choose(values))


def test_each_grouping_has_a_method_and_is_on_the_pages() -> None:
    methods = {name for name in vars(BoltDeclarer) if name.endswith("_grouping")}
    assert methods == {f"{grouping}_grouping" for grouping in get_args(Grouping)}
    page, contract = ((ROOT / path).read_text() for path in ("docs/bolts-as-classes.md", "schemas/README.md"))
    assert [grouping for grouping in get_args(Grouping) if f"`{grouping}_grouping(source" not in page] == []
    assert [grouping for grouping in get_args(Grouping) if f"`{grouping}`" not in contract] == []


@pytest.mark.parametrize("grouping", ["shuffle", "none", "local_or_shuffle"])
def test_a_shuffle_goes_round_the_tasks_from_its_start(grouping: Grouping) -> None:
    choose = choosing(grouping, tasks=3, start=10**18 + 2)
    chosen = [choose(("w", 1, True)) for _ in range(30)]
    first = (10**18 + 2) % 3
    assert chosen == [((first + n) % 3,) for n in range(30)]


def test_global_takes_the_lowest_all_takes_every_task_and_direct_none() -> None:
    assert choosing("global", start=3)(("w", 1, True)) == (0,)
    assert choosing("all", start=3)(("w", 1, True)) == (0, 1, 2, 3)
    with pytest.raises(TypeError, match="use emit_direct"):
        choosing("direct")(("a", 1, True))


def test_a_partial_key_goes_to_the_emptier_of_two_tasks() -> None:
    choose = choosing("partial_key", "word", tasks=8)
    chosen = Counter(choose(("often", 1, True)) for _ in range(100))
    two = set(partial_key_tasks(b"often", 8))
    assert len(two) == 2
    assert chosen == {(b"often", (task,)): 50 for task in two}
    words = ["often"] * 500 + [f"w{n}" for n in range(500)]
    load = Counter(choose((word, 1, True))[1][0] for word in words)
    by_fields = Counter(fields_task(word.encode(), 8) for word in words)
    assert max(load.values()) < max(by_fields.values()) / 1.5


class ByLength(CustomGrouping):
    prepared = False

    def prepare(self) -> None:
        self.prepared = True
        assert (self.tasks, self.fields) == (4, FIELDS)

    def choose(self, values: Sequence[Any]) -> Sequence[int]:
        assert self.prepared
        return (1, 1) if values[0] == "twice" else range(len(values[0]))


def test_a_custom_grouping_chooses_tasks_that_there_are_once_each() -> None:
    choose = choosing("custom", custom=ByLength)
    assert choose(("abc", 1, True)) == (0, 1, 2)
    assert choose(("", 1, True)) == ()
    with pytest.raises(TypeError, match=r"ByLength\.choose\(\) returned task 4: the bolt has 4, numbered from 0"):
        choose(("abcdf", 1, True))
    with pytest.raises(TypeError, match="each task may receive one copy"):
        choose(("twice", 1, True))
    with pytest.raises(ValueError, match="lives in the topology's code"):
        choosing("custom")
