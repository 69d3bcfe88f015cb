"""Whether a topology has reached the requested state, by the statistics of its processes."""

from dataclasses import replace

from inspection.drain import holding_up, left_in_bolts, left_in_spouts, running
from inspection.view import Snapshot, TopologyView
from spout_sdk import Stats
from tests.unit.inspection.reports import NOW, lines, manifest, stats_record

SPLIT = Stats("split", (7,), (0,))


def snapshot(*stats: Stats, lag: int | None = 0) -> Snapshot:
    view = TopologyView(manifest())
    view.feed(stats_record(each, 100, NOW) for each in stats)
    view.feed_lags({"split": lag}, None)
    return view.snapshot(NOW)


def test_a_spout_is_done_when_all_its_processes_know_and_nothing_is_open() -> None:
    known = replace(lines(5), control=("draining",))
    late = replace(lines(5, pid=2), control=("running",), tasks=())
    assert left_in_spouts(snapshot(known, SPLIT), "draining") == []
    assert left_in_spouts(snapshot(known, late), "draining") == ["spout lines: its 2 processes know draining, running"]
    assert left_in_spouts(snapshot(lines(5)), "draining") == [
        "spout lines: its 1 process know nothing: it runs an earlier version"
    ]
    assert left_in_spouts(snapshot(replace(known, pending=1, retrying=2)), "draining") == [
        "spout lines: 1 tree open",
        "spout lines: 2 failed messages to be emitted again",
    ]
    assert left_in_spouts(snapshot(replace(known, control=("paused",), retrying=2)), "paused") == []
    assert left_in_spouts(snapshot(), "draining") == [], "without a process nothing is emitted"


def test_a_bolt_is_done_when_its_inbox_is_committed() -> None:
    assert left_in_bolts(snapshot(SPLIT)) == []
    assert left_in_bolts(snapshot(SPLIT, lag=3)) == ["bolt split: 3 records not executed or not committed"]
    assert left_in_bolts(snapshot(replace(SPLIT, pending=1))) == ["bolt split: 1 input open"]


def test_what_holds_up_a_drain_is_named() -> None:
    no_acker = "no acker worker is running, so no tree ends: start one with acker worker"
    paused = replace(SPLIT, paused_by="split/0: ValueError", paused_seconds=12.0)
    assert holding_up(snapshot(paused)) == [no_acker, "bolt split pauses since 12 s: split/0: ValueError"]
    assert holding_up(snapshot(lag=2)) == [no_acker, "bolt split: none of its processes runs, and 2 records wait"]
    assert holding_up(snapshot(SPLIT)) == [no_acker]


def test_processes_that_have_ended_do_not_run() -> None:
    assert running(snapshot(lines(5), SPLIT)) == ["lines: 1 process", "split: 1 process"]
    assert running(snapshot()) == []
