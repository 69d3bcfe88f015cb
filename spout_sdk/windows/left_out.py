"""Settled replays that cannot be recognised by their position or time; part of the progress of a fold.

The next owner of the task does not know the identities of tuples that have left the windows, so without this list it
would hold the replays again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from spout_sdk.api.tuples import Tuple
from tuple_tree.done_sets import DoneSet
from tuple_tree.offsets import Runs

_BESIDE: Final = 40  # characters around the text in JSON
_LEAST: Final = 1_000  # tuples that are kept before the first clean-up


class LeftOutTuples:
    """The settled replays of a task that `is_gone` does not recognise by their position or time."""

    def __init__(self, is_gone: Callable[[Tuple], bool]) -> None:
        self._is_gone = is_gone
        self._tuples: dict[tuple[int, int], Tuple] = {}  # by offset and index
        self._most = _LEAST
        self._resumed: DoneSet | None = None
        self._text: Any = None  # the result of `written` of the instance before

    def add(self, tuple_: Tuple) -> None:
        """Adds a settled replay."""
        self._tuples[tuple_.offset, tuple_.index] = tuple_
        if len(self._tuples) > self._most:
            self._forget_gone()
            self._most = max(_LEAST, 2 * len(self._tuples))

    def written(self, room: int) -> Any:
        """The argument of `resume`: JSON of at most `room` characters, without the shortest runs; or None."""
        if self._text is not None:
            return self._text
        self._forget_gone()
        if not self._tuples:
            return None
        done = _done_set(self._tuples).fitted(room - _BESIDE)
        return [done.offset, done.text] if done.text else None

    def resume(self, written: Any) -> None:
        """Continues from the result of `written` of another instance."""
        self._text = written
        if written is not None:
            self._resumed = DoneSet.read(*written)

    def is_again(self, tuple_: Tuple) -> bool:
        """Whether a tuple that is read again is a settled replay."""
        done, at = self._resumed, tuple_.offset
        if done is None or not (_has(done.runs, at) or _has(done.tuples.get(at, ()), tuple_.index)):
            return False
        self.add(tuple_)
        return True

    def is_read(self) -> None:
        """Notes that all tuples that the instance before has taken were read again."""
        self._resumed = self._text = None

    def _forget_gone(self) -> None:
        self._tuples = {at: tuple_ for at, tuple_ in self._tuples.items() if not self._is_gone(tuple_)}


def _done_set(tuples: Mapping[tuple[int, int], Tuple]) -> DoneSet:
    """The set of tuples: complete records as runs of offsets, and the tuples of other records."""
    records: dict[int, list[int]] = {}
    for offset, index in sorted(tuples):
        records.setdefault(offset, []).append(index)
    whole = [offset for offset, indices in records.items() if len(indices) == tuples[offset, indices[0]].pack.size]
    parts = {offset: _runs(records[offset]) for offset in records.keys() - set(whole)}
    return DoneSet(next(iter(records)), _runs(whole), parts)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = runs[-1][0], number + 1
        else:
            runs.append((number, number + 1))
    return runs


def _has(runs: Runs, number: int) -> bool:
    return any(begin <= number < end for begin, end in runs)
