"""When windows close, which tuples are in them and which leave: every kind against its definition."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk import TopologyError, WindowSpec, sliding, tumbling
from spout_sdk.windows.policies import SECOND
from tests.unit.sdk.windows_rig import Driven


def test_cleared_tuples_are_in_no_window() -> None:
    driven = Driven(sliding(count=4, every=2)).come(3)
    assert [tuple_["n"] for tuple_ in driven.manager.clear()] == [0, 1, 2]
    driven.come(3)
    assert driven.windows[1].expired == []
    assert set(driven.windows[1].tuples) <= {3, 4, 5}


TENTH = SECOND // 10
LENGTHS = st.integers(1, 12)
GAPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=60)
"""Steps: tenths of a second that pass, and how many tuples come then; none is a tick."""


def interval_of(kind: Callable[[int, int], WindowSpec]) -> st.SearchStrategy[WindowSpec]:
    pairs = st.tuples(LENGTHS, LENGTHS).map(sorted)
    return pairs.map(lambda pair: kind(pair[1], pair[0]))


def run(spec: WindowSpec, gaps: list[tuple[int, int]]) -> tuple[Driven, list[int]]:
    """Drives a manager; returns it and when each tuple came, in tenths of a second."""
    driven = Driven(spec)
    tenths = 0
    came = []
    for gap, tuples in gaps:
        tenths += gap
        driven.at(tenths / 10).come(tuples)
        came += [tenths] * tuples
    return driven, came


def check_hold(driven: Driven, unseen: int = 0) -> None:
    """Every tuple left once and in order, or is held; and it left after its last window, at once."""
    gone = len(driven.left)
    assert driven.left == list(range(gone))
    assert driven.manager.held == driven.came - gone
    seen: set[int] = set()
    before: set[int] = set()
    for number, window in enumerate(driven.windows):
        assert window.tuples == sorted(window.tuples)
        assert set(window.new) == set(window.tuples) - before
        assert set(window.expired) == before - set(window.tuples)
        before = set(window.tuples)
        for n in window.tuples:
            assert driven.left_after.get(n, len(driven.windows)) > number
        seen |= before
    assert len(set(driven.left) - seen) == driven.manager.unseen == unseen


@given(interval_of(lambda length, every: sliding(count=length, every=every)), GAPS)
def test_by_count_every_kind_is_as_defined(spec: WindowSpec, gaps: list[tuple[int, int]]) -> None:
    driven, came = run(spec, gaps)
    length, every = spec.count or 0, spec.every_count or 0
    ends = range(every, len(came) + 1, every)
    assert [window.tuples for window in driven.windows] == [list(range(max(0, end - length), end)) for end in ends]
    check_hold(driven)
    # As soon as a tuple is in no further window, it is not held any more.
    next_end = (len(came) // every + 1) * every
    assert driven.left == list(range(max(0, next_end - length)))


@given(interval_of(lambda length, every: sliding(seconds=length / 10, every=every / 10)), GAPS)
def test_by_time_every_kind_is_as_defined(spec: WindowSpec, gaps: list[tuple[int, int]]) -> None:
    driven, came = run(spec, gaps)
    length, every = round((spec.seconds or 0) * 10), round((spec.every_seconds or 0) * 10)
    now = sum(gap for gap, _ in gaps)
    windows = []
    for end in range(every, now + 1, every):
        held = [n for n, tenths in enumerate(came) if end - length <= tenths < end]
        if held:
            windows.append((held, (end - length) * TENTH / SECOND, end * TENTH / SECOND))
    assert [(window.tuples, window.start, window.end) for window in driven.windows] == windows
    check_hold(driven)
    next_end = (now // every + 1) * every
    assert driven.left == [n for n, tenths in enumerate(came) if tenths < next_end - length]


@given(LENGTHS, LENGTHS, GAPS)
def test_a_count_by_the_clock_is_as_defined(count: int, every: int, gaps: list[tuple[int, int]]) -> None:
    driven, came = run(sliding(count=count, every_seconds=every / 10), gaps)
    now = sum(gap for gap, _ in gaps)
    windows = []
    for end in range(every, now + 1, every):
        held = [n for n, tenths in enumerate(came) if tenths < end][-count:]
        if held:
            windows.append(held)
    assert [window.tuples for window in driven.windows] == windows
    assert driven.left == list(range(max(0, len(came) - count)))
    check_hold(driven, len(set(driven.left) - {n for held in windows for n in held}))


@given(LENGTHS, LENGTHS, GAPS)
def test_a_time_by_count_is_as_defined(length: int, every: int, gaps: list[tuple[int, int]]) -> None:
    driven, came = run(sliding(seconds=length / 10, every_count=every), gaps)
    now = sum(gap for gap, _ in gaps)
    windows = [
        [n for n in range(end) if came[n] > came[end - 1] - length] for end in range(every, len(came) + 1, every)
    ]
    assert [window.tuples for window in driven.windows] == windows
    assert driven.left == [n for n, tenths in enumerate(came) if tenths <= now - length]
    check_hold(driven, len(set(driven.left) - {n for held in windows for n in held}))


@given(LENGTHS, LENGTHS, GAPS)
def test_flushed_windows_hold_every_tuple_once_and_not_for_long(
    count: int, flush: int, gaps: list[tuple[int, int]]
) -> None:
    driven, came = run(tumbling(count=count, flush_after=flush / 10), gaps)
    now = sum(gap for gap, _ in gaps)
    assert [n for window in driven.windows for n in window.tuples] == driven.left
    assert all(1 <= len(window.tuples) <= count for window in driven.windows)
    assert all(now - came[n] < flush for n in range(len(driven.left), len(came)))
    check_hold(driven)


def test_invalid_windows_are_refused() -> None:
    refusals: list[tuple[Callable[[], WindowSpec], str]] = [
        (lambda: tumbling(), "tumbling() needs one length: give count or seconds"),
        (lambda: tumbling(count=1, seconds=1), "tumbling() needs one length"),
        (lambda: tumbling(count=0), "count of a window is 0: it must be a whole number of tuples, at least 1"),
        (lambda: tumbling(count=1.5), "count of a window is 1.5"),  # type: ignore[arg-type]
        (lambda: tumbling(seconds=0), "seconds of a window is 0 seconds: it must be at least a millisecond"),
        (lambda: tumbling(seconds=float("nan")), "it must be at least a millisecond"),
        (lambda: tumbling(seconds=1, flush_after=1), "closes anyway; drop flush_after"),
        (lambda: tumbling(count=1, flush_after=-1), "flush_after of a window is -1 seconds"),
        (lambda: sliding(count=5), "sliding() needs one interval: give every, every_count or every_seconds"),
        (lambda: sliding(count=5, every=1, every_count=1), "sliding() needs one interval"),
        (lambda: sliding(count=5, every=1.5), "a count of tuples is a whole number"),
        (lambda: sliding(count=5, every=0), "every of a window is 0"),
        (lambda: sliding(seconds=5, every=0), "every of a window is 0 seconds"),
        (lambda: sliding(count=5, every=6), "a window of length 5 every 6 leaves out what lies in between"),
        (lambda: sliding(seconds=5, every=6), "make the interval at most the length"),
    ]
    for make, message in refusals:
        with pytest.raises(TopologyError, match=re.escape(message)):
            make()


def test_a_spec_has_a_name_a_tick_interval_and_a_longest_hold() -> None:
    specs: list[tuple[WindowSpec, str, float | None, float | None]] = [
        (tumbling(count=3), "tumbling(count=3)", None, None),
        (tumbling(count=3, flush_after=20), "tumbling(count=3, flush_after=20)", 1.0, 21.0),
        (tumbling(seconds=5), "tumbling(seconds=5)", 0.5, 5.5),
        (tumbling(seconds=0.0625), "tumbling(seconds=0.0625)", 0.01, 0.0725),
        (sliding(count=5, every=2), "sliding(count=5, every=2)", None, None),
        (sliding(seconds=60, every=10), "sliding(seconds=60, every=10)", 1.0, 70.0),
        (sliding(seconds=2, every_count=9), "sliding(seconds=2, every_count=9)", 0.2, 2.2),
        (sliding(count=9, every_seconds=2), "sliding(count=9, every_seconds=2)", 0.2, None),
    ]
    for spec, name, tick, hold in specs:
        assert (str(spec), spec.tick_interval, spec.longest_hold) == (name, tick, hold)
