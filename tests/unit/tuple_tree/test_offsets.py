"""The offset manager: Storm's case, and any order against a naive model."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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


class OffsetMachine(RuleBasedStateMachine):
    """Offsets with gaps, done in any order, some of them twice."""

    @initialize(first=st.integers(0, 50))
    def begin(self, first: int) -> None:
        self.manager = OffsetManager()
        self.next = first
        self.started: list[int] = []
        self.done_: set[int] = set()

    @rule(gap=st.integers(0, 3))
    def start(self, gap: int) -> None:
        offset = self.next + gap
        self.manager.start(offset)
        self.started.append(offset)
        self.next = offset + 1

    @precondition(lambda self: self.started)
    @rule(data=st.data(), in_order=st.booleans())
    def all_done(self, data: st.DataObject, in_order: bool) -> None:
        offsets = data.draw(st.lists(st.sampled_from(self.started), max_size=8))
        self.manager.all_done(sorted(offsets) if in_order else offsets)
        self.done_.update(offsets)

    @precondition(lambda self: self.started)
    @rule(count=st.integers(1, 8))
    def the_next_are_all_done(self, count: int) -> None:
        offsets = [offset for offset in self.started if offset not in self.done_][:count]
        self.manager.all_done(offsets)
        self.done_.update(offsets)

    @invariant()
    def commits_one_after_the_done_prefix(self) -> None:
        if not hasattr(self, "manager"):
            return
        prefix: list[int] = []
        for offset in self.started:
            if offset not in self.done_:
                break
            prefix.append(offset)
        if prefix:
            assert self.manager.committable == prefix[-1] + 1
        else:
            assert self.manager.committable == (self.started[0] if self.started else None)
        assert self.manager.open_count == len(self.started) - len(self.done_)
        assert self.manager.uncommitted_count == len(self.started) - len(prefix)


TestOffsets = OffsetMachine.TestCase
