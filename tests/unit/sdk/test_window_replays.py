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
from tests.unit.sdk.test_window_fold import (
    PARTITIONS,
    SECOND,
    SIZES,
    STEPS,
    STREAMS,
    TIMES,
    Calls,
    Effects,
    crashing,
    fold,
    without_ends,
)
from tuple_tree.done_sets import DoneSet
from tuple_tree.identities import IdentityColumns
from tuple_tree.input_batch import InputBatch
from tuple_tree.positions import Position, positional_root, topic_key

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


BY_TIME = st.one_of(
    st.builds(lambda a, b: sliding(count=a, every=b), SIZES, SIZES),
    st.builds(lambda a, b: sliding(seconds=a, every_count=b), SIZES, SIZES),
    st.builds(lambda a, b: sliding(seconds=a, every=b), SIZES, SIZES),
).map(lambda spec: spec.with_timestamp_field("at").with_lag(2).with_watermark_interval(0.001))
SPECS = BY_TIME | st.builds(lambda a, b: sliding(count=a, every=b), SIZES, SIZES)


def taken(spec: WindowSpec, inputs: Inputs) -> tuple[Calls, list[Tuple]]:
    effects, tuples = Effects(), tuples_of(inputs)
    made = fold(spec, effects, 1, Replays(PARTITIONS))
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


def committed(spec: WindowSpec, inputs: Inputs, steps: list[str], *, remembers: bool) -> Calls:
    def make(effects: Effects, replays: Replays) -> WindowFold:
        return fold(spec, effects, 1, replays)

    return crashing(make, lambda: tuples_of(inputs), steps, remembers=remembers)[0]


@given(SPECS, replayed_inputs(), STEPS)
@example(sliding(count=2, every=1), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (2, 0, 0)], ["take"] * 3 + ["commit and crash"])
def test_a_crash_changes_no_window_while_identities_are_known(
    spec: WindowSpec, inputs: Inputs, steps: list[str]
) -> None:
    once = committed(spec, inputs, [], remembers=True)
    again = committed(spec, inputs, steps, remembers=True)
    assert again == once if spec.timestamp is not None else without_ends(again) == without_ends(once)


@given(st.builds(lambda a: tumbling(seconds=a), SIZES), replayed_inputs(), STEPS)
def test_after_a_crash_no_message_is_in_two_windows_by_event_time(
    spec: WindowSpec, inputs: Inputs, steps: list[str]
) -> None:
    """Without any memory of identities, replays of closed windows are late."""
    timed = spec.with_timestamp_field("at").with_lag(2).with_watermark_interval(0.001)
    windows = windows_of(committed(timed, inputs, steps, remembers=False))
    assert len({end for end, _ in windows}) == len(windows)
    assert max(Counter(n for _, held in windows for n in held).values(), default=1) == 1
    assert windows == windows_of(committed(timed, inputs, [], remembers=True))


@given(st.builds(lambda a: tumbling(count=a), SIZES), replayed_inputs(), STEPS)
def test_after_a_crash_only_replays_that_come_later_count_again(
    spec: WindowSpec, inputs: Inputs, steps: list[str]
) -> None:
    """Tuples that were left out or dropped before the last commit are not repeated."""
    calls = committed(spec, inputs, steps, remembers=False)
    counted = Counter(n for _, held in windows_of(calls) for n in held)
    left_out = Counter(n for kind, n in calls if kind in ("left out", "held again"))
    came = Counter(n for n, _, _ in inputs)
    assert all(count + left_out[n] <= came[n] for n, count in counted.items())


def test_a_message_of_a_topic_that_was_created_again_is_another_one() -> None:
    effects = Effects()
    made = fold(tumbling(count=2), effects, 1, Replays(PARTITIONS))
    for tuple_ in [*tuples_of([(0, 0, 0)]), *tuples_of([(0, 1, 0)], topic_key("clicks anew"))]:
        made.take(tuple_, 0)
    assert windows_of(effects.calls) == [(1e-9, [0, 0])]


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
    made = fold(tumbling(count=2), Effects(), 1, replays := Replays(PARTITIONS))
    for tuple_ in tuples_of([(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]):
        made.take(tuple_, 0)
    assert (replays.current, replays.size) == ({}, 4), "with the next window"


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
