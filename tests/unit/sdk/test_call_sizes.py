"""How many tuples a `BatchBolt` is given at once, by how long its calls take."""

from collections.abc import Callable

import pytest

from spout_sdk.bolts.call_sizes import MOST_TUPLES, BatchSize


def executed(size: BatchSize, seconds: Callable[[int], float], calls: int) -> list[int]:
    """The sizes of full batches."""
    sizes = []
    for _ in range(calls):
        sizes.append(size.tuples)
        size.executed(size.tuples, seconds(size.tuples))
    return sizes


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.3, 0.9, 2.0, 9.0])
def test_a_call_that_takes_as_long_for_any_number_of_tuples_gets_as_many_as_there_are(seconds: float) -> None:
    sizes = executed(BatchSize(), lambda _: seconds, 100)
    assert sizes[9:].count(MOST_TUPLES) >= 84
    assert set(sizes[9:]) <= {250, MOST_TUPLES}, "half of it is measured now and then"


@pytest.mark.parametrize(("seconds", "most"), [(0.01, 125), (0.1, 16), (0.6, 2), (3.0, 2), (20.0, 1)])
def test_a_bolt_that_is_slow_for_each_tuple_gets_few(seconds: float, most: int) -> None:
    sizes = executed(BatchSize(), lambda tuples: seconds * tuples, 400)
    assert max(sizes) == most
    slow = [size for size in sizes if size > 1 and size * seconds > 1]
    assert len(slow) < 400 / 10, "measured now and then"


def test_a_bolt_that_was_slow_for_a_while_gets_many_again() -> None:
    size = BatchSize()
    executed(size, lambda _: 0.3, 20)
    assert size.tuples == MOST_TUPLES
    executed(size, lambda tuples: 2.0 * tuples, 20)
    assert size.tuples <= 2
    executed(size, lambda _: 0.3, 60)
    assert size.tuples == MOST_TUPLES


def test_a_slow_batch_that_is_not_full_makes_the_next_ones_as_small() -> None:
    size = BatchSize()
    executed(size, lambda _: 0.1, 20)
    size.executed(3, 0.9)
    assert size.tuples == MOST_TUPLES
    size.executed(3, 9.0)
    assert size.tuples == 2
