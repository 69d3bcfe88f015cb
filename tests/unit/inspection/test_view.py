"""The view of the stats: rates, processes that start and end, the history."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from acker_worker.stats import PartitionStats, WorkerStats
from inspection.statistics import BrokerClock
from inspection.view import ComponentView, TopologyView
from spout_sdk.statistics import Stats
from spout_sdk.statistics.state_stats import StateStats
from tests.manifests import chained, counting, spout
from tests.manifests import manifest as manifest_of
from tests.unit.inspection.reports import NOW, acker, each_second, lines, manifest, stats_record
from tuple_tree.latency import LatencyHistogram
from tuple_tree.manifest import Manifest
from tuple_tree.process_stats import StatsRecord

TEN_A_SECOND = range(0, 110, 10)


def fed(records: Iterable[StatsRecord], of: Manifest | None = None) -> TopologyView:
    view = TopologyView(of or manifest())
    view.feed(records)
    return view


def component(view: TopologyView, name: str = "lines", now_ms: int = NOW) -> ComponentView:
    (found,) = [each for each in view.snapshot(now_ms)["components"] if each["name"] == name]
    return found


@pytest.mark.parametrize(
    ("records", "rate", "total"),
    [
        # Only the last five seconds count.
        (each_second([0, 1000, 2000, 2010, 2020, 2030, 2040, 2050]), 10.0, 2050),
        # A young process began with nothing; of an old one a single record gives no rate.
        ([stats_record(lines(30), 2.0, NOW)], 15.0, 30),
        ([stats_record(lines(1_000_000), 5000.0, NOW)], 0.0, 1_000_000),
        # Records that are lost, or come twice, change nothing.
        (each_second(TEN_A_SECOND)[:6] + each_second(TEN_A_SECOND)[8:], 10.0, 100),
        ([*each_second(TEN_A_SECOND), each_second(TEN_A_SECOND)[-1], each_second(TEN_A_SECOND)[3]], 10.0, 100),
    ],
)
def test_rates_are_those_of_the_window(records: list[StatsRecord], rate: float, total: int) -> None:
    found = component(fed(records))
    assert (found["emitted_per_second"], found["totals"]["emitted"]) == (rate, total)


def test_a_killed_process_is_gone_after_ten_seconds_and_a_stopped_one_immediately() -> None:
    view = fed(each_second(range(0, 70, 10)))
    assert component(view, now_ms=NOW + 4_999)["emitted_per_second"] == 10.0
    silent = component(view, now_ms=NOW + 5_000)
    assert (silent["emitted_per_second"], silent["processes"]) == (0.0, 1)
    gone = component(view, now_ms=NOW + 10_000)
    assert (gone["processes"], gone["owned_tasks"], gone["totals"]["emitted"]) == (0, 0, 60)
    ended = component(fed([*each_second(range(0, 70, 10)), stats_record(lines(65, pending=4), 106.0, NOW, ended=True)]))
    assert (ended["processes"], ended["pending"], ended["emitted_per_second"]) == (0, 0, 0.0)
    assert ended["totals"]["emitted"] == 65


def test_totals_continue_across_a_restart() -> None:
    before = each_second(range(0, 70, 10), at_ms=NOW - 3000)
    view = fed([*before, stats_record(lines(66), 107.0, NOW - 2500, ended=True)])
    # A container starts again with the same host and process id.
    view.feed([stats_record(lines(7), 1.0, NOW - 1000, run="b"), stats_record(lines(14), 2.0, NOW, run="b")])
    found = component(view)
    assert (found["emitted_per_second"], found["totals"]["emitted"], found["processes"]) == (7.0, 80, 1)


def took(*seconds: float) -> LatencyHistogram:
    """A hundred calls of each of these times."""
    histogram = LatencyHistogram()
    for each in seconds * 100:
        histogram.record(each)
    return histogram


def test_latencies_are_of_the_window_and_failures_are_totals() -> None:
    view = fed(
        stats_record(Stats("lines", (1,), (0,), complete_latency=each), 100 + 5 * number, NOW - 10_000 + 5000 * number)
        for number, each in enumerate([took(0.001), took(0.001), took(0.001, 1.0)])
    )
    found = component(view)["complete_latency"]
    assert found is not None
    assert found["p50"] == pytest.approx(1000, rel=0.125)
    first = Stats("lines", (1,), failed={"timeout": 3}, errors=1, last_error="ValueError: old", dead_letters=1)
    second = Stats("lines", (2,), failed={"timeout": 1, "failed": 2}, errors=2, last_error="ValueError: new")
    failures = component(fed([stats_record(first, 200, NOW - 500, ended=True), stats_record(second, 100, NOW)]))
    assert failures["failed"] == {"timeout": 4, "failed": 2}
    assert (failures["errors"], failures["last_error"], failures["dead_letters"]) == (3, "ValueError: new", 1)


def edges(view: TopologyView) -> dict[tuple[str, str], float | None]:
    return {(edge["source"], edge["target"]): edge["tuples_per_second"] for edge in view.snapshot(NOW)["edges"]}


def test_the_rate_of_an_edge_follows_from_the_counts_at_its_ends() -> None:
    # lines sends to split and audit, split to count, audit to count too: only together are these 30.
    view = TopologyView(manifest(split=("lines",), audit=("lines",), count=("split", "audit")))
    # Here the counts cannot distinguish two edges.
    crossed = TopologyView(manifest(split=("lines",), left=("lines", "split"), right=("lines", "split")))
    for number in range(7):
        uptime, at_ms = 100 + number, NOW - 6000 + 1000 * number
        spout = stats_record(Stats("lines", (1,), (0,), transferred=40 * number), uptime, at_ms)
        split = stats_record(Stats("split", (2,), (0,), executed=25 * number, transferred=75 * number), uptime, at_ms)
        audit = stats_record(Stats("audit", (3,), (0,), executed=15 * number, transferred=number), uptime, at_ms)
        view.feed([spout, split, audit])
        crossed.feed([spout])
    assert edges(view) == {
        ("lines", "split"): 25.0,
        ("lines", "audit"): 15.0,
        ("split", "count"): 75.0,
        ("audit", "count"): 1.0,
    }
    assert edges(crossed)["lines", "split"] == 0.0
    assert edges(crossed)["lines", "left"] is None
    assert {*edges(TopologyView(manifest(left=("lines", "right"), right=("lines", "left")))).values()} == {0.0}


def test_partitions_of_the_ack_log_and_their_workers() -> None:
    partition = PartitionStats(1, pending=12, rebuilding=True, position=70, committed=100, oldest_ms=1200)
    view = fed(
        acker(WorkerStats(partitions=1, entries=1000 * n, by_partition=(partition,)), 100 + n, NOW - 6400 + 1000 * n)
        for n in range(7)
    )
    snapshot = view.snapshot(NOW)
    expected = {"partition": 1, "owner": "host/9", "pending": 12, "oldest_seconds": 1.2, "rebuild_left": 30}
    assert {**snapshot["acker"][1], **expected} == snapshot["acker"][1]
    assert snapshot["acker"][0]["owner"] is None
    worker = {"name": "host/9", "partitions": [1], "entries_per_second": 1000.0, "seen_seconds_ago": 0.4}
    (found,) = snapshot["workers"]
    assert {**found, **worker, "uptime_seconds": 106.0, "stalled_seconds": 0.0, "stalled_by": ""} == found
    # A partition that moves is that of the worker that reported last.
    stats = WorkerStats(partitions=1, by_partition=(PartitionStats(0),))
    moved = fed([acker(stats, 100, NOW - 2000), acker(stats, 3, NOW - 100, pid=10)])
    assert moved.snapshot(NOW)["acker"][0]["owner"] == "host/10"
    moved.feed([acker(stats, 4, NOW, pid=10, ended=True)])
    assert [worker["name"] for worker in moved.snapshot(NOW)["workers"]] == ["host/9"]


def test_unreadable_counts_are_skipped_and_future_ones_ignored() -> None:
    good = json.loads(json.dumps(lines(5).to_dict()))
    changes: list[dict[str, Any]] = [{"emitted": "many"}, {"failed": {"timeout": None}}, {"complete_latency": [1]}]
    bad: list[tuple[Any, dict[str, Any]]] = [("component", {}), ("acker", {"by_partition": [{"pending": []}]})]
    bad += [("component", {**good, **change}) for change in changes]
    view = TopologyView(manifest())

    def feed(kind: Any, stats: dict[str, Any]) -> None:
        view.feed([StatsRecord(kind, "lines", "host", 1, "a", 1000, stats=stats, at_ms=NOW)])

    for kind, stats in bad:
        feed(kind, stats)
    assert view.unreadable == len(bad)
    feed("component", {**good, "of_the_future": 1})
    assert component(view)["totals"]["emitted"] == 5


def in_spark(uptime_s: float, at_ms: int, pid: int = 1, **counts: int) -> StatsRecord:
    """Of a driver of the bolt `split`, which does not count everything."""
    empty: dict[str, Any] = {f"{each}_latency": {} for each in ("complete", "execute", "process")}
    stats = {"component": "split", "pids": [pid], "tasks": [0], **empty, **counts}
    return StatsRecord("component", "split", "host", pid, "a", int(uptime_s * 1000), stats=stats, at_ms=at_ms)


def test_a_chained_bolt_has_figures_of_its_own_but_no_inbox() -> None:
    of = manifest_of(spout("lines"), chained("parse", "lines"))
    parse = Stats("parse", (1,), (0,), executed=50, acked=40, pending=10)
    view = fed([*each_second(TEN_A_SECOND), stats_record(parse, 2.0, NOW)], of)
    view.feed_lags({"lines": 7}, 0)
    found = component(view, "parse")
    assert (found["head"], found["processes"], found["executed_per_second"]) == ("lines", 1, 25.0)
    assert (found["pending"], found["lag"], found["unread"]) == (10, None, None)
    assert component(view)["head"] == "lines"


def test_figures_that_an_external_component_does_not_count_are_null() -> None:
    spout, split = manifest().components
    of = manifest().model_copy(update={"components": (spout, split.model_copy(update={"external": True}))})
    silent = component(TopologyView(of), "split")
    assert silent["totals"] == dict.fromkeys(("emitted", "transferred", "executed", "acked"))
    view = fed((in_spark(100 + n, NOW - 6000 + 1000 * n, executed=10 * n) for n in range(7)), of)
    found = component(view, "split")
    assert found["totals"] == {"emitted": None, "transferred": None, "executed": 60, "acked": None}
    assert (found["executed_per_second"], found["acked_per_second"], found["pending"]) == (10.0, None, None)
    # A rate is known if all processes that are not gone count it, a total only if all ever did.
    both = fed([in_spark(500, NOW - 60_000, executed=10), in_spark(2, NOW, pid=2, executed=4, acked=4)], of)
    later = component(both, "split")
    assert (later["acked_per_second"], later["totals"]["executed"], later["totals"]["acked"]) == (2.0, 14, None)


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_a_wrong_clock_of_the_reader_keeps_processes_alive(ahead_ms: int) -> None:
    assert BrokerClock().now_ms(1_000) == 1_000
    clock = BrokerClock()
    for local_ms, took_ms in ((10_000, 300), (11_000, 5), (12_000, 9_000)):
        clock.observe(local_ms - ahead_ms - took_ms, local_ms)
    assert clock.now_ms(20_000) == 20_000 - ahead_ms - 5
    assert fed(each_second(range(0, 70, 10))).snapshot(NOW - 60_000)["at"] == NOW


def working(number: int, *executed: int, busy_ms: tuple[int, ...], pid: int = 1, tasks: tuple[int, ...]) -> StatsRecord:
    """Of a process of the bolt `split`, `number` seconds after its first record."""
    done, busy = ({str(task): each for task, each in zip(tasks, of, strict=True)} for of in (executed, busy_ms))
    stats = Stats("split", (pid,), tasks, task_executed=done, task_busy_ms=busy, executed=sum(executed))
    return stats_record(stats, 100 + number, NOW - 6000 + 1000 * number)


def test_how_busy_tasks_are_and_how_evenly_the_tuples_are_spread() -> None:
    """The tasks of a process take turns in one thread, so their shares add up."""
    spout, split = manifest().components
    view = TopologyView(manifest().model_copy(update={"components": (spout, split.model_copy(update={"tasks": 4}))}))
    for n in range(7):
        view.feed([working(n, 90 * n, 10 * n, busy_ms=(600 * n, 300 * n), tasks=(0, 1))])
        view.feed([working(n, 20 * n, busy_ms=(950 * n,), pid=2, tasks=(2,))])
    view.feed_lags({"split": 7, "lines": 17_000}, 0, {"split": {0: 3, 1: 4}}, {"lines": 299})
    assert (component(view)["lag"], component(view)["done_ahead"]) == (17_000, 299)
    found = component(view, "split")
    assert (found["busy"], found["skew"]) == (0.95, 3.0)
    assert [tuple(load.values()) for load in found["loads"]] == [
        (0, "host/1", 90.0, 0.6, 3, None),
        (1, "host/1", 10.0, 0.3, 4, None),
        (2, "host/2", 20.0, 0.95, None, None),
        (3, None, None, None, None, None),
    ]
    # A rebalance: what a process did before still counts, but the task is another's.
    view.feed([working(7, 20 * 7, 0, busy_ms=(950 * 7, 0), pid=2, tasks=(2, 0))])
    assert [load["process"] for load in component(view, "split")["loads"]] == ["host/2", "host/1", "host/2", None]
    assert (component(view)["busy"], component(view)["loads"], component(view)["skew"]) == (None, [], None)
    few = fed([working(n, n, 0, busy_ms=(0, 0), tasks=(0, 1)) for n in range(7)])
    assert component(few, "split")["skew"] is None


def test_each_component_has_a_history_of_its_own() -> None:
    records = [working(n, 10 * n, busy_ms=(400 * n,), tasks=(0,)) for n in range(-20, 7)]
    view = fed([*records, *(stats_record(lines(n), n, NOW - 60_000 + 1000 * n) for n in range(1, 60))])
    of_split = view.history("split")
    assert of_split["component"] == "split"
    assert {(point["executed_per_second"], point["busy"]) for point in of_split["points"][1:]} == {(10.0, 0.4)}
    assert {point["busy"] for point in view.history("lines")["points"]} == {None}
    assert view.history()["points"] == view.history("lines")["points"] != []


def test_the_points_of_the_history_are_an_hour_at_most() -> None:
    view = TopologyView(manifest())
    begin = NOW // 5000 * 5000
    view.feed(stats_record(lines(10 * second), second, begin + 1000 * second - 1) for second in range(1, 4001))
    points = view.history()["points"]
    assert len(points) == 720
    assert [point["at"] for point in points[:2]] == [points[0]["at"], points[0]["at"] + 5000]
    assert {point["emitted_per_second"] for point in points} == {10.0}
    later = fed(each_second([1_000_000, *range(1_000_010, 1_000_200, 10)])).history()["points"]
    assert max(point["emitted_per_second"] for point in later) <= 10.0
    assert later[-1]["complete_p50"] is None


def test_a_bolt_that_fails_all_it_executes_is_failing() -> None:
    def split(acked: int, failed: int) -> Stats:
        counts = {"executed": acked + failed, "acked": acked, "failed": {"failed": failed} if failed else {}}
        return Stats("split", (2,), (0,), **counts)  # type: ignore[arg-type]

    def failing(*states: tuple[int, int]) -> bool:
        at = [NOW - 1000 * (len(states) - 1 - number) for number in range(len(states))]
        records = [stats_record(split(*state), 100 + n, at[n]) for n, state in enumerate(states)]
        return component(fed(records), "split")["failing"]

    assert failing(*[(1_000, 10 * n) for n in range(8)])  # lately
    assert failing((0, 12), (0, 12))  # since its start
    assert not failing(*[(1_000, n) for n in range(8)])  # too few to know
    assert not failing(*[(1_000 + n, 10 * n) for n in range(8)])
    assert not failing((0, 0), (0, 0))
    assert not failing((5, 12), (5, 12))


def test_what_stalls_a_component_and_what_it_has_not_read() -> None:
    stalled = Stats("split", (2,), (0,), unread=7, stalled_seconds=42.04, stalled_by="execute has not returned, at x")
    found = component(fed([stats_record(stalled, 100, NOW)]), "split")
    assert (found["unread"], found["stalled_seconds"], found["stalled_by"]) == (7, 42.0, stalled.stalled_by)
    assert component(fed([stats_record(lines(1), 100, NOW)]))["unread"] is None


def test_the_latency_of_a_bolt_in_points_is_that_until_the_ack() -> None:
    """An `AsyncBolt` returns at once from `execute`, and acks when its coroutine has ended."""
    stats = Stats("split", (2,), (0,), execute_latency=took(0.00001), process_latency=took(0.2))
    view = fed(stats_record(stats, 1 + 5 * n, NOW + 5_000 * n) for n in range(2))
    (point, *_) = view.history("split")["points"]
    assert point["process_p50"] == pytest.approx(200, rel=0.1)


def test_the_state_of_a_bolt_is_that_of_the_tasks_where_they_are_now() -> None:
    view = TopologyView(manifest_of(spout("lines"), counting("count", "lines", tasks=3)))
    assert component(view)["state"] is None
    unknown = component(view, "count")["state"]
    assert unknown is not None
    assert unknown["guarantee"].startswith("each tuple once, unless tuples come of several inputs")
    assert (unknown["key"], unknown["keys"], unknown["bytes"], unknown["restore"]) == (["word"], None, None, None)

    def reported(pid: int, state: StateStats) -> StatsRecord:
        return stats_record(Stats("count", (pid,), state=state), 100, NOW - 1000 + pid)

    killed = StateStats("each tuple once", {"0": 3, "1": 4}, {"0": 30, "1": 40}, {"0": 1, "1": 2})
    moved = StateStats("each tuple once", {"1": 5}, {"1": 50}, {"1": 6}, (2,), 600, 300.0, 550, 1000, 2.0)
    view.feed([reported(1, killed), reported(2, moved)])
    found = component(view, "count")
    state = found["state"]
    assert state is not None
    assert (state["key"], state["guarantee"]) == (["word"], "each tuple once")
    assert (state["keys"], state["bytes"], state["identities"]) == (8, 80, 7)
    restore = {"tasks": [2], "done": 0.45, "records": 600, "records_per_second": 300.0, "left": 550, "seconds": 2.0}
    assert state["restore"] == restore
    assert [load["keys"] for load in found["loads"]] == [3, 5, None]


def test_an_error_that_ended_a_process_is_known_for_a_minute() -> None:
    view = fed(each_second(range(0, 70, 10)))
    last = stats_record(lines(70), 107.0, NOW + 1000, ended=True)
    view.feed([replace(last, ended_by="OSError: No space left on device")])
    found = component(view, now_ms=NOW + 3000)
    assert (found["processes"], found["ended_by"]) == (0, "OSError: No space left on device")
    assert found["ended_seconds_ago"] == 2.0
    assert component(view, now_ms=NOW + 61_000)["ended_by"] == ""


def test_counts_of_the_last_minute_are_those_of_all_its_processes() -> None:
    counts = [Stats("lines", (1,), (0,), acked=10 * n, failed={"failed": n}, dead_letters=n // 40) for n in range(90)]
    view = fed(stats_record(each, 100 + n, NOW + 1000 * n) for n, each in enumerate(counts))
    young = Stats("lines", (2,), (1,), acked=7, counters={"late tuples": 3})
    view.feed([stats_record(young, 2.0, NOW + 89_000)])
    recent = component(view, now_ms=NOW + 89_000)["recent"]
    assert (recent["acked"], recent["failed"], recent["dead_letters"]) == (607, {"failed": 60}, 2)
    assert recent["late_tuples"] == 3


def test_clocks_are_compared_by_records_as_they_are_written() -> None:
    """A record that was delayed says nothing: the smallest difference counts."""
    view = TopologyView(manifest())
    for number, delay_ms in enumerate((5_000, 40, 4_000)):
        record = stats_record(lines(number), 100 + number, NOW + 1000 * number)
        view.feed([replace(record, sent_ms=record.at_ms - 3_000 - delay_ms)])
    assert view.snapshot(NOW)["clocks"] == {"host": 3.04}
