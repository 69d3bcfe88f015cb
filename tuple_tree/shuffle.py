"""A shuffle grouping: the tasks in turn, each as often as its share says."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tuple_tree.anchors import Rows

if TYPE_CHECKING:
    from tuple_tree.arrow_packs import PackCodec

SHORTEST_ROUND: Final = 1_000  # tuples after which the order of the tasks repeats, at least
_TURNS_OF_A_TASK: Final = 10  # of a round, on average, at least

Share = tuple[int, Rows | slice]  # a task, and the rows that it receives
SetShares = Callable[[Sequence[float]], None]
"""Sets the shares of the tasks, which are positive and add up to 1; equal ones are a round robin."""


class Shuffle:
    """The receivers in turn, from `start` on; of a batch, runs of rows."""

    def __init__(self, receivers: Sequence[Any], start: int) -> None:
        self._receivers = receivers
        self._turn = self._start = start  # the next task of a batch, while shares are equal
        self._turns: list[int] | None = None  # of each task in a round; None while shares are equal
        self._order: list[Any] = self._even()
        self._tasks = np.empty(0, np.intp)  # the same, as numbers
        self._at = 0  # the next turn of a batch
        self._phase = 0.0  # where in a round the order begins
        self._left: Any = iter(())
        # Without a call of Python's for each tuple. The second argument of a call of `next` is what it returns at the
        # end, and there is none.
        self.choose = partial(next, chain.from_iterable(iter(self._begin_round, None)))

    def set_shares(self, shares: Sequence[float]) -> None:
        turns = turns_of(shares)
        if turns == self._turns:
            return
        # It continues where the last round was: a task with few turns would otherwise never have one, if shares
        # change often.
        done = 1 - length_hint(self._left) / len(self._order)
        if len(self._tasks):
            done += self._at / len(self._tasks)
        phase = (self._phase + done) % 1.0
        before, self._turns = self._order, turns
        if turns is None:
            self._phase, self._order = 0.0, self._even()
        else:
            tasks = spread(turns)
            self._tasks, self._at, self._phase = np.roll(tasks, -int(phase * len(tasks))), 0, phase
            self._order = [self._receivers[task] for task in self._tasks.tolist()]
        before.clear()  # so the round ends, and the next tuple begins the new one

    def choose_rows(self, _codec: "PackCodec", batch: Any) -> list[Share]:
        """The rows of each task, as many as if `choose` had chosen row by row since the shares changed."""
        rows = batch.num_rows
        if self._turns is not None:
            shares: list[Share] = []
            end = 0
            for task, count in enumerate(self._next_turns(rows)):
                begin, end = end, end + count
                if count:
                    shares.append((task, slice(begin, end)))
            return shares
        tasks = len(self._receivers)
        # The next tasks in turn receive the rows that are left over, so no task has two rows more than another.
        least, rest = divmod(rows, tasks)
        turn, self._turn = self._turn, (self._turn + rest) % tasks
        ends = [*accumulate(least + (part < rest) for part in range(min(tasks, rows)))]
        return [((turn + part) % tasks, slice(begin, end)) for part, (begin, end) in enumerate(pairwise([0, *ends]))]

    def _next_turns(self, rows: int) -> list[int]:
        tasks, begin = self._tasks, self._at
        rounds, rest = divmod(rows, len(tasks))
        self._at = (begin + rest) % len(tasks)
        of_rest = np.concatenate((tasks[begin : begin + rest], tasks[: max(0, begin + rest - len(tasks))]))
        counts = np.bincount(of_rest, minlength=len(self._receivers))
        return (counts + rounds * np.array(self._turns)).tolist()  # type: ignore[no-any-return]

    def _even(self) -> list[Any]:
        receivers, start = self._receivers, self._start
        return [*receivers[start:], *receivers[:start]] * max(1, SHORTEST_ROUND // len(receivers))

    def _begin_round(self) -> Any:
        self._left = iter(self._order)
        return self._left


def turns_of(shares: Sequence[float]) -> list[int] | None:
    """How many turns of a round each task has: at least one, whatever its share is; None if shares are equal."""
    tasks = len(shares)
    if max(shares) == min(shares):
        return None
    free = max(SHORTEST_ROUND, _TURNS_OF_A_TASK * tasks) - tasks
    exact = np.array(shares) * free / sum(shares)
    turns = exact.astype(np.intp)
    # The largest remainders.
    turns[np.argsort(turns - exact, kind="stable")[: free - int(turns.sum())]] += 1
    return (turns + 1).tolist()  # type: ignore[no-any-return]


def spread(turns: Sequence[int]) -> Rows:
    """The order of the tasks in a round: the turns of each are as far apart as possible."""
    counts = np.array(turns)
    first = np.cumsum(counts) - counts
    number = np.arange(int(counts.sum())) - np.repeat(first, counts)
    places = (number + 0.5) / np.repeat(counts, counts)
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]
