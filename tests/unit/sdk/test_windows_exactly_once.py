"""Windows in a simulated cluster whose processes end, or whose trees time out: each message counts once."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import Mock, call

import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    KafkaSpout,
    Record,
    RetryPolicy,
    TopicsError,
    Topology,
    TopologyBuilder,
    Tuple,
    Window,
    WindowedBolt,
    WindowSpec,
    declare,
    sliding,
    tumbling,
)
from spout_sdk.state import process_states
from spout_sdk.testing import SimulatedCluster
from tests.components import passing, source
from tests.seeds import each_seed
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Guarantee

NUMBERS = declare({"number": int, "at": int})
TIMEOUT = 30
RATE = 40  # messages a second: a window holds more than the least limit of a spout

both_guarantees = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])


class Windows(WindowedBolt):
    """Emits each window, anchored to all of its tuples, and one tuple for each that is new."""

    streams = (
        declare({"end": float, "numbers": {"type": "array", "items": "long"}}),
        declare({"number": int}, name="new"),
        declare({"number": int}, name="late"),
    )

    def __init__(self, window: WindowSpec) -> None:
        self.window = window

    def execute_window(self, window: Window) -> None:
        self.collector.emit((window.end, [tuple_["number"] for tuple_ in window.tuples]))
        for tuple_ in window.new:
            self.collector.emit((tuple_["number"],), anchors=tuple_, stream="new")


class Keep(BasicBolt):
    """Keeps windows and late tuples; refuses each of these ends once."""

    def __init__(self, refused: Sequence[float]) -> None:
        self.refused = [*refused]
        self.windows: list[tuple[float, tuple[int, ...]]] = []
        self.late: list[int] = []

    def execute(self, tuple_: Tuple, _collector: BasicCollector) -> None:
        if tuple_.stream == "late":
            self.late.append(tuple_["number"])
        elif tuple_.stream == "default":
            if tuple_["end"] in self.refused:
                self.refused.remove(tuple_["end"])
                raise FailTupleError("once")
            self.windows.append((tuple_["end"], tuple(tuple_["numbers"])))


def translate(record: Record) -> Any:
    return tuple(json.loads(record.value() or b""))


AT_ONCE = RetryPolicy(delay_period=0.0, max_delay=0.0)
FROM_TOPIC = KafkaSpout("numbers", streams=[NUMBERS], translate=translate, retry=AT_ONCE)


def timed(spec: WindowSpec, lag: int = 1) -> WindowSpec:
    return spec.with_timestamp_field("at").with_lag(lag).with_late_tuple_stream("late").with_watermark_interval(0.1)


def topology(
    window: WindowSpec,
    guarantee: Guarantee = "exactly_once",
    *,
    spout: Any = FROM_TOPIC,
    bolt: Any = Windows,
    refused: Sequence[float] = (),
    tasks: int = 1,
    **settings: Any,
) -> Topology:
    builder = TopologyBuilder("windows", guarantee=guarantee, message_timeout=TIMEOUT, ack_partitions=2, **settings)
    builder.set_spout("numbers", spout)
    builder.set_bolt("pass", passing(NUMBERS), tasks=tasks).shuffle_grouping("numbers")
    builder.set_bolt("windows", partial(bolt, window)).global_grouping("pass")
    keep = builder.set_bolt("keep", partial(Keep, refused))
    for stream in ("default", "new", "late"):
        keep.global_grouping("windows", stream)
    return builder.build()


def produce(cluster: SimulatedCluster, numbers: Any) -> None:
    """Messages of a second each."""
    for number in numbers:
        cluster.produce("numbers", json.dumps([number, number * 1000]))


def kept(cluster: SimulatedCluster) -> list[tuple[float, tuple[int, ...]]]:
    keep: Keep = cluster.bolt("keep")
    return keep.windows


def replayed(cluster: SimulatedCluster) -> int:
    return cluster.stats("windows").counters.get("replayed tuples", 0)


@pytest.mark.parametrize(
    "window",
    [
        timed(tumbling(seconds=5), 2),
        timed(sliding(seconds=6, every=2), 2),
        timed(sliding(count=7, every=3), 2),
        sliding(count=7, every=3),
        tumbling(count=4),
    ],
    ids=str,
)
def test_each_window_closes_once_and_every_tree_completes(window: WindowSpec) -> None:
    """Also without replays, which a spout that is no Kafka spout does not have."""
    each_seed(partial(check_kills, window))


def check_kills(window: WindowSpec, seed: int) -> None:
    rng = random.Random(seed)
    messages, last = 60, 80
    with SimulatedCluster(topology(window, spout=source(NUMBERS)), sources={"numbers": []}, seed=seed) as cluster:
        for number in range(messages):
            # A second each, some of them late.
            at = max(0, number - (rng.randrange(12) if rng.random() < 0.3 else 0))
            cluster.feed("numbers", (number, at * 1000), number)
            if rng.random() < 0.3:
                cluster.advance(0.2)
            if rng.random() < 0.2:
                cluster.kill("windows")
            elif rng.random() < 0.05:
                cluster.restart("windows")
        # A tuple after the last window releases all others.
        for number in range(messages, last):
            cluster.feed("numbers", (number, number * 10_000), number)
        cluster.advance(1)
        windows, late = kept(cluster), Counter(cluster.bolt("keep").late)
        assert cluster.failed("numbers") == []
        acked = Counter(cluster.acked("numbers"))
    assert set(range(messages)) <= acked.keys()
    assert set(acked.values()) == {1}
    in_windows = Counter(number for _, numbers in windows for number in numbers)
    assert set(range(messages)) <= in_windows.keys() | late.keys()
    assert not in_windows.keys() & late.keys()
    assert set(late.values()) <= {1}
    if window.is_tumbling:
        assert set(in_windows.values()) == {1}
    if window.timestamp is not None:
        # By count, two that close for tuples which came out of order may both end where the watermark is.
        ends = [(end, max(numbers)) if window.every_count else end for end, numbers in windows]
        assert len(set(ends)) == len(ends)
    else:
        length, every = window.count or 0, window.every_count or 0
        assert [numbers for _, numbers in windows] == [
            (*range(max(0, end - length), end),) for end in range(every, last + 1, every)
        ]


@pytest.mark.parametrize(
    ("guarantee", "window"),
    [
        ("exactly_once", timed(tumbling(seconds=10))),
        ("at_least_once", timed(tumbling(seconds=10))),
        ("at_least_once", tumbling(count=10)),
        ("at_least_once", tumbling(seconds=10)),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 60))])
def test_windows_are_exact_after_kills_and_timeouts(guarantee: Guarantee, window: WindowSpec, seed: int) -> None:
    """With exactly_once also of the windows' bolt; otherwise the bolt behind it fails some results."""
    chance, may_kill_windows = random.Random(seed), guarantee == "exactly_once"
    refused = [] if may_kill_windows else [10.0 * chance.randint(1, 10) for _ in range(8)]
    with SimulatedCluster(topology(window, guarantee, refused=refused, tasks=2), seed=seed) as cluster:
        for first in range(0, 96, 8):
            produce(cluster, range(first, first + 8))
            trouble(cluster, chance, may_kill_windows=may_kill_windows)
        produce(cluster, [300])
        cluster.advance(70)
        windows = {(end, tuple(sorted(numbers))) for end, numbers in kept(cluster)}
        counted = Counter(number for _, numbers in windows for number in numbers)
        assert set(counted.values()) == {1}
        # Messages that no later one closes a window for.
        waiting = 7 if window.count else int(window.timestamp is not None)
        assert (len(counted), len(cluster.pending("numbers"))) == (97 - waiting, waiting)
        assert window.count or counted.keys() >= {*range(96)}
        # A task that was killed does not know what was in windows that have closed: replays of it are late.
        assert may_kill_windows or cluster.emitted("windows", "late") == []


def trouble(cluster: SimulatedCluster, chance: random.Random, *, may_kill_windows: bool) -> None:
    match chance.randrange(7 if may_kill_windows else 6):
        case 0 | 1:
            cluster.run_until_idle()
            cluster.kill("numbers")
        case 2:
            cluster.kill("pass", chance.randrange(2))
        case 3:
            cluster.pause("keep")
            cluster.advance(35)
            cluster.resume("keep")
        case 4:
            cluster.kill_acker()
        case 5:
            executed = len(cluster.executed("windows"))
            cluster.run_until(lambda: len(cluster.executed("windows")) > executed + 3)
            cluster.restart("numbers")
        case 6:
            cluster.advance(chance.choice([0.3, 2.0]))
            cluster.kill("windows")


@both_guarantees
def test_each_replay_of_a_sliding_window_is_neither_new_nor_expired(guarantee: Guarantee) -> None:
    class Running(Windows):
        added: set[int] = set()

        def execute_window(self, window: Window) -> None:
            new, expired = ({tuple_["number"] for tuple_ in each} for each in (window.new, window.expired))
            assert not new & self.added
            assert expired <= self.added
            self.added = (self.added | new) - expired
            assert self.added == {tuple_["number"] for tuple_ in window.tuples}
            super().execute_window(window)

    with SimulatedCluster(topology(sliding(count=8, every=2), guarantee, bolt=Running)) as cluster:
        for first in range(0, 24, 4):
            produce(cluster, range(first, first + 4))
            cluster.run_until_idle()
            cluster.kill("numbers")
            cluster.run_until_idle()
        windows = dict.fromkeys(tuple(sorted(numbers)) for _, numbers in kept(cluster))
        assert [*map(len, windows)] == [2, 4, 6, *[8] * 9]
        assert cluster.stats("windows").errors == 0


@both_guarantees
def test_a_result_that_fails_is_emitted_again_for_replays_and_nothing_else_is(guarantee: Guarantee) -> None:
    with SimulatedCluster(topology(timed(tumbling(seconds=10)), guarantee, refused=[10.0, 20.0])) as cluster:
        produce(cluster, range(35))
        cluster.advance(3)
        assert dict(kept(cluster)) == {10.0 * (1 + first // 10): (*range(first, first + 10),) for first in (0, 10, 20)}
        assert replayed(cluster) == 20
        assert len(cluster.pending("numbers")) == 5
        produce(cluster, [50])
        cluster.advance(3)
        cluster.restart("numbers")
        cluster.advance(3)
        assert len(cluster.pending("numbers")) == 1


def test_what_has_left_is_forgotten_when_its_message_is_done() -> None:
    with SimulatedCluster(topology(tumbling(count=5))) as cluster:
        produce(cluster, range(12))
        cluster.run_until_idle()
        replays = cluster._tasks["windows", 0].task.adapter.state  # type: ignore[union-attr]
        assert replays.size == 10
        cluster.advance(5)
        assert replays.size == 0


def test_commits_of_a_topic_that_was_created_again_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first, anew = Mock(done={5: DoneSet(7)}), Mock(done={5: DoneSet(2)})
    first.look.side_effect = first.done, TopicsError("numbers", "was created again")
    anew.look.side_effect = None, anew.done
    monkeypatch.setattr(process_states, "DonePositions", Mock(side_effect=[first, anew]))
    task, ended = Mock(), Mock()
    done = process_states.ReplayDonePositions(Mock())
    done.begin({0: task, 1: ended})
    done.end([1])
    for _ in range(4):
        done.look(0.0)
    assert task.adapter.state.learn.mock_calls == [call(first.done), call(anew.done)]
    assert ended.adapter.state.learn.mock_calls == []


BY_TIME = tumbling(seconds=10).with_timestamp_field("at").with_lag(2)


def produce_now(cluster: SimulatedCluster, seconds: int) -> None:
    """Messages of this number of seconds, each with its time."""
    for _ in range(seconds):
        for number in range(RATE):
            cluster.produce("numbers", json.dumps([number, int(cluster.now * 1000) + number]))
        cluster.advance(1)


@pytest.mark.parametrize(
    ("window", "guarantee", "held"), [(BY_TIME, "exactly_once", 6 * RATE), (tumbling(count=500), "at_least_once", 40)]
)
def test_held_tuples_do_not_time_out_while_the_source_pauses(window: WindowSpec, guarantee: Any, held: int) -> None:
    with SimulatedCluster(topology(window, guarantee)) as cluster:
        produce_now(cluster, 26)
        cluster.advance(60)
        assert len(cluster.pending("numbers")) == held
        produce_now(cluster, 60)
        assert cluster.stats("numbers").failed == {}
        assert cluster.stats("numbers").acked >= 60 * RATE


def test_a_window_closes_although_its_spout_is_limited() -> None:
    with SimulatedCluster(topology(BY_TIME, max_spout_pending=700), paused=["windows"]) as cluster:
        for number in range(120 * RATE):
            cluster.produce("numbers", json.dumps([number, number * 1000 // RATE]))
        cluster.advance(2 * TIMEOUT)
        assert cluster.stats("numbers").failed
        cluster.resume("windows")
        cluster.advance(2 * TIMEOUT)
        assert cluster.stats("numbers").acked == 110 * RATE
        assert len(cluster.pending("numbers")) == 10 * RATE


def test_windows_get_new_messages_after_a_pause_that_is_longer_than_the_largest_tree_age() -> None:
    with SimulatedCluster(topology(BY_TIME, max_tree_age=2 * TIMEOUT)) as cluster:
        produce_now(cluster, 26)
        cluster.advance(5 * TIMEOUT)
        assert set(cluster.stats("numbers").failed) == {"too_old"}
        produce_now(cluster, 60)
        assert cluster.stats("numbers").acked >= 70 * RATE


def test_late_tuples_without_a_stream_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with SimulatedCluster(topology(BY_TIME)) as cluster:
        for at in (0, 30_000):
            cluster.produce("numbers", json.dumps([0, at]))
            cluster.advance(2)
        for _ in range(100):
            cluster.produce("numbers", "[0, 1]")
        cluster.advance(60)
        cluster.produce("numbers", "[0, 1]")
        cluster.advance(1)
        assert cluster.stats("windows").counters["late tuples"] == 101
    first, second = [line for line in caplog.messages if "late tuples" in line]
    assert first.startswith("windows/0: 1 late tuples")
    assert second.startswith("windows/0: 100 late tuples")
    assert "with_lag" in first
    assert "with_late_tuple_stream" in first
