"""When windows close, which tuples are in them and which leave: every kind against its definition."""

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spout_sdk import TopologyError, WindowSpec, session, sliding, tumbling
from tests.unit.sdk.windowed_bolt_rig import Rig, Total, numbers

LENGTHS = st.integers(1, 12)
GAPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40)
"""Steps: eighths of a second that pass, and the number of tuples after them."""
BEGIN = 100 * 8
"""The start of the rig's clock, in eighths of a second."""


BY_TIME = tumbling(seconds=10).with_timestamp_field("at")


def run(spec: WindowSpec, gaps: list[tuple[int, int]]) -> tuple[Rig, list[int], int]:
    """Feeds a bolt; the only tick comes two seconds after the last step.

    Returns:
        The rig, when each tuple came, and when the tick did, in eighths of a second.
    """
    rig = Rig(partial(Total, spec))
    now, came = BEGIN, list[int]()
    for gap, tuples in gaps:
        now += gap
        rig.bench.clock.now = now / 8
        rig.feed(*range(len(came), len(came) + tuples))
        came += [now] * tuples
    rig.tick(2)
    return rig, came, now + 16


def windows_of(rig: Rig) -> list[list[int]]:
    return [numbers(window.tuples) for window in rig.bolt.windows]


def check_hold(rig: Rig, came: list[int], acked: int) -> None:
    """The first tuples were acked, none before its last window, and those in no window were counted."""
    assert rig.acked() == list(range(acked))
    assert rig.task.open_inputs == len(came) - acked
    assert rig.bench.sink.failed() == {}, "a window's emit is anchored to all its tuples"
    before: set[int] = set()
    for window, tuples in zip(rig.bolt.windows, windows_of(rig), strict=True):
        assert set(numbers(window.new)) == set(tuples) - before
        assert set(numbers(window.expired)) == before - set(tuples)
        before = set(tuples)
    seen = {n for tuples in windows_of(rig) for n in tuples}
    assert rig.bench.counters.users.get("in no window", 0) == len(set(range(acked)) - seen)


Expected = tuple[list[list[int]], int]
"""Windows, and the number of tuples that have left."""


def count_each_count(came: list[int], now: int, length: int, every: int) -> Expected:
    windows = [[*range(max(0, end - length), end)] for end in range(every, len(came) + 1, every)]
    return windows, min(len(came), max(0, (len(came) // every + 1) * every - length))


def time_each_count(came: list[int], now: int, length: int, every: int) -> Expected:
    ends = range(every, len(came) + 1, every)
    windows = [[n for n in range(end) if came[n] > came[end - 1] - length] for end in ends]
    return windows, sum(at <= now - length for at in came)


def time_each_time(came: list[int], now: int, length: int, every: int) -> Expected:
    ends = range(BEGIN // every * every, now + 1, every)
    windows = [[n for n, at in enumerate(came) if end - length <= at < end] for end in ends]
    return [*filter(None, windows)], sum(at < (now // every + 1) * every - length for at in came)


def count_each_time(came: list[int], now: int, length: int, every: int) -> Expected:
    ends = range(BEGIN // every * every, now + 1, every)
    windows = [[n for n, at in enumerate(came) if at < end][-length:] for end in ends]
    return [*filter(None, windows)], max(0, len(came) - length)


@pytest.mark.parametrize(
    ("spec_of", "definition"),
    [
        (lambda length, every: sliding(count=length, every=every), count_each_count),
        (lambda length, every: sliding(seconds=length / 8, every_count=every), time_each_count),
        (lambda length, every: sliding(seconds=length / 8, every=every / 8), time_each_time),
        (lambda length, every: sliding(count=length, every_seconds=every / 8), count_each_time),
    ],
    ids=["count each count", "time each count", "time each time", "count each time"],
)
@given(LENGTHS, LENGTHS, GAPS)
def test_every_kind_is_as_defined(
    spec_of: Any, definition: Callable[..., Expected], length: int, every: int, gaps: list[tuple[int, int]]
) -> None:
    rig, came, now = run(spec_of(length, every), gaps)
    windows, left = definition(came, now, length, every)
    assert windows_of(rig) == windows
    check_hold(rig, came, left)


@given(LENGTHS, LENGTHS, GAPS)
def test_flushed_windows_hold_every_tuple_once_and_not_for_long(
    count: int, flush: int, gaps: list[tuple[int, int]]
) -> None:
    rig, came, now = run(tumbling(count=count, flush_after=flush / 8), gaps)
    windows = windows_of(rig)
    assert all(1 <= len(tuples) <= count for tuples in windows)
    in_windows = [n for tuples in windows for n in tuples]
    assert all(now - at < flush for at in came[len(in_windows) :])
    check_hold(rig, came, len(in_windows))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tumbling(), "tumbling() needs one length: give count or seconds"),
        (lambda: tumbling(count=1, seconds=1), "tumbling() needs one length"),
        (lambda: tumbling(count=0), "count of a window is 0: it must be a whole number of at least 1"),
        (lambda: tumbling(count=1.5), "count of a window is 1.5"),  # type: ignore[arg-type]
        (
            lambda: tumbling(seconds=0),
            "seconds of a window is 0: it must be a finite number of seconds",
        ),
        (lambda: tumbling(seconds=float("nan")), "seconds of a window is nan: it must be a finite number"),
        (lambda: tumbling(seconds=1, flush_after=1), "closes anyway; drop flush_after"),
        (lambda: tumbling(count=1, flush_after=-1), "flush_after of a window is -1: it must"),
        (lambda: sliding(count=5), "sliding() needs one interval: give every, every_count or every_seconds"),
        (lambda: sliding(count=5, every=1, every_count=1), "sliding() needs one interval"),
        (lambda: sliding(count=5, every=1.5), "a count of tuples is a whole number"),
        (lambda: sliding(count=5, every=0), "every of a window is 0"),
        (lambda: sliding(seconds=5, every=0), "every of a window is 0: it must be a finite number of seconds"),
        (
            lambda: tumbling(count=1).with_lag(1),
            "tumbling(count=1) goes by the task's clock: call with_timestamp_field()",
        ),
        (
            lambda: tumbling(count=1).with_late_tuple_stream("a"),
            "with_late_tuple_stream() is for windows by event time",
        ),
        (
            lambda: tumbling(count=1).with_watermark_interval(1),
            "with_watermark_interval() is for windows by event time",
        ),
        (lambda: BY_TIME.with_lag(-1), "lag of a window is -1: it must be a finite number of seconds, at least 0"),
        (lambda: BY_TIME.with_watermark_interval(0), "watermark interval of a window is 0: it must"),
        (lambda: BY_TIME.with_grace(-1), "grace of a window"),
        (lambda: BY_TIME.with_idle_sources(0), "with_idle_sources"),
        (lambda: session(gap=0), "gap of a session"),
        (lambda: session(gap=math.nan), "gap of a session"),
    ],
)
def test_invalid_windows_are_rejected(make: Callable[[], WindowSpec], message: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("spec", "name", "tick", "hold"),
    [
        (tumbling(count=3), "tumbling(count=3)", None, None),
        (tumbling(count=3, flush_after=20), "tumbling(count=3, flush_after=20)", 1.0, 21.0),
        (tumbling(seconds=5), "tumbling(seconds=5)", 0.5, 5.5),
        (tumbling(seconds=0.0625), "tumbling(seconds=0.0625)", 0.01, 0.0725),
        (sliding(count=5, every=2), "sliding(count=5, every=2)", None, None),
        (sliding(seconds=60, every=10), "sliding(seconds=60, every=10)", 1.0, 70.0),
        (sliding(seconds=2, every_count=9), "sliding(seconds=2, every_count=9)", 0.2, 2.2),
        (sliding(count=9, every_seconds=2), "sliding(count=9, every_seconds=2)", 0.2, None),
        (BY_TIME, "tumbling(seconds=10).with_timestamp_field('at')", 1.0, 11.0),
        (
            BY_TIME.with_lag(5).with_watermark_interval(0.5).with_late_tuple_stream("late"),
            "tumbling(seconds=10).with_timestamp_field('at').with_lag(5)",
            0.5,
            15.5,
        ),
    ],
)
def test_a_spec_has_a_name_a_tick_interval_and_a_longest_hold(
    spec: WindowSpec, name: str, tick: float | None, hold: float | None
) -> None:
    assert (str(spec), spec.tick_interval, spec.longest_hold) == (name, tick, hold)


def test_the_name_of_a_session_has_all_options() -> None:
    spec = session(gap=30).with_timestamp_field("at").with_grace(5).with_lag(2).with_idle_sources(after=60)
    assert str(spec) == "session(gap=30).with_timestamp_field('at').with_lag(2).with_grace(5).with_idle_sources(60)"
    assert BY_TIME.with_idle_sources().idle_after == 20
