"""The offset manager: any order of outcomes, and owners that continue from a commit, against a naive model."""

import random
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.seeds import each_seed
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.offsets import OffsetManager


def _started(*offsets: int) -> OffsetManager:
    manager = OffsetManager()
    for offset in offsets:
        manager.start(offset)
    return manager


def test_offsets_must_rise() -> None:
    with pytest.raises(ValueError, match="offset 3 was started after offset 3"):
        _started(3).start(3)


def test_offsets_done_before_the_oldest_open_one_change_nothing() -> None:
    manager = OffsetManager()
    for first in range(0, 12_000, 300):
        offsets = [*range(2 * first, 2 * first + 600, 2)]
        for offset in offsets:
            manager.start(offset)
        assert manager.oldest_open == 2 * first
        manager.all_done(offsets)
        assert (manager.committable, manager.open_count) == (offsets[-1] + 1, 0)
    manager.done(0)
    assert manager.open_count == 0


def test_one_offset_that_stays_open_costs_one_interval() -> None:
    manager = _started(0)
    for offset in range(1, 100_000):
        manager.start(offset)
        manager.done(offset)
    assert (manager.committable, manager.runs, manager.open_count) == (0, [(1, 100_000)], 1)
    assert len(manager._begins) == 1


def test_a_new_owner_commits_all_that_it_continues_from() -> None:
    manager = OffsetManager(3, [(5, 7), (9, 12)])
    assert (manager.committable, manager.runs, manager.open_count) == (3, [(5, 7), (9, 12)], 4)
    assert [manager.start(offset) for offset in (3, 5)] == [True, False]
    manager.done(3)
    assert (manager.committable, manager.runs, manager.open_count) == (7, [(9, 12)], 2)


def test_another_thread_may_ask_while_offsets_are_closed() -> None:
    class Emptied(list[int]):
        """Another thread closes all between two steps of a property."""

        def __len__(self) -> int:
            length = super().__len__()
            self.clear()
            return length

    manager = _started(5)
    for _ in range(2):
        manager._begins = Emptied([5])
        assert (manager.committable, manager.oldest_open, manager.uncommitted_count) == (5, 5, 1)


class OffsetMachine(RuleBasedStateMachine):
    """Offsets with gaps, done in any order, some of them twice; and owners that continue from what is committed."""

    @initialize(first=st.integers(0, 50))
    def begin(self, first: int) -> None:
        self.manager = OffsetManager()
        self.next = first
        self.started: list[int] = []
        self.done_: set[int] = set()
        self.skipped = 0
        self.unread: list[int] = []  # of the log, from the committed offset on, by a new owner

    @rule(gap=st.integers(0, 3))
    def start(self, gap: int) -> None:
        if self.unread:
            offset = self.unread.pop(0)
        else:
            offset = self.next + gap
            self.next = offset + 1
        assert self.manager.start(offset) is (offset not in self.done_)
        self.started.append(offset)

    @precondition(lambda self: self.started and not self.unread)
    @rule(gap=st.integers(0, 3))
    def skip_to(self, gap: int) -> None:
        """The end of the log is behind a few markers of transactions."""
        self.skipped = self.next = self.next + gap
        self.manager.skip_to(self.next)

    @precondition(lambda self: self.started)
    @rule(data=st.data(), order=st.sampled_from(["any", "rising", "one", "next"]))
    def done(self, data: st.DataObject, order: str) -> None:
        is_open = [offset for offset in self.started if offset not in self.done_]
        offsets = data.draw(st.lists(st.sampled_from(self.started), min_size=1, max_size=8))
        if order == "one":
            offsets = offsets[:1]
            self.manager.done(offsets[0])
        else:
            offsets = is_open[: len(offsets)] if order == "next" else offsets
            self.manager.all_done(sorted(offsets) if order == "rising" else offsets)
        self.done_.update(offsets)

    @precondition(lambda self: self.started)
    @rule(most=st.sampled_from([0, 4, 8, 16, 100]))
    def another_owner_continues(self, most: int) -> None:
        assert self.manager.committable is not None
        done = DoneSet(self.manager.committable, self.manager.runs)
        kept = DoneSet.read(done.offset, done.fitted(most).text)
        self.manager = OffsetManager(kept.offset, kept.runs)
        self.skipped = min(self.skipped, kept.known_to)
        log = sorted({*self.started, *self.unread})
        self.unread = [offset for offset in log if offset >= kept.offset]
        self.started = [offset for offset in log if offset < kept.offset]
        in_runs = {offset for begin, end in kept.runs for offset in range(begin, end)}
        assert self.done_.issuperset(in_runs.intersection(log))
        self.done_ = {offset for offset in self.started if offset in self.done_} | in_runs.intersection(log)

    @invariant()
    def commits_what_is_done(self) -> None:
        if not hasattr(self, "manager") or not (self.started or self.unread):
            return
        open_ = [offset for offset in self.started if offset not in self.done_]
        committable = self.manager.committable
        assert committable is not None
        assert not open_ or committable <= open_[0]
        assert all(offset in self.done_ for offset in self.started if offset < committable)
        assert not [offset for offset in self.unread if offset < committable and offset not in self.done_]
        behind = {offset for begin, end in self.manager.runs for offset in range(begin, end)}
        log = {*self.started, *self.unread}
        assert behind.intersection(log) == {offset for offset in self.done_ if offset > committable}
        if self.started and not self.unread:
            assert self.manager.open_to(self.started[-1]) == open_
            assert self.manager.open_count == len(open_)
            assert committable == (open_[0] if open_ else max(self.started[-1] + 1, self.skipped))


TestOffsets = OffsetMachine.TestCase


@pytest.mark.parametrize("most", [4_096, 40])
@pytest.mark.parametrize("offset", [0, 2**40])
def test_a_set_is_read_as_it_was_written_and_loses_the_shortest_runs(most: int, offset: int) -> None:
    runs = [(offset + 1_000 * at, offset + 1_000 * at + at + 1) for at in range(1, 100)]
    tuples = {offset: [(0, 3), (7, 8)], offset + 999: [(5, 6)]}
    done = DoneSet(offset, runs, tuples, {offset: 3, offset + 17: 200})
    fitted = done.fitted(most)
    assert len(fitted.text) <= most
    assert DoneSet.read(offset, fitted.text) == fitted
    if most > 1_000:
        assert fitted == done
    else:
        assert 0 < len(fitted.runs) < 99
        assert [*fitted.runs] == runs[-len(fitted.runs) :]


@pytest.mark.parametrize("text", ["AQ", "AQ==", "gA==", "AAAAAA==", "not base 64"])
def test_a_broken_set_is_an_error(text: str) -> None:
    with pytest.raises(CommitError, match="the commit at offset 7 has a set that cannot be read"):
        DoneSet.read(7, text)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_messages_of_a_task_fit_into_a_commit_in_whatever_order_they_end(share: float) -> None:
    def check(seed: int) -> None:
        draw = random.Random(seed).random
        offsets = [offset for offset in range(10_000) if draw() < share]
        runs = [(begin + 1, end) for begin, end in pairwise([-1, *offsets]) if begin + 1 < end]
        done = DoneSet(0, runs)
        assert done.fitted(3_000) == done
        assert DoneSet.read(0, done.text) == done

    each_seed(check)


def test_a_compressed_set_that_is_cut_off_cannot_be_read() -> None:
    done = DoneSet(0, [(at, at + 1 + at % 3) for at in range(1, 9_000, 9)])
    assert done.text.startswith("~")
    for text in (done.text[:-8], done.text + "AAAA", "~", "~AAAA"):
        with pytest.raises(CommitError, match="cannot be read"):
            DoneSet.read(0, text)
