"""Replays in windows, as a fold: each message counts once, and a crash does not change windows that have closed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spout_sdk import Tuple, WindowSpec, sliding, tumbling
from spout_sdk.api.tuples import InputPack
from spout_sdk.records import MadeRecord
from spout_sdk.windows.fold import WindowFold
from spout_sdk.windows.left_out import LeftOutTuples
from spout_sdk.windows.replays import Replays
from tests.unit.sdk.test_window_fold import SECOND, SIZES, SOURCES, STREAMS, TIMES, Calls, Effects, without_ends
from tuple_tree.done_sets import DoneSet
from tuple_tree.identities import IdentityColumns
from tuple_tree.input_batch import InputBatch
from tuple_tree.positions import Position, are_attempts, positional_root, topic_key

PARTITIONS = 3
KEY = topic_key("clicks")
Inputs = Sequence[tuple[int, int, int]]  # number of the message, attempt, timestamp in seconds


def tuples_of(inputs: Inputs, key: int = KEY, a_record: int = 3) -> list[Tuple]:
    """Tuples with identities, `a_record` a record; the first record is at offset 10."""
    made = []
    for first in range(0, len(inputs), a_record):
        part = inputs[first : first + a_record]
        batch = InputBatch(is_identified=True)
        roots = [positional_root(Position(0, 0, n, attempt), key, PARTITIONS) for n, attempt, _ in part]
        positions = np.array([n for n, _, _ in part], np.uint64)
        identities = IdentityColumns(positions, np.zeros(len(part), np.uint64))
        batch.add(np.array(roots, np.uint64), np.arange(1, 1 + len(part), dtype=np.uint64), identities)
        pack = InputPack(MadeRecord(), STREAMS[0], 10 + first // a_record, len(part), batch)
        made += [pack.tuple_at(index, (n, at * 1000)) for index, (n, _, at) in enumerate(part)]
    return made


def fold(spec: WindowSpec, effects: Any, replays: Replays | None = None) -> WindowFold:
    return WindowFold(spec, effects, SOURCES[:1], 0, Replays(PARTITIONS) if replays is None else replays)


@st.composite
def replayed_inputs(draw: Any) -> Inputs:
    """Messages; some come again later, with the same time."""
    times = draw(TIMES)
    inputs, attempts = list[tuple[int, int, int]](), Counter[int]()
    for n, at in enumerate(times):
        inputs.append((n, 0, at))
        for again in draw(st.lists(st.integers(max(0, n - 12), n), max_size=2)):
            attempts[again] += 1
            inputs.append((again, attempts[again], times[again]))
    return inputs


SPECS = st.one_of(
    st.builds(lambda a, b: sliding(count=a, every=b), SIZES, SIZES),
    st.builds(lambda a: tumbling(count=a), SIZES),
    st.one_of(
        st.builds(lambda a, b: sliding(count=a, every=b), SIZES, SIZES),
        st.builds(lambda a, b: sliding(seconds=a, every_count=b), SIZES, SIZES),
        st.builds(lambda a, b: sliding(seconds=a, every=b), SIZES, SIZES),
        st.builds(lambda a: tumbling(seconds=a), SIZES),
    ).map(lambda spec: spec.with_timestamp_field("at").with_lag(2).with_watermark_interval(0.001)),
)
STEPS = st.lists(st.sampled_from(["take", "take", "take", "commit", "commit and crash", "crash"]), max_size=60)


def taken(spec: WindowSpec, inputs: Inputs) -> tuple[Calls, list[Tuple]]:
    effects, tuples = Effects(), tuples_of(inputs)
    made = fold(spec, effects)
    for step, tuple_ in enumerate(tuples):
        made.take(tuple_, step * SECOND)
    return effects.calls, tuples


def windows_of(calls: Calls) -> list[Any]:
    return [value for kind, value in calls if kind == "window"]


@given(SPECS, replayed_inputs())
def test_windows_are_those_without_replays(spec: WindowSpec, inputs: Inputs) -> None:
    once, _ = taken(spec, [each for each in inputs if each[1] == 0])
    again, tuples = taken(spec, inputs)
    windows = [(0 if spec.every_count else end, held) for end, held in windows_of(again)]
    assert windows == [(0 if spec.every_count else end, held) for end, held in windows_of(once)]
    assert all(len(held) == len(set(held)) for _, held in windows)
    acked = {n for kind, n in again if kind in ("ack", "late")}
    assert acked == {n for kind, n in once if kind in ("ack", "late")}
    assert {n for (n, _, _), tuple_ in zip(inputs, tuples, strict=True) if tuple_.settled} == acked


def crashing(spec: WindowSpec, inputs: Inputs, steps: list[str], *, remembers: bool) -> Calls:
    """The committed calls of a task that crashes; with `remembers`, as if committed identities were durable."""
    committed: Calls = []
    offset, progress, closed, at, now = 10, "", dict[str, Any](), 0, 0
    tuples, effects, replays = tuples_of(inputs), Effects(), Replays(PARTITIONS)
    made = fold(spec, effects, replays)
    for step in [*steps, *["take"] * len(inputs), "commit"]:
        now += SECOND
        if step == "take" and at < len(inputs):
            made.take(tuples[at], now)
            at += 1
        if "commit" in step:
            committed += effects.calls
            effects.calls.clear()
            offset = min((each.offset for each in tuples if not each.settled), default=10 + (len(inputs) + 2) // 3)
            progress, closed = made.progress, dict(replays._closed)
        if "crash" in step:
            tuples, effects, replays = tuples_of(inputs), Effects(), Replays(PARTITIONS)
            if remembers:
                replays._closed = dict(closed)
            for each in tuples:
                each.pack.settled[each.index] = each.offset < offset
            made = fold(spec, effects, replays)
            made.resume(progress, offset, now)
            at = sum(each.settled for each in tuples)
    return committed


@given(SPECS, replayed_inputs(), STEPS)
@example(sliding(count=2, every=1), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (2, 0, 0)], ["take"] * 3 + ["commit and crash"])
def test_a_crash_changes_no_window_while_identities_are_known(
    spec: WindowSpec, inputs: Inputs, steps: list[str]
) -> None:
    once = crashing(spec, inputs, [], remembers=True)
    again = crashing(spec, inputs, steps, remembers=True)
    assert again == once if spec.timestamp is not None else without_ends(again) == without_ends(once)


@given(st.builds(lambda a: tumbling(seconds=a), SIZES), replayed_inputs(), STEPS)
def test_after_a_crash_no_message_is_in_two_windows_by_event_time(
    spec: WindowSpec, inputs: Inputs, steps: list[str]
) -> None:
    """Without any memory of identities, replays of closed windows are late."""
    timed = spec.with_timestamp_field("at").with_lag(2).with_watermark_interval(0.001)
    windows = windows_of(crashing(timed, inputs, steps, remembers=False))
    assert len({end for end, _ in windows}) == len(windows)
    assert max(Counter(n for _, held in windows for n in held).values(), default=1) == 1
    assert windows == windows_of(crashing(timed, inputs, [], remembers=True))


@given(st.builds(lambda a: tumbling(count=a), SIZES), replayed_inputs(), STEPS)
def test_after_a_crash_only_replays_that_come_later_count_again(
    spec: WindowSpec, inputs: Inputs, steps: list[str]
) -> None:
    """Tuples that were left out or dropped before the last commit are not repeated."""
    calls = crashing(spec, inputs, steps, remembers=False)
    counted = Counter(n for _, held in windows_of(calls) for n in held)
    left_out = Counter(n for kind, n in calls if kind in ("left out", "held again"))
    came = Counter(n for n, _, _ in inputs)
    assert all(count + left_out[n] <= came[n] for n, count in counted.items())


def test_a_message_of_a_topic_that_was_created_again_is_another_one() -> None:
    effects = Effects()
    made = fold(tumbling(count=2), effects)
    for tuple_ in [*tuples_of([(0, 0, 0)]), *tuples_of([(0, 1, 0)], topic_key("clicks anew"))]:
        made.take(tuple_, 0)
    assert windows_of(effects.calls) == [(1e-9, [0, 0])]


def test_roots_of_a_position_are_of_one_message_if_they_differ_by_the_attempt() -> None:
    for partitions in (1, 7, 8):
        roots = [positional_root(Position(3, 5, 123_456, attempt), KEY, partitions) for attempt in range(64)]
        assert all(are_attempts(one, other, partitions) for one in roots for other in roots)
        other = positional_root(Position(3, 5, 123_456, 0), topic_key("other"), partitions)
        assert not any(are_attempts(root, other, partitions) for root in roots)


def test_identities_are_forgotten_when_their_messages_are_done_or_when_there_are_too_many() -> None:
    replays = Replays(PARTITIONS, most=20)
    for tuple_ in tuples_of([(n, 0, 0) for n in range(20)]):
        replays.close(tuple_.identity, tuple_)
    replays.learn({0: DoneSet(3, [(5, 7)])})
    assert replays.size == 15
    for tuple_ in tuples_of([(n, 0, 0) for n in range(20, 26)]):
        replays.close(tuple_.identity, tuple_)
    assert replays.size == 18
    (oldest,) = tuples_of([(3, 1, 0)])
    assert replays.outputs_of(oldest.identity, oldest) is None


@pytest.mark.parametrize(("room", "kept"), [(4_000, 203), (60, 106), (0, 0)])
def test_what_is_left_out_fits_the_metadata(room: int, kept: int) -> None:
    """The longest runs are kept."""
    runs = tuples_of([(n, 0, 0) for n in range(404)], a_record=1)
    chosen = [tuple_ for at, tuple_ in enumerate(runs) if at < 101 or (at > 200 and at % 2)]
    left_out = LeftOutTuples(lambda _tuple: False)
    for tuple_ in chosen:
        left_out.add(tuple_)
    written = left_out.written(room)
    assert len(str(written)) <= max(room, len("None"))
    resumed = LeftOutTuples(lambda _tuple: False)
    resumed.resume(written)
    again = [tuple_ for tuple_ in runs if resumed.is_again(tuple_)]
    assert set(again) <= set(chosen)
    assert (len(again), resumed.written(room)) == (kept, written)


def test_replays_in_places_that_have_left_are_forgotten_with_the_next_window() -> None:
    replays = Replays(PARTITIONS)
    made = fold(tumbling(count=2), Effects(), replays)
    for tuple_ in tuples_of([(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]):
        made.take(tuple_, 0)
    assert (replays.current, replays.size) == ({}, 4)
