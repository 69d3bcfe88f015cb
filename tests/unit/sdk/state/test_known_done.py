"""The known done positions are the union of all commits that were read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk.state.known_done import KnownDone
from tuple_tree.done_sets import DoneSet

_LAST = 2**40 - 1
_MOST = 30
_offsets = st.sets(st.integers(0, _MOST))


def _done_set(offsets: set[int]) -> DoneSet:
    """The set of these offsets: all before the first that is missing, and runs."""
    first = next(each for each in range(_MOST + 2) if each not in offsets)
    runs: list[tuple[int, int]] = []
    for offset in sorted(each for each in offsets if each > first):
        if runs and runs[-1][1] == offset:
            runs[-1] = runs[-1][0], offset + 1
        else:
            runs.append((offset, offset + 1))
    return DoneSet(first, runs)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2**18 - 1]), _offsets), max_size=6))
def test_any_commits(commits: list[tuple[int, set[int]]]) -> None:
    known, model = KnownDone(), dict[int, set[int]]()
    for key, offsets in commits:
        before = model.get(key, set())
        model[key] = before | offsets
        assert known.learn({key: _done_set(offsets)}) == ({key} if model[key] != before else set())
        assert known.learn({key: DoneSet(0)}) == set(), "a commit that says less"
    positions = [key << 40 | offset for key in (0, 1, 2, 2**18 - 1) for offset in (*range(_MOST + 2), _LAST)]
    done = [position % 2**40 in model.get(position >> 40, ()) for position in positions]
    assert known.contains(np.array(positions, np.uint64)).tolist() == done == [known.has(each) for each in positions]
    for key, offsets in model.items():
        assert known.of(key) == _done_set(offsets)
    assert not known.contains(np.array([2**64 - 1], np.uint64)).any()


def test_a_partition_that_is_done_to_its_end_leaves_the_next_open() -> None:
    known = KnownDone()
    known.learn({4: DoneSet(2**40), 6: DoneSet(1)})
    assert [known.has(each) for each in (5 << 40, (5 << 40) - 1, 6 << 40, 4 << 40, (4 << 40) - 1)] == [
        *(False, True, True, True, False)
    ]
    known.learn({5: DoneSet(3)})
    assert [known.has(5 << 40 | offset) for offset in (0, 2, 3)] == [True, True, False]
