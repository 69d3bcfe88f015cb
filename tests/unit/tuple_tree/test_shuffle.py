"""A shuffle by shares: how often, and when, each task has its turn."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuple_tree.shuffle import SHORTEST_ROUND, Shuffle, turns_of

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(sum)
NO_CODEC: Any = None


def chosen(of: Shuffle, count: int) -> list[int]:
    return [of.choose(("a value",)) for _ in range(count)]


def rows(of: Shuffle, count: int) -> Counter[int]:
    """The rows of each task of a batch, after a check that each row has one."""
    shares: Any = of.choose_rows(NO_CODEC, SimpleNamespace(num_rows=count))
    assert [row for _, each in shares for row in range(each.start, each.stop)] == list(range(count))
    return Counter({task: each.stop - each.start for task, each in shares})


@given(SHARES)
def test_a_round_has_the_shares_of_the_tasks_and_a_turn_of_each(shares: list[float]) -> None:
    of = Shuffle(range(len(shares)), 0)
    of.set_shares(shares)
    turns = turns_of(shares)
    if turns is None:
        assert max(shares) == min(shares)
        return
    size = sum(turns)
    assert size >= SHORTEST_ROUND
    for task, share in enumerate(shares):
        assert turns[task] >= 1
        assert abs(turns[task] - share / sum(shares) * size) <= 2 + len(shares) * share / sum(shares)
    assert Counter(chosen(of, size)) == Counter(dict(enumerate(turns)))


@given(SHARES | st.integers(1, 9).map([1.0].__mul__), st.lists(st.integers(0, 3_000), max_size=5))
def test_batches_have_the_rows_that_as_many_tuples_would_have(shares: list[float], sizes: list[int]) -> None:
    by_tuple, by_row = Shuffle(range(len(shares)), 0), Shuffle(range(len(shares)), 0)
    for each in (by_tuple, by_row):
        each.set_shares([*shares, 2 * max(shares)][1:])  # not equal
        each.set_shares(shares)
    for size in sizes:
        assert rows(by_row, size) == Counter(chosen(by_tuple, size))


def test_the_turns_of_a_task_are_spread() -> None:
    of = Shuffle(range(4), 0)
    of.set_shares([0.7, 0.2, 0.08, 0.02])
    at = [place for place, task in enumerate(chosen(of, SHORTEST_ROUND)) if task == 3]
    assert len(at) in (20, 21)
    assert all(45 <= later - earlier <= 52 for earlier, later in pairwise(at))


@pytest.mark.parametrize("next_tasks", [chosen, rows])
def test_a_rare_task_has_its_turns_although_shares_change_often(next_tasks: Callable[[Shuffle, int], Any]) -> None:
    of, counts = Shuffle(range(2), 0), Counter[int]()
    for change in range(400):
        of.set_shares([1, 0.001 + change % 2 * 0.001])
        counts.update(next_tasks(of, 20))
    assert 6 <= counts[1] <= 30


def test_equal_shares_are_a_round_robin_from_the_start_and_so_they_are_again() -> None:
    of = Shuffle(range(3), 2)
    in_turn = [2, 0, 1]
    assert chosen(of, 3_001) == [*in_turn * 1_000, 2]
    of.set_shares([1 / 3] * 3)
    assert chosen(of, 2) == [0, 1]
    of.set_shares([0.9, 0.05, 0.05])
    assert Counter(chosen(of, 100))[0] > 80
    assert rows(of, 100)[0] > 80
    of.set_shares([1 / 3] * 3)
    assert chosen(of, 300) == in_turn * 100
    assert rows(of, 7) == Counter({2: 3, 0: 2, 1: 2})
