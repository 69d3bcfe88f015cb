"""What a reader of the stats makes of them: rates, processes that come and go, the history."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from acker_worker.stats import PartitionStats, WorkerStats
from inspection.view import ComponentView, TopologyView
from spout_sdk.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.process_stats import StatsRecord
from tuple_tree.streams import Field, Stream

NOW = 1_760_000_000_000


def manifest(**bolts: tuple[str, ...]) -> Manifest:
    """A spout `lines` of two tasks, and bolts that receive the default streams of others."""
    stream = Stream(name="default", fields=(Field(name="word", type="string"),))
    receivers = bolts or {"split": ("lines",)}
    return Manifest.of(
        topology="words",
        ack_partitions=2,
        max_tree_age_ms=300_000,
        components=(
            SpoutManifest(name="lines", tasks=2, streams=(stream,)),
            *(
                BoltManifest(
                    name=name,
                    streams=(stream,),
                    subscriptions=tuple(
                        Subscription(source=source, stream="default", grouping="shuffle") for source in sources
                    ),
                )
                for name, sources in receivers.items()
            ),
        ),
    )


def said(stats: Stats, uptime_s: float, at_ms: int, *, ended: bool = False, run: str = "a") -> StatsRecord:
    record = StatsRecord(
        "component", stats.component, "host", stats.pids[0], run, int(uptime_s * 1000), ended, stats.to_dict()
    )
    return StatsRecord.of(record.key, record.to_json(), at_ms)


def acker(stats: WorkerStats, uptime_s: float, at_ms: int, *, pid: int = 9, ended: bool = False) -> StatsRecord:
    record = StatsRecord("acker", "acker", "host", pid, "w", int(uptime_s * 1000), ended, stats.to_dict())
    return StatsRecord.of(record.key, record.to_json(), at_ms)


def lines(emitted: int, *, pid: int = 1, acked: int = 0, pending: int = 0, tasks: tuple[int, ...] = (0, 1)) -> Stats:
    return Stats("lines", (pid,), tasks, emitted=emitted, transferred=emitted, acked=acked, pending=pending)


def each_second(counts: Iterable[int], *, pid: int = 1, begin_s: float = 100.0, at_ms: int = NOW) -> list[StatsRecord]:
    """One record a second of a process that is `begin_s` old, the last of them at `at_ms`."""
    found = list(counts)
    return [
        said(lines(count, pid=pid), begin_s + number, at_ms - 1000 * (len(found) - 1 - number))
        for number, count in enumerate(found)
    ]


def component(view: TopologyView, name: str = "lines", now_ms: int = NOW) -> ComponentView:
    (found,) = [each for each in view.snapshot(now_ms)["components"] if each["name"] == name]
    return found


def test_rates_are_of_the_window_alone() -> None:
    view = TopologyView(manifest())
    view.feed(each_second([0, 1000, 2000, 2010, 2020, 2030, 2040, 2050]))
    assert component(view)["emitted_per_second"] == 10.0
    assert component(view)["totals"]["emitted"] == 2050


def test_a_young_process_began_with_nothing() -> None:
    view = TopologyView(manifest())
    view.feed([said(lines(30), 2.0, NOW)])
    assert component(view)["emitted_per_second"] == 15.0


def test_one_record_of_an_old_process_gives_no_rate() -> None:
    view = TopologyView(manifest())
    view.feed([said(lines(1_000_000), 5000.0, NOW)])
    assert component(view)["emitted_per_second"] == 0.0
    assert component(view)["totals"]["emitted"] == 1_000_000


def test_a_lost_record_costs_nothing() -> None:
    view = TopologyView(manifest())
    records = each_second(range(0, 110, 10))
    view.feed(records[:6] + records[8:])
    assert component(view)["emitted_per_second"] == 10.0


def test_a_record_that_comes_twice_counts_once() -> None:
    view = TopologyView(manifest())
    records = each_second(range(0, 110, 10))
    view.feed([*records, records[-1], records[3]])
    assert component(view)["emitted_per_second"] == 10.0


def test_processes_of_a_component_add_up() -> None:
    view = TopologyView(manifest())
    for pid, task in ((1, 0), (2, 1)):
        view.feed(
            said(lines(100 * number, pid=pid, pending=pid, tasks=(task,)), 50 + number, NOW - 6000 + 1000 * number)
            for number in range(7)
        )
    found = component(view)
    assert (found["emitted_per_second"], found["processes"], found["owned_tasks"], found["tasks"]) == (200.0, 2, 2, 2)
    assert found["pending"] == 3


def test_a_process_that_is_killed_is_gone_after_a_while() -> None:
    view = TopologyView(manifest())
    view.feed(each_second(range(0, 70, 10)))
    assert component(view, now_ms=NOW + 4_999)["emitted_per_second"] == 10.0
    silent = component(view, now_ms=NOW + 5_000)
    assert (silent["emitted_per_second"], silent["processes"]) == (0.0, 1)
    gone = component(view, now_ms=NOW + 10_000)
    assert (gone["processes"], gone["owned_tasks"], gone["totals"]["emitted"]) == (0, 0, 60)


def test_a_process_that_says_that_it_ends_is_gone_at_once() -> None:
    view = TopologyView(manifest())
    view.feed([*each_second(range(0, 70, 10)), said(lines(65, pending=4), 106.0, NOW, ended=True)])
    found = component(view)
    assert (found["processes"], found["pending"], found["emitted_per_second"]) == (0, 0, 0.0)
    assert found["totals"]["emitted"] == 65


def test_a_restart_counts_from_nothing_again_and_loses_nothing() -> None:
    view = TopologyView(manifest())
    view.feed([*each_second(range(0, 70, 10), at_ms=NOW - 3000), said(lines(66), 107.0, NOW - 2500, ended=True)])
    # A container starts again with the same host and process id.
    view.feed([said(lines(7), 1.0, NOW - 1000, run="b"), said(lines(14), 2.0, NOW, run="b")])
    found = component(view)
    assert (found["emitted_per_second"], found["totals"]["emitted"], found["processes"]) == (7.0, 80, 1)


def test_latencies_are_of_the_window_alone() -> None:
    view = TopologyView(manifest())
    slow, fast = LatencyHistogram(), LatencyHistogram()
    for _ in range(1000):
        slow.record(1.0)
        fast.record(0.001)
    for number, latency in enumerate([slow, slow, slow.merged(fast)]):
        stats = Stats("lines", (1,), (0,), complete_latency=latency)
        view.feed([said(stats, 100 + 5 * number, NOW - 10_000 + 5000 * number)])
    found = component(view)["complete_latency"]
    assert found is not None
    assert found["p50"] == pytest.approx(1.0, rel=0.125)
    assert found["p99"] == pytest.approx(1.0, rel=0.125)
    assert component(view)["execute_latency"] is None


def test_failed_by_reason_and_errors_are_totals() -> None:
    view = TopologyView(manifest())
    first = Stats("lines", (1,), failed={"timeout": 3}, errors=1, last_error="ValueError: old", dead_letters=1)
    second = Stats("lines", (2,), failed={"timeout": 1, "failed": 2}, errors=2, last_error="ValueError: new")
    view.feed([said(first, 200, NOW - 500, ended=True), said(second, 100, NOW)])
    found = component(view)
    assert found["failed"] == {"timeout": 4, "failed": 2}
    assert (found["errors"], found["last_error"], found["dead_letters"]) == (3, "ValueError: new", 1)


def test_what_waits_is_what_was_fed() -> None:
    view = TopologyView(manifest())
    assert view.snapshot(NOW)["dead_letters"] is None
    view.feed_lags({"split": 4812}, 3)
    assert component(view, "split")["lag"] == 4812
    assert component(view, "lines")["lag"] is None
    assert view.snapshot(NOW)["dead_letters"] == 3


def test_an_edge_is_known_by_the_end_where_it_is_alone() -> None:
    # lines sends to split and audit, split to count, audit to count too: only together are these 30.
    view = TopologyView(manifest(split=("lines",), audit=("lines",), count=("split", "audit")))
    for number in range(7):
        at_ms = NOW - 6000 + 1000 * number
        view.feed(
            [
                said(Stats("lines", (1,), (0,), transferred=40 * number), 100 + number, at_ms),
                said(Stats("split", (2,), (0,), executed=25 * number, transferred=75 * number), 100 + number, at_ms),
                said(Stats("audit", (3,), (0,), executed=15 * number, transferred=number), 100 + number, at_ms),
            ]
        )
    edges = {(edge["source"], edge["target"]): edge["tuples_per_second"] for edge in view.snapshot(NOW)["edges"]}
    assert edges == {
        ("lines", "split"): 25.0,
        ("lines", "audit"): 15.0,
        ("split", "count"): 75.0,
        ("audit", "count"): 1.0,
    }


def test_edges_that_counts_do_not_tell_apart_are_unknown() -> None:
    view = TopologyView(manifest(left=("lines", "right"), right=("lines", "left")))
    assert {edge["tuples_per_second"] for edge in view.snapshot(NOW)["edges"]} == {0.0}
    crossed = manifest(split=("lines",), left=("lines", "split"), right=("lines", "split"))
    view = TopologyView(crossed)
    for number in range(7):
        at_ms = NOW - 6000 + 1000 * number
        view.feed([said(Stats("lines", (1,), (0,), transferred=40 * number), 100 + number, at_ms)])
    edges = {(edge["source"], edge["target"]): edge["tuples_per_second"] for edge in view.snapshot(NOW)["edges"]}
    assert edges["lines", "split"] == 0.0
    assert edges["lines", "left"] is None


def test_partitions_of_the_ack_log() -> None:
    view = TopologyView(manifest())
    partition = PartitionStats(
        1, pending=12, orphans=2, clock_lag_ms=250, rebuilding=True, position=70, committed=100, oldest_ms=1200
    )
    for number in range(7):
        stats = WorkerStats(partitions=1, entries=1000 * number, by_partition=(partition,))
        view.feed([acker(stats, 100 + number, NOW - 6400 + 1000 * number)])
    snapshot = view.snapshot(NOW)
    assert snapshot["acker"][1] == {
        "partition": 1,
        "owner": "host/9",
        "pending": 12,
        "orphans": 2,
        "oldest_seconds": 1.2,
        "clock_lag_seconds": 0.25,
        "rebuilding": True,
        "rebuild_left": 30,
    }
    assert snapshot["acker"][0]["owner"] is None
    assert snapshot["workers"] == [
        {"name": "host/9", "partitions": [1], "entries_per_second": 1000.0, "seen_seconds_ago": 0.4}
    ]


def test_a_partition_is_of_the_worker_that_was_heard_last() -> None:
    view = TopologyView(manifest())
    stats = WorkerStats(partitions=1, by_partition=(PartitionStats(0),))
    view.feed([acker(stats, 100, NOW - 2000), acker(stats, 3, NOW - 100, pid=10)])
    assert view.snapshot(NOW)["acker"][0]["owner"] == "host/10"
    view.feed([acker(stats, 4, NOW, pid=10, ended=True)])
    assert [worker["name"] for worker in view.snapshot(NOW)["workers"]] == ["host/9"]


def test_the_points_of_the_history_hold_all_that_was_emitted() -> None:
    view = TopologyView(manifest())
    begin = NOW // 5000 * 5000
    for second in range(1, 31):
        latency = LatencyHistogram({20: second})
        stats = Stats("lines", (1,), (0,), emitted=10 * second, acked=9 * second, complete_latency=latency)
        view.feed([said(stats, second, begin + 1000 * second - 1)])
    points = view.history()["points"]
    assert [point["at"] for point in points] == [begin + 5000 * number for number in range(1, 6)]
    assert {point["emitted_per_second"] for point in points} == {10.0}
    assert {point["acked_per_second"] for point in points} == {9.0}
    assert all(point["complete_p99"] is not None for point in points)


def test_the_history_does_not_begin_with_what_was_before_it() -> None:
    view = TopologyView(manifest())
    view.feed(each_second([1_000_000, *range(1_000_010, 1_000_200, 10)]))
    points = view.history()["points"]
    assert max(point["emitted_per_second"] for point in points) <= 10.0
    assert points[-1]["complete_p50"] is None


def test_the_history_is_an_hour_at_most() -> None:
    view = TopologyView(manifest())
    view.feed(said(lines(second), second, NOW + 1000 * second) for second in range(0, 5000, 5))
    points = view.history()["points"]
    assert len(points) == 720
    assert points[-1]["at"] - points[0]["at"] == 719 * 5000


def test_a_clock_that_is_behind_the_brokers_is_not_believed() -> None:
    view = TopologyView(manifest())
    view.feed(each_second(range(0, 70, 10)))
    assert view.snapshot(NOW - 60_000)["at"] == NOW


def test_counts_that_cannot_be_read_are_passed_over() -> None:
    view = TopologyView(manifest())
    good = json.loads(json.dumps(lines(5).to_dict()))
    bad: list[dict[str, Any]] = [
        {},
        {**good, "emitted": "many"},
        {**good, "last_error": 1},
        {**good, "failed": {"timeout": None}},
        {**good, "failed": 3},
        {**good, "complete_latency": [1]},
        {**good, "tasks": 1},
    ]
    view.feed(StatsRecord("component", "lines", "host", 1, "a", 1000, stats=stats, at_ms=NOW) for stats in bad)
    partition = {"by_partition": [{"partition": 0, "pending": []}]}
    view.feed([StatsRecord("acker", "acker", "host", 1, "a", 1000, stats=partition, at_ms=NOW)])
    view.feed([said(lines(5), 1.0, NOW)])
    assert view.unreadable == len(bad) + 1
    assert component(view)["totals"]["emitted"] == 5


def test_a_newer_process_may_say_more() -> None:
    view = TopologyView(manifest())
    stats = {**lines(5).to_dict(), "of_the_future": 1}
    view.feed([StatsRecord("component", "lines", "host", 1, "a", 1000, stats=json.loads(json.dumps(stats)), at_ms=NOW)])
    assert component(view)["totals"]["emitted"] == 5


def in_spark(uptime_s: float, at_ms: int, pid: int = 1, **counts: int) -> StatsRecord:
    """A driver of the bolt `split`, which says no more than what it knows."""
    empty: dict[str, Any] = {f"{each}_latency": {} for each in ("complete", "execute", "process")}
    stats = {"component": "split", "pids": [pid], "tasks": [0], **empty, **counts}
    return StatsRecord("component", "split", "host", pid, "a", int(uptime_s * 1000), stats=stats, at_ms=at_ms)


def spark_manifest() -> Manifest:
    spout, split = manifest().components
    return manifest().model_copy(update={"components": (spout, split.model_copy(update={"external": True}))})


def test_of_an_external_component_nothing_is_known_until_it_speaks() -> None:
    found = component(TopologyView(spark_manifest()), "split")
    assert found["totals"] == dict.fromkeys(("emitted", "transferred", "executed", "acked"))
    assert (found["executed_per_second"], found["failed_per_second"], found["pending"]) == (None, None, None)


def test_what_a_process_does_not_count_is_not_known() -> None:
    view = TopologyView(spark_manifest())
    view.feed(in_spark(100 + second, NOW - 6000 + 1000 * second, executed=10 * second) for second in range(7))
    found = component(view, "split")
    assert found["totals"] == {"emitted": None, "transferred": None, "executed": 60, "acked": None}
    assert (found["executed_per_second"], found["acked_per_second"], found["pending"]) == (10.0, None, None)
    assert (found["processes"], found["owned_tasks"], found["process_latency"]) == (1, 1, None)


def test_a_rate_is_known_if_those_that_are_heard_count_it() -> None:
    view = TopologyView(spark_manifest())
    view.feed([in_spark(500, NOW - 60_000, executed=10)])
    view.feed([in_spark(2, NOW, pid=2, executed=4, acked=4)])
    found = component(view, "split")
    assert found["acked_per_second"] == 2.0
    assert (found["totals"]["executed"], found["totals"]["acked"]) == (14, None)


def test_nothing_is_followed_with_at_most_once() -> None:
    untracked = manifest().model_copy(update={"guarantee": "at_most_once"})
    assert TopologyView(untracked).snapshot(NOW)["acker"] == []
