"""`AggregateBolt`s in a simulated cluster: each window has a result, right to the tuple, once."""

import json
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from spout_sdk import KafkaSpout, RetryPolicy, StreamDeclaration, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.errors import ComponentError, StateError
from spout_sdk.kafka_spout import Record
from spout_sdk.state import DELETE
from spout_sdk.testing import SimulatedCluster
from spout_sdk.windows import AggregateBolt, WindowSpec, count, session, sliding, total, tumbling
from tests.components import Sink, source

BY_AT = tumbling(seconds=60).with_timestamp_field("at")
RESULT = {"page": str, "start": int, "end": int, "clicks": int, "euros": float}
LATE = declare({"page": str, "at": int}, name="late")


def translate(record: Record) -> tuple[Any, ...]:
    return tuple(json.loads(record.value() or b""))


@pytest.fixture(params=["arrow", "avro"], ids=["columns", "rows"])
def codec(request: pytest.FixtureRequest) -> Any:
    """Aggregates are computed on columns where tuples come in Arrow, and for each tuple elsewhere."""
    return request.param


class Clicks(AggregateBolt):
    aggregates = {"clicks": count(), "euros": total("euros")}
    streams: ClassVar[Sequence[StreamDeclaration]] = (declare(RESULT),)

    def __init__(self, window: WindowSpec = BY_AT, emit_on: Any = "close") -> None:
        self.window, self.emit_on = window, emit_on


def clicks(codec: Any, bolt: Any = Clicks, *, subscribes: bool = True, tasks: int = 2, **settings: Any) -> Topology:
    builder = TopologyBuilder("clicks", message_timeout=30.0, ack_partitions=2, **settings)
    fields = declare({"page": str, "at": int, "euros": float}, codec=codec)
    retry = RetryPolicy(delay_period=0.0, max_delay=0.0)
    builder.set_spout("source", KafkaSpout("in", streams=[fields], translate=translate, retry=retry))
    builder.set_bolt("clicks", bolt, tasks=tasks).fields_grouping("source", "page")
    if subscribes:
        builder.set_bolt("sink", Sink).shuffle_grouping("clicks")
    return builder.build()


def produce(cluster: SimulatedCluster, *tuples: tuple[str, int, float], partition: int = 0) -> None:
    for each in tuples:
        cluster.produce("in", json.dumps(each), partition=partition)


def results(cluster: SimulatedCluster) -> list[list[Any]]:
    records = cluster.broker.records("clicks.results.clicks")
    return sorted([*json.loads(record.value_ or b"").values()] for record in records)


def test_a_window_has_its_result_when_it_closes(codec: Any) -> None:
    with SimulatedCluster(clicks(codec)) as cluster:
        produce(cluster, ("a", 1_000, 1.0), ("b", 2_000, 1.0), ("a", 59_999, 0.5), ("a", 60_000, 3.0))
        cluster.advance(1)
        assert cluster._tasks["clicks", 0].task.first.operator.takes_columns == (codec == "arrow")  # type: ignore[union-attr]
        assert cluster.state("clicks") == {
            ("a", 0): {"clicks": 2, "euros": 1.5},
            ("a", 60_000): {"clicks": 1, "euros": 3.0},
            ("b", 0): {"clicks": 1, "euros": 1.0},
        }
        assert cluster.pending("source") == [], "no input waits for the end of its window"
        produce(cluster, ("a", 61_000, 1.0), ("b", 61_000, 1.0))
        cluster.advance(5)
        assert results(cluster) == [["a", 0, 60_000, 2, 1.5], ["b", 0, 60_000, 1, 1.0]]
        assert [*cluster.state("clicks")] == [("a", 60_000), ("b", 60_000)]
        assert sorted(cluster.emitted("clicks-results")) == [("a", 0, 60_000, 2, 1.5), ("b", 0, 60_000, 1, 1.0)]
        assert len(cluster.executed("sink")) == 2
        assert cluster.pending("clicks-results") == []


def test_results_of_each_change_are_anchored_to_the_tuple(codec: Any) -> None:
    with SimulatedCluster(clicks(codec, lambda: Clicks(BY_AT, "change"))) as cluster:
        produce(cluster, ("a", 1_000, 1.0), ("a", 2_000, 2.0), ("a", 60_000, 3.0), ("a", 61_000, 3.0))
        cluster.advance(25)
        results = [("a", 0, 60_000, 1, 1.0), ("a", 0, 60_000, 2, 3.0)]
        results += [("a", 60_000, 120_000, 1, 3.0), ("a", 60_000, 120_000, 2, 6.0)]
        emitted = cluster.emitted("clicks")
        if codec == "avro":
            assert emitted == results
        # Of rows that come together, the last one of a window has its result.
        assert {*results[1::2]} <= {*emitted} <= {*results}
        assert cluster.pending("source") == []
        assert [*cluster.state("clicks")] == [("a", 60_000)]
        assert "clicks.results.clicks" not in cluster.broker.topics


def test_sessions_are_merged_by_a_tuple_between_them(codec: Any) -> None:
    spec = session(gap=10).with_timestamp_field("at").with_lag(60)
    with SimulatedCluster(clicks(codec, lambda: Clicks(spec))) as cluster:
        produce(cluster, ("a", 100_000, 1.0), ("a", 112_000, 2.0), ("b", 100_000, 1.0))
        cluster.advance(1)
        assert [*cluster.state("clicks")] == [("a", 100_000), ("a", 112_000), ("b", 100_000)]
        produce(cluster, ("a", 106_000, 4.0))
        cluster.advance(1)
        assert cluster.state("clicks") == {
            ("a", 100_000): {"clicks": 3, "euros": 7.0, "window_end": 122_000},
            ("b", 100_000): {"clicks": 1, "euros": 1.0, "window_end": 110_000},
        }
        for task in range(2):
            cluster.kill("clicks", task)
        produce(cluster, ("a", 121_999, 4.0), ("a", 140_000, 4.0), ("a", 300_000, 1.0), ("b", 300_000, 1.0))
        cluster.advance(5)
        assert results(cluster) == [
            ["a", 100_000, 131_999, 4, 11.0],
            ["a", 140_000, 150_000, 1, 4.0],
            ["b", 100_000, 110_000, 1, 1.0],
        ]


def test_tuples_of_long_sessions_need_no_memory_each(codec: Any) -> None:
    spec = session(gap=1_000).with_timestamp_field("at")
    with SimulatedCluster(clicks(codec, lambda: Clicks(spec), tasks=1)) as cluster:
        produce(cluster, *(("a", 7 * at, 1.0) for at in range(2_000)))
        cluster.advance(1)
        open_windows = cluster._tasks["clicks", 0].task.first.operator.state._open  # type: ignore[union-attr]
        assert (len(open_windows), len(open_windows._times)) == (1, 3)


def test_a_late_tuple_goes_to_its_stream_and_changes_nothing(codec: Any) -> None:
    class WithLate(Clicks):
        streams = (declare(RESULT), LATE)

    spec = BY_AT.with_grace(30).with_late_tuple_stream("late")
    with SimulatedCluster(clicks(codec, lambda: WithLate(spec), tasks=1)) as cluster:
        produce(cluster, ("a", 1_000, 1.0), ("a", 89_000, 1.0))
        cluster.advance(3)
        produce(cluster, ("a", 2_000, 1.0))  # within the grace
        cluster.advance(3)
        produce(cluster, ("a", 90_000, 1.0))
        cluster.advance(3)
        assert results(cluster) == [["a", 0, 60_000, 2, 2.0]]
        produce(cluster, ("a", 3_000, 1.0))
        cluster.advance(3)
        assert cluster.emitted("clicks", "late") == [("a", 3_000)]
        assert cluster.stats("clicks").counters == {"late tuples": 1}
        assert cluster.pending("source") == []
        assert len(results(cluster)) == 1


def test_a_state_of_the_users_own_and_several_key_fields(codec: Any) -> None:
    class Longest(AggregateBolt):
        state = str
        window = BY_AT
        streams = (declare({"page": str, "end": int, "longest": str}),)

        def update(self, value: str, tuple_: Tuple) -> str:
            return max(value, f"{tuple_['euros']:g}", key=len)

        def result(self, key: Any, window: Any, value: str) -> tuple[Any, ...] | None:
            page, at = key
            assert at < window.end
            return None if page == "b" else (page, window.end, value)

    builder = TopologyBuilder("clicks")
    fields = declare({"page": str, "at": int, "euros": float})
    builder.set_spout("source", KafkaSpout("in", streams=[fields], translate=translate))
    builder.set_bolt("clicks", Longest).fields_grouping("source", ("page", "at"))
    with SimulatedCluster(builder.build()) as cluster:
        produce(cluster, ("a", 7, 1.0), ("a", 7, 12.5), ("b", 7, 1.0), ("a", 70_000, 1.0))
        cluster.advance(5)
        assert results(cluster) == [["a", 60_000, "12.5"]]
        assert [*cluster.state("clicks")] == [("a", 70_000, 60_000)]


@pytest.mark.parametrize("window", [BY_AT, session(gap=60).with_timestamp_field("at")])
def test_a_window_is_removed_by_name_and_kept_after_a_missing_return(window: WindowSpec) -> None:
    class Longest(AggregateBolt):
        state = str
        emit_on = "change"
        streams = (declare({"page": str, "start": int, "end": int, "longest": str}),)

        def update(self, value: str, tuple_: Tuple) -> Any:
            return {1.0: f"{value}a", 2.0: DELETE}.get(tuple_["euros"])

        def merge(self, one: str, other: str) -> str:
            return one + other

    Longest.window = window
    spout = source(declare({"page": str, "at": int, "euros": float}))
    builder = TopologyBuilder("clicks")
    builder.set_spout("given", spout)
    builder.set_bolt("clicks", Longest).fields_grouping("given", "page")
    given = [("x", 7, 1.0), ("x", 8, 3.0), ("y", 7, 1.0), ("y", 8, 2.0), ("y", 9, 1.0)]
    with SimulatedCluster(builder.build(), sources={"given": given}) as cluster:
        cluster.run_until_idle()
        assert sorted(each[-1] for each in cluster.emitted("clicks")) == ["a", "a", "a"]
        assert {key[0] for key in cluster.state("clicks")} == {"x", "y"}
        ((_, failure),) = cluster.failed("given")
        assert "update() of bolt 'clicks' returned None" in failure.message


def test_a_tuple_whose_update_raises_changes_none_of_its_windows(codec: Any) -> None:
    class Picky(AggregateBolt):
        state = {"sum": float}
        window = sliding(seconds=60, every=30).with_timestamp_field("at")
        streams = (declare({"page": str, "start": int, "end": int, "sum": float}),)
        failures = 1

        def update(self, value: dict[str, float], tuple_: Tuple) -> dict[str, float]:
            value["sum"] += tuple_["euros"]
            if value["sum"] > 10 and Picky.failures:
                Picky.failures -= 1
                raise ValueError("too much")
            return value

    with SimulatedCluster(clicks(codec, Picky, subscribes=False)) as cluster:
        produce(cluster, ("a", 40_000, 9.0), ("a", 65_000, 2.0), ("a", 300_000, 1.0))
        cluster.advance(5)
        assert [row[1:] for row in results(cluster)] == [
            [0, 60_000, 9.0],
            [30_000, 90_000, 11.0],
            [60_000, 120_000, 2.0],
        ]


def test_a_window_whose_result_raises_stays_until_it_has_one(codec: Any) -> None:
    class Picky(Clicks):
        fails = True

        def result(self, key: Any, window: Any, value: Any) -> Any:
            if Picky.fails:
                raise ValueError("no result")
            return super().result(key, window, value)

    with SimulatedCluster(clicks(codec, Picky, subscribes=False, tasks=1)) as cluster:
        produce(cluster, ("a", 1_000, 1.0), ("a", 60_000, 3.0))
        with pytest.raises(ComponentError, match="ValueError: no result; for key 'a' and the window from 0 to 60000"):
            cluster.advance(25)
        assert results(cluster) == []
        Picky.fails = False
        cluster.kill("clicks")
        cluster.advance(25)
        assert results(cluster) == [["a", 0, 60_000, 1, 1.0]]
        (record,) = cluster.broker.records("clicks.results.clicks")
        assert record.key_ == b"a"
        assert [spout.name for spout in cluster.topology.manifest.spouts] == ["source"], "no bolt receives the results"


def test_the_log_has_what_holds_windows_open(codec: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "spout_sdk.windows")
    with SimulatedCluster(clicks(codec, tasks=1), topics={"in": 3}, step=1.0) as cluster:
        produce(cluster, ("a", 1_000, 1.0))
        cluster.advance(3)
        cluster.pause("source")
        produce(cluster, ("a", 1_000, 1.0), partition=2)
        cluster.advance(90)
    (line,) = [each for each in caplog.messages if "windows are open" in each]
    assert "clicks/0: 1 windows are open" in line
    assert line.endswith("of spout and partition source 2")


def test_windows_of_another_length_are_not_those_of_the_state() -> None:
    windows = [BY_AT, tumbling(seconds=30).with_timestamp_field("at")]
    with SimulatedCluster(clicks("avro", lambda: Clicks(windows[0]), tasks=1)) as cluster:
        produce(cluster, ("a", 1_000, 1.0))
        cluster.advance(1)
        windows.pop(0)
        with pytest.raises(StateError, match=r"has windows \(sliding, 60000 ms, every 60000 ms\) that are not those"):
            cluster.kill("clicks")


@pytest.mark.parametrize("emit_on", ["close", "change"])
def test_a_key_with_the_separator_fails_with_what_to_do(emit_on: str, codec: Any) -> None:
    with SimulatedCluster(clicks(codec, lambda: Clicks(BY_AT, emit_on))) as cluster:
        produce(cluster, ("a\x1fb", 40_000, 9.0))
        cluster.run_until(lambda: cluster.stats("clicks").errors)
        assert cluster.state("clicks") == {}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (1, 2))])
def test_rows_and_columns_give_the_same_and_leave_the_same_out(seed: int) -> None:
    spec = sliding(seconds=60, every=25).with_timestamp_field("at").with_lag(5).with_grace(10)
    found = []
    for codec in ("arrow", "avro"):
        chance = random.Random(seed)
        with SimulatedCluster(clicks(codec, lambda: Clicks(spec)), topics={"in": 2}, seed=seed) as cluster:
            for step in range(12):
                tuples = [
                    (chance.choice("ab"), max(0, step * 20_000 + chance.randrange(-200_000, 20_000)), 0.25)
                    for _ in range(20)
                ]
                produce(cluster, *tuples, partition=step % 2)
                cluster.advance(2)
            cluster.advance(25)
            found.append((results(cluster), cluster.state("clicks"), cluster.stats("clicks").counters))
    assert found[0] == found[1]
    assert found[0][2]["late tuples"] > 0
    assert len(found[0][0]) > 10
