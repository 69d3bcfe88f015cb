"""Windows in a simulated cluster whose processes end, or whose trees time out: each message counts once."""

import json
import random
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

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
from spout_sdk.windows import adapter
from spout_sdk.windows.replays import Replays
from tests.components import passing
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Guarantee

GUARANTEES: list[Guarantee] = ["at_least_once", "exactly_once"]
NUMBERS = declare({"number": int, "at": int})


def translate(record: Record) -> tuple[int, int]:
    number, at = json.loads(record.value() or b"")
    return number, at


Pass = passing(NUMBERS)


class Windows(WindowedBolt):
    streams = (
        declare({"end": float, "numbers": {"type": "array", "items": "long"}}),
        declare({"number": int}, name="late"),
    )

    def __init__(self, window: WindowSpec) -> None:
        self.window = window
        self.added: list[int] = []

    def execute_window(self, window: Window) -> None:
        self.added += [tuple_["number"] for tuple_ in window.new]
        for tuple_ in window.expired:
            self.added.remove(tuple_["number"])
        assert sorted(self.added) == sorted(tuple_["number"] for tuple_ in window.tuples)
        self.collector.emit((window.end, sorted(tuple_["number"] for tuple_ in window.tuples)))


class Sink(BasicBolt):
    def __init__(self, refused: list[float]) -> None:
        self.refused = refused
        self.windows: list[tuple[float, tuple[int, ...]]] = []

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["end"] in self.refused:
            self.refused.remove(tuple_["end"])
            raise FailTupleError("once")
        self.windows.append((tuple_["end"], tuple(tuple_["numbers"])))


def timed(spec: WindowSpec) -> WindowSpec:
    return spec.with_timestamp_field("at").with_lag(1).with_late_tuple_stream("late").with_watermark_interval(0.1)


def topology(guarantee: Guarantee, window: WindowSpec, refused: list[float] | None = None, tasks: int = 1) -> Topology:
    builder = TopologyBuilder("windows", guarantee=guarantee, message_timeout=30.0, ack_partitions=2)
    retry = RetryPolicy(delay_period=0.0, max_delay=0.0)
    builder.set_spout("numbers", KafkaSpout("numbers", streams=[NUMBERS], translate=translate, retry=retry))
    builder.set_bolt("pass", Pass, tasks=tasks).shuffle_grouping("numbers")
    builder.set_bolt("windows", partial(Windows, window)).global_grouping("pass")
    builder.set_bolt("sink", partial(Sink, [] if refused is None else refused)).global_grouping("windows")
    return builder.build()


def produce(cluster: SimulatedCluster, numbers: Any, seconds: int = 1) -> None:
    for number in numbers:
        cluster.produce("numbers", json.dumps([number, number * seconds * 1000]))


def sunk(cluster: SimulatedCluster) -> list[tuple[float, tuple[int, ...]]]:
    sink: Sink = cluster.bolt("sink")
    return sink.windows


def replayed(cluster: SimulatedCluster) -> int:
    return cluster.stats("windows").counters.get("replayed tuples", 0)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("window", [tumbling(count=10), timed(tumbling(seconds=10)), tumbling(seconds=10)], ids=str)
def test_a_spout_that_restarts_in_a_window_counts_nothing_twice(guarantee: Guarantee, window: WindowSpec) -> None:
    with SimulatedCluster(topology(guarantee, window)) as cluster:
        produce(cluster, range(25))
        cluster.run_until_idle()
        cluster.restart("numbers")
        cluster.run_until_idle()
        cluster.kill("numbers")
        produce(cluster, range(25, 31))
        cluster.advance(12)
        produce(cluster, [40, 60])
        cluster.advance(3)
        counted = Counter(number for _, numbers in sunk(cluster) for number in numbers)
        assert set(range(30)) <= counted.keys()
        assert set(counted.values()) == {1}
        assert replayed(cluster) > 0
        assert cluster.emitted("windows", "late") == []


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_each_replay_of_a_sliding_window_is_neither_new_nor_expired(guarantee: Guarantee) -> None:
    """The bolt checks its running total in each window."""
    with SimulatedCluster(topology(guarantee, sliding(count=8, every=2))) as cluster:
        for first in range(0, 24, 4):
            produce(cluster, range(first, first + 4))
            cluster.run_until_idle()
            cluster.kill("numbers")
            cluster.run_until_idle()
        windows = dict.fromkeys(numbers for _, numbers in sunk(cluster))
        assert [*map(len, windows)] == [2, 4, 6, *[8] * 9]
        assert cluster.stats("windows").errors == 0


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_result_that_fails_is_emitted_again_for_replays_and_nothing_else_is(guarantee: Guarantee) -> None:
    with SimulatedCluster(topology(guarantee, timed(tumbling(seconds=10)), refused=[10.0, 20.0])) as cluster:
        produce(cluster, range(35))
        cluster.advance(3)
        assert dict(sunk(cluster)) == {
            10.0 * (1 + first // 10): tuple(range(first, first + 10)) for first in (0, 10, 20)
        }
        assert replayed(cluster) == 20
        assert len(cluster.pending("numbers")) == 5
        produce(cluster, [50])
        cluster.advance(3)
        cluster.restart("numbers")
        cluster.advance(3)
        assert len(cluster.pending("numbers")) == 1


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_results_whose_trees_time_out_are_emitted_again(guarantee: Guarantee) -> None:
    with SimulatedCluster(topology(guarantee, sliding(count=4, every=2))) as cluster:
        cluster.pause("sink")
        produce(cluster, range(10))
        cluster.advance(40)
        cluster.resume("sink")
        cluster.advance(5)
        assert {numbers for _, numbers in sunk(cluster)} == {
            (0, 1),
            *((first, first + 1, first + 2, first + 3) for first in range(0, 8, 2)),
        }
        assert replayed(cluster) >= 6
        assert len(cluster.pending("numbers")) == 2


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_has_left_is_forgotten_when_its_message_is_done(
    guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Replays] = []

    def make(*arguments: Any) -> Replays:
        made.append(Replays(*arguments))
        return made[-1]

    monkeypatch.setattr(adapter, "Replays", make)
    with SimulatedCluster(topology(guarantee, tumbling(count=5))) as cluster:
        produce(cluster, range(12))
        cluster.run_until_idle()
        assert made[-1].size == 10
        cluster.advance(5)
        assert made[-1].size == 0


def test_commits_of_a_topic_that_was_created_again_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[Any] = [{5: DoneSet(7)}, TopicsError("numbers", "was created again"), None, {5: DoneSet(2)}]

    class Commits:
        def __init__(self, *_arguments: Any) -> None:
            self.done: dict[int, DoneSet] = {}

        def look(self, _now: float) -> Any:
            found = commits.pop(0)
            if isinstance(found, Exception):
                raise found
            self.done |= found or {}
            return found

    learnt: list[Any] = []
    task: Any = SimpleNamespace(adapter=SimpleNamespace(state=SimpleNamespace(learn=lambda done: learnt.append(done))))
    monkeypatch.setattr(process_states, "DonePositions", Commits)
    process: Any = SimpleNamespace(topology=None, component="windows", state_kafka=None, kafka={})
    done = process_states.ReplayDonePositions(process)
    done.begin({0: task, 1: task})
    done.end([1])
    for _ in range(4):
        done.look(0.0)
    assert learnt == [{5: DoneSet(7)}, {5: DoneSet(2)}]


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 60))]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", SEEDS)
def test_windows_are_exact_after_kills_and_timeouts(guarantee: Guarantee, seed: int) -> None:
    """With exactly_once also of the windows' bolt; otherwise the bolt behind it fails some results."""
    chance = random.Random(seed)
    refused = [] if guarantee == "exactly_once" else [10.0 * chance.randint(1, 10) for _ in range(8)]
    with SimulatedCluster(topology(guarantee, timed(tumbling(seconds=10)), refused, tasks=2), seed=seed) as cluster:
        for first in range(0, 96, 8):
            produce(cluster, range(first, first + 8))
            trouble(cluster, chance, may_kill_windows=guarantee == "exactly_once")
        produce(cluster, [300])
        cluster.advance(70)
        windows = dict.fromkeys(sunk(cluster))
        assert Counter(number for _, numbers in windows for number in numbers) == dict.fromkeys(range(96), 1)
        assert len(cluster.pending("numbers")) == 1


def trouble(cluster: SimulatedCluster, chance: random.Random, *, may_kill_windows: bool) -> None:
    match chance.randrange(7 if may_kill_windows else 6):
        case 0 | 1:
            cluster.run_until_idle()
            cluster.kill("numbers")
        case 2:
            cluster.kill("pass", chance.randrange(2))
        case 3:
            cluster.pause("sink")
            cluster.advance(35)
            cluster.resume("sink")
        case 4:
            cluster.kill_acker()
        case 5:
            executed = len(cluster.executed("windows"))
            cluster.run_until(lambda: len(cluster.executed("windows")) > executed + 3)
            cluster.restart("numbers")
        case 6:
            cluster.advance(chance.choice([0.3, 2.0]))
            cluster.kill("windows")
