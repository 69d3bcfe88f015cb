"""Windows by count, and windows that collect their tuples, in a simulated cluster: right to the tuple, once."""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, get_args

import pytest

from spout_sdk import (
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    StreamDeclaration,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.errors import ComponentError, TopologyError
from spout_sdk.state import StatefulBolt
from spout_sdk.testing import SimulatedCluster
from spout_sdk.windows import (
    AggregateBolt,
    Window,
    WindowedBolt,
    WindowSpec,
    collect,
    count,
    session,
    sliding,
    total,
    tumbling,
)
from spout_sdk.windows.rows import WindowRows
from tests.components import Sink
from tests.seeds import each_seed
from tuple_tree.manifest import Guarantee, Manifest

FIELDS = declare({"sensor": str, "at": int, "n": int})
SHOWN = {"sensor": str, "start": int, "end": int, "tuples": str, "new": str, "expired": str}


class Shown(WindowedBolt):
    """Emits the numbers of a window."""

    streams: ClassVar[Sequence[StreamDeclaration]] = (declare(SHOWN),)

    def __init__(self, window: WindowSpec) -> None:
        self.window = window

    def execute_window(self, window: Window) -> None:
        parts = (window.tuples, window.new, window.expired) if self.window.count else (window.tuples, (), ())
        shown = ("".join(str(row["n"]) for row in rows) for rows in parts)
        self.collector.emit((window.key or "all", window.start, window.end, *shown))


def topology(bolt: Any, *, is_global: bool = False, tasks: int = 1, **settings: Any) -> Topology:
    builder = TopologyBuilder("w", message_timeout=30.0, ack_partitions=2, **settings)
    retry = RetryPolicy(initial_delay=0.0, delay_period=0.0, max_delay=0.0)
    builder.set_spout("source", KafkaSpout("in", streams=[FIELDS], codec="json", retry=retry))
    declarer = builder.set_bolt("windows", bolt, tasks=tasks)
    if is_global:
        declarer.global_grouping("source")
    else:
        declarer.fields_grouping("source", "sensor")
    builder.set_bolt("sink", Sink).shuffle_grouping("windows")
    return builder.build()


def feed(cluster: SimulatedCluster, sensor: str, *numbers: int, at: int = 0) -> None:
    for number in numbers:
        cluster.produce("in", json.dumps({"sensor": sensor, "at": at or 1_000 * number, "n": number}))
    cluster.advance(1)


def results(cluster: SimulatedCluster) -> list[list[Any]]:
    records = cluster.broker.records("w.results.windows")
    return [[*json.loads(record.value_ or b"").values()] for record in records]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_windows_by_count_close_with_their_last_tuple_of_each_key(guarantee: Any) -> None:
    with SimulatedCluster(topology(partial(Shown, tumbling(count=3)), guarantee=guarantee)) as cluster:
        feed(cluster, "a", 1, 2)
        feed(cluster, "b", 9)
        assert results(cluster) == []
        assert cluster.pending("source") == [], "no input waits for the end of its window"
        feed(cluster, "a", 3, 4)
        assert results(cluster) == [["a", 0, 3, "123", "123", ""]]
        assert [*cluster.state("windows")] == [("a", 0), ("b", 0)]
        assert cluster.emitted("windows-results") == [("a", 0, 3, "123", "123", "")]
        assert len(cluster.executed("sink")) == 1


def test_sliding_windows_have_new_and_expired_tuples() -> None:
    with SimulatedCluster(topology(partial(Shown, sliding(count=3, every=2)))) as cluster:
        feed(cluster, "a", *range(1, 8))
        shown = [each[3:] for each in results(cluster)]
        assert shown == [["12", "12", ""], ["234", "34", "1"], ["456", "56", "23"]]


def test_windows_by_time_and_sessions_collect_their_tuples() -> None:
    by_time = sliding(seconds=4, every=2).with_timestamp_field("at")
    with SimulatedCluster(topology(partial(Shown, by_time))) as cluster:
        feed(cluster, "a", 1, 3, 2, 5, 30)
        cluster.advance(5)
        assert [each[1:] for each in results(cluster)] == [
            [-2_000, 2_000, "1", "", ""],
            [0, 4_000, "123", "", ""],
            [2_000, 6_000, "235", "", ""],
            [4_000, 8_000, "5", "", ""],
        ]
        assert [*cluster.state("windows")] == [("a", 28_000), ("a", 30_000)]
    with SimulatedCluster(topology(partial(Shown, session(gap=2).with_timestamp_field("at")))) as cluster:
        feed(cluster, "a", 1, 2, 7, 30)
        cluster.advance(5)
        shown = [each[1:] for each in results(cluster)]
        assert shown == [[1_000, 4_000, "12", "", ""], [7_000, 9_000, "7", "", ""]]


def test_a_global_grouping_has_windows_of_all_tuples() -> None:
    with SimulatedCluster(topology(partial(Shown, tumbling(count=2)), is_global=True)) as cluster:
        feed(cluster, "a", 1)
        feed(cluster, "b", 2)
        assert results(cluster) == [["all", 0, 2, "12", "12", ""]]
        feed(cluster, "a", 3)
        assert cluster.state("windows") == {0: {"tuples": 1, "window_end": 1}}
        manifest = cluster.topology.manifest
        assert Manifest.from_json(manifest.to_json()) == manifest


class Total(StatefulBolt):
    state = int

    def update(self, value: int, tuple_: Tuple) -> int:
        return value + int(tuple_["n"])


def test_a_state_with_a_global_grouping_has_one_key() -> None:
    builder = TopologyBuilder("w", ack_partitions=2)
    builder.set_spout("source", KafkaSpout("in", streams=[FIELDS], codec="json"))
    builder.set_bolt("total", Total).global_grouping("source")
    with SimulatedCluster(builder.build()) as cluster:
        feed(cluster, "a", 1, 2)
        feed(cluster, "b", 3)
        assert cluster.state("total") == {(): 6}
        cluster.set_state("total", {(): 10})
        feed(cluster, "b", 1)
        assert cluster.state("total") == {(): 11}


class Sums(AggregateBolt):
    window = tumbling(count=2)
    aggregates: Any = {"n": count(), "sum": total("n"), "each": collect("n")}
    numbers: ClassVar[Any] = {"type": "array", "items": "long"}
    fields: ClassVar[Any] = {"sensor": str, "start": int, "end": int, "n": int, "sum": int, "each": numbers}
    streams = (declare(fields),)


def test_aggregates_of_windows_by_count() -> None:
    with SimulatedCluster(topology(Sums)) as cluster:
        feed(cluster, "a", 3, 4, 5)
        assert results(cluster) == [["a", 0, 2, 2, 7, [3, 4]]]
        assert cluster.state("windows")["a", 0] == {"n": 1, "sum": 5, "each": 1, "window_end": 1}


class Fragile(Shown):
    def execute_window(self, window: Window) -> None:
        raise ValueError("no such sensor")


def test_a_window_that_raises_ends_the_process_and_stays_in_the_state() -> None:
    with SimulatedCluster(topology(partial(Fragile, tumbling(count=2)))) as cluster:
        feed(cluster, "a", 1)
        with pytest.raises(
            ComponentError, match=r"execute_window.*no such sensor; for key 'a' and the window from 0 to 2"
        ):
            feed(cluster, "a", 2)


def test_windows_that_cannot_be_counted_are_rejected() -> None:
    with pytest.raises(TopologyError, match="every is greater than count"):
        sliding(count=2, every=3)
    with pytest.raises(TopologyError, match="has no time: add with_timestamp_field"):
        topology(partial(Shown, tumbling(seconds=2)))
    with pytest.raises(TopologyError, match=r"has a state with one key.*and tasks=2: leave tasks out"):
        topology(partial(Shown, tumbling(count=2)), is_global=True, tasks=2)

    class Changing(Sums):
        emit_on = "change"

    with pytest.raises(TopologyError, match="closes with its last tuple, whose replay would find no window"):
        topology(Changing)
    Changing.window = tumbling(seconds=2).with_timestamp_field("at")
    with pytest.raises(TopologyError, match="collects tuples, whose result is emitted when a window closes"):
        topology(Changing)


def test_new_and_expired_tuples_are_those_of_windows_by_count() -> None:
    by_time = Window("a", 0, 5, WindowRows([{"n": 1}]))
    with pytest.raises(TopologyError, match="new and expired are of windows by count"):
        _ = by_time.new


class Flaky(Sums):
    """Fails some tuples, whose messages are replayed."""

    chance: ClassVar[random.Random]

    def __init__(self, window: WindowSpec) -> None:
        self.window = window.with_timestamp_extractor(self.time) if window.count is None else window

    def time(self, tuple_: Tuple) -> int:
        if self.chance.random() < 0.1:
            raise FailTupleError("not now")
        return int(tuple_["at"])


WINDOWS = [tumbling(count=5), sliding(count=6, every=2), tumbling(seconds=10)]
PLAIN = [(WINDOWS[1], "at_least_once"), (WINDOWS[2], "exactly_once")]
ALL = [(window, guarantee) for window in WINDOWS for guarantee in get_args(Guarantee)[1:]]


@pytest.mark.parametrize(
    ("window", "guarantee"),
    [pytest.param(*each, marks=[] if each in PLAIN else pytest.mark.exhaustive) for each in ALL],
    ids=lambda each: str(each),
)
def test_each_tuple_is_in_its_windows_once_whatever_is_killed(window: WindowSpec, guarantee: Any) -> None:
    each_seed(lambda seed: _run(window, guarantee, seed))


def _run(window: WindowSpec, guarantee: Any, seed: int) -> None:
    Flaky.chance = chance = random.Random(seed)
    made = topology(partial(Flaky, window), tasks=2, guarantee=guarantee)
    with SimulatedCluster(made, seed=seed, topics={"in": 2}, step=1.0) as cluster:
        fed: dict[str, list[int]] = defaultdict(list)
        for number in range(1, 121):
            sensor = chance.choice("abc")
            fed[sensor].append(number)
            value = json.dumps({"sensor": sensor, "at": 1_000 * number, "n": number})
            cluster.produce("in", value, partition=ord(sensor) % 2)
            if chance.random() < 0.1:
                cluster.advance(chance.choice((0.1, 1.0, 5.0)))
            if chance.random() < 0.1:
                cluster.kill(*chance.choice((("windows", 0), ("windows", 1), ("source",))))
        for sensor in "abc":  # a later time closes the windows of the others
            value = json.dumps({"sensor": sensor, "at": 10_000_000, "n": 0})
            cluster.produce("in", value, partition=ord(sensor) % 2)
        cluster.advance(100)
        seen: dict[str, list[tuple[int, int, list[int]]]] = defaultdict(list)
        for sensor, start, end, tuples, sum_, each in results(cluster):
            assert (tuples, sum_) == (len(each), sum(each))
            seen[sensor].append((start, end, each))
        for sensor, numbers in fed.items():
            windows = [each for *_, each in sorted(seen[sensor])]
            if window.count is None:
                by_time = [[n for n in numbers if n // 10 == begin] for begin in range(13)]
                assert windows == [each for each in by_time if each]
                continue
            every = window.every_count or 0
            got = [number for each in windows for number in each[-every:]]
            complete = (len(numbers) + 1) // every * every
            assert got == [*numbers, 0][:complete], "each tuple is counted once"
            for one, other in pairwise(windows):
                kept = window.count - every
                assert other[:-every] == one[len(one) - min(kept, len(one)) :]
