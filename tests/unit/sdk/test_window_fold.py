"""Windows as a fold: by event time against their definition, and unchanged by inputs that are read again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from spout_sdk import Tuple, Window, WindowSpec, sliding, tumbling
from spout_sdk.api.tuples import InputPack, InputStream
from spout_sdk.records import MadeRecord
from spout_sdk.windows.fold import WindowFold
from spout_sdk.windows.replays import Replays

SECOND = 1_000_000_000
STREAMS = [InputStream(name, "default", ("n", "at")) for name in ("even", "odd")]
SOURCES = [(stream.component, stream.stream) for stream in STREAMS]
SIZES = st.integers(1, 9)
PARTITIONS = 3

Calls = list[tuple[str, Any]]


def settle(tuple_: Tuple) -> None:
    tuple_.pack.settled[tuple_.index] = 1


@dataclass
class Effects:
    """Records the events of a fold; a window is its tuples and its end."""

    calls: Calls = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)

    def fire(self, window: Window, held: Callable[[], Sequence[Tuple]]) -> None:
        self.calls.append(("window", (window.end, [tuple_["n"] for tuple_ in window.tuples])))

    def fired(self, window: Window) -> None: ...

    def unseen(self, count: int) -> None: ...

    def ack(self, tuple_: Tuple) -> None:
        assert not tuple_.settled
        settle(tuple_)
        self.calls.append(("ack", tuple_["n"]))

    def late(self, tuple_: Tuple) -> None:
        settle(tuple_)
        self.calls.append(("late", tuple_["n"]))

    def again(self, tuple_: Tuple, outputs: Sequence[Any], *, is_held: bool) -> None:
        self.calls.append(("held again" if is_held else "left out", tuple_["n"]))
        if not is_held:
            settle(tuple_)

    def skip(self, tuple_: Tuple) -> None:
        settle(tuple_)
        self.skipped.append(tuple_["n"])

    def of(self, kind: str) -> list[Any]:
        return [value for each, value in self.calls if each == kind]


def tuples_of(times: Sequence[int], streams: int = 1, a_record: int = 3) -> list[Tuple]:
    """Tuples with these timestamps in seconds, some a record."""
    made = []
    for n, at in enumerate(times):
        pack = InputPack(MadeRecord(), STREAMS[n % streams], 10 + n // a_record, a_record)
        made.append(pack.tuple_at(n % a_record, (n, at * 1000)))
    return made


def fold(spec: WindowSpec, effects: Any, streams: int = 1, replays: Replays | None = None) -> WindowFold:
    return WindowFold(spec, effects, SOURCES[:streams], 0, replays)


def without_ends(calls: Calls) -> Calls:
    return [(kind, (0, value[1]) if kind == "window" else value) for kind, value in calls]


def times_of(steps: list[tuple[int, int]]) -> list[int]:
    """Times that rise, except some late ones."""
    rising = accumulate(step for step, _ in steps)
    return [max(0, at - back) for at, (_, back) in zip(rising, steps, strict=True)]


BACK = st.sampled_from([0, 0, 0, 1, 2, 3, 5, 9])
TIMES = st.lists(st.tuples(st.integers(0, 3), BACK), max_size=40).map(times_of)


@given(SIZES, SIZES, st.integers(0, 5), st.integers(1, 2), TIMES, st.integers(1, 4))
def test_by_event_time_windows_hold_the_tuples_before_the_watermark(
    length: int, every: int, lag: int, streams: int, times: list[int], interval: int
) -> None:
    """The watermark is compared with the ends of windows after each `interval` tuples."""
    timed = sliding(seconds=length, every=every).with_timestamp_field("at").with_lag(lag)
    effects = Effects()
    made = fold(timed.with_watermark_interval(interval), effects, streams)
    windows, late, came, latest = [], [], list[tuple[int, int]](), dict[int, int]()
    watermark: int | None = None
    for n, tuple_ in enumerate(tuples_of(times, streams)):
        at = times[n]
        latest[n % streams] = max(at, latest.get(n % streams, at))
        if watermark is not None and at < watermark and at < (watermark // every + 1) * every - length:
            late.append(n)
        else:
            came.append((at, n))
        if (
            n % interval == 0
            and len(latest) == streams
            and min(latest.values()) - lag > (-1_000 if watermark is None else watermark)
        ):
            before, watermark = watermark, min(latest.values()) - lag
            first = min([watermark, *(at for at, _ in came)]) if before is None else before
            for end in range((first // every + 1) * every, watermark + 1, every):
                held = [n for at, n in sorted(came) if end - length <= at < end]
                if held:
                    windows.append((float(end), held))
        made.take(tuple_, n * SECOND)
    assert effects.of("window") == windows
    assert effects.of("late") == late
    next_end = -1 if watermark is None else (watermark // every + 1) * every
    gone = {n for at, n in came if watermark is not None and at <= watermark and at < next_end - length}
    assert {*effects.of("ack"), *effects.of("late")} == gone | {*late}


KINDS = st.one_of(
    st.builds(lambda a, b: sliding(count=a, every=b), SIZES, SIZES),
    st.builds(lambda a, b: sliding(count=a, every_seconds=b), SIZES, SIZES),
    st.builds(lambda a, b: sliding(seconds=a, every_count=b), SIZES, SIZES),
    st.builds(lambda a, b: sliding(seconds=a, every=b), SIZES, SIZES),
    st.builds(lambda a, b: tumbling(count=a, flush_after=b), SIZES, SIZES),
)


@given(KINDS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=40), st.integers(1, 2))
def test_within_the_lag_the_order_of_tuples_makes_no_difference(
    spec: WindowSpec, delayed: list[tuple[int, int]], streams: int
) -> None:
    """All kinds of windows are those of the same tuples in the order of their time."""
    timed = spec.with_timestamp_field("at").with_lag(8).with_watermark_interval(0.001)
    came = sorted(delayed, key=lambda each: each[0] + each[1])
    times = [at for at, _ in came] + [200] * streams
    effects, in_order = Effects(), Effects()
    made, plain = fold(timed, effects, streams), fold(timed, in_order)
    tuples = tuples_of(times, streams)
    for step, tuple_ in enumerate(tuples):
        made.take(tuple_, step * SECOND)
    by_time = sorted(range(len(times)), key=lambda n: (times[n], n))
    for step, tuple_ in enumerate(tuples_of(sorted(times))):
        plain.take(tuple_, step * SECOND)

    if spec.flush_after is not None:
        # It ends when that is seen.
        effects.calls, in_order.calls = without_ends(effects.calls), without_ends(in_order.calls)
    expected = [(end, [by_time[n] for n in held]) for end, held in in_order.of("window")]
    assert effects.of("window") == expected
    assert effects.of("late") == []
    assert effects.of("ack") == [by_time[n] for n in in_order.of("ack")]


REPEATABLE = st.one_of(
    KINDS.map(lambda spec: spec.with_timestamp_field("at").with_lag(2).with_watermark_interval(0.001)),
    st.builds(lambda a, b: sliding(count=a, every=b), SIZES, SIZES),
)
STEPS = st.lists(st.sampled_from(["take", "take", "take", "commit", "commit and crash", "crash"]), max_size=60)


def crashing(
    make: Callable[[Effects, Replays], WindowFold],
    read: Callable[[], list[Tuple]],
    steps: list[str],
    *,
    remembers: bool = False,
) -> tuple[Calls, list[Tuple]]:
    """A task that crashes sometimes, up to its final commit.

    With `remembers`, as if the identities of tuples that have left were durable.

    Returns:
        The committed calls, and the tuples as they were read last.
    """
    committed: Calls = []
    tuples, effects, replays = read(), Effects(), Replays(PARTITIONS)
    made, offset, progress, closed = make(effects, replays), 10, "", dict[str, Any]()
    at, now, end = 0, 0, tuples[-1].offset + 1 if tuples else 10
    for step in [*steps, *["take"] * len(tuples), "commit"]:
        now += SECOND
        if step == "take" and at < len(tuples):
            made.take(tuples[at], now)
            at += 1
        if "commit" in step:
            committed += effects.calls
            effects.calls.clear()
            offset = min((each.offset for each in tuples if not each.settled), default=end)
            progress, closed = made.progress, dict(replays._closed)
        if "crash" in step:
            tuples, effects, replays = read(), Effects(), Replays(PARTITIONS)
            if remembers:
                replays._closed = dict(closed)
            for each in tuples:
                each.pack.settled[each.index] = each.offset < offset
            made = make(effects, replays)
            made.resume(progress, offset, now)
            at = sum(each.settled for each in tuples)
    return committed, tuples


def replayed(spec: WindowSpec, times: list[int], steps: list[str], streams: int) -> tuple[Calls, list[Tuple]]:
    """Of tuples without identities."""
    return crashing(lambda effects, _: fold(spec, effects, streams), lambda: tuples_of(times, streams), steps)


@given(REPEATABLE, TIMES, STEPS, st.integers(1, 2))
@example(sliding(count=1, every=1), [0, 0], ["take", "commit and crash"], 1)
def test_each_window_closes_once_after_any_reread(
    spec: WindowSpec, times: list[int], steps: list[str], streams: int
) -> None:
    once, _ = replayed(spec, times, [], streams)
    again, _ = replayed(spec, times, steps, streams)
    assert again == once if spec.timestamp is not None else without_ends(again) == without_ends(once)


@given(
    st.one_of(
        st.builds(lambda count, flush: tumbling(count=count, flush_after=flush), SIZES, SIZES),
        st.builds(lambda seconds: tumbling(seconds=seconds), SIZES),
    ),
    TIMES,
    STEPS,
)
def test_by_the_clock_each_tuple_is_in_one_tumbling_window_though_not_always_in_the_same(
    spec: WindowSpec, times: list[int], steps: list[str]
) -> None:
    committed, tuples = replayed(spec, times, steps, 1)
    in_windows = [n for kind, calls in committed if kind == "window" for n in calls[1]]
    assert in_windows == [n for kind, n in committed if kind == "ack"]
    assert in_windows == [each["n"] for each in tuples if each.settled]


def test_changed_windows_begin_without_the_committed_progress() -> None:
    effects = Effects()
    made = fold(tumbling(count=2), effects)
    for tuple_ in tuples_of([0, 1, 2]):
        made.take(tuple_, 0)
    anew = fold(tumbling(count=3), Effects())
    anew.resume(made.progress, 10, 0)
    assert anew.progress == ""
