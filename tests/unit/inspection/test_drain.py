"""Whether a topology has reached the requested state, by the statistics of its processes."""

from dataclasses import replace
from typing import Any

import pytest

from inspection.drain import holding_up, left_in_bolts, left_in_sources, left_in_spouts, running
from inspection.view import Snapshot, TopologyView
from spout_sdk.statistics import Stats
from tests.unit.inspection.reports import NOW, lines, manifest, stats_record

SPLIT = Stats("split", (7,), (0,))


def snapshot(*stats: Stats, lag: int | None = 0) -> Snapshot:
    view = TopologyView(manifest())
    view.feed(stats_record(each, 100, NOW) for each in stats)
    view.feed_lags({"split": lag}, None)
    return view.snapshot(NOW)


KNOWN = replace(lines(5), control=("draining",))
LATE = replace(lines(5, pid=2), control=("running",), tasks=())


@pytest.mark.parametrize(
    ("stats", "asked", "left"),
    [
        ((KNOWN, SPLIT), "draining", []),
        ((KNOWN, LATE), "draining", ["its 2 processes know draining, running"]),
        ((lines(5),), "draining", ["its 1 process know nothing: it runs an earlier version"]),
        (
            (replace(KNOWN, pending=1, retrying=2),),
            "draining",
            ["1 tree open", "2 messages to be emitted again"],
        ),
        ((replace(KNOWN, control=("paused",), retrying=2),), "paused", []),
        ((), "draining", []),  # without a process nothing is emitted
    ],
)
def test_a_spout_is_done_when_all_its_processes_know_and_nothing_is_open(
    stats: tuple[Stats, ...], asked: Any, left: list[str]
) -> None:
    assert left_in_spouts(snapshot(*stats), asked) == [f"spout lines: {each}" for each in left]


def test_emitted_messages_that_are_not_committed_as_done_are_left_with_or_without_a_process() -> None:
    unfinished = {"lines": {("orders", 1): [(5, 7), (9, 10)], ("orders", 0): [(3, 4)]}}
    left = "spout lines: 4 emitted messages not committed as done, the first one at offset 3 of orders[0]"
    assert left_in_sources(unfinished, snapshot(KNOWN)) == [left]
    start = "; none of its processes runs: start it, and it emits them again"
    assert left_in_sources(unfinished, snapshot()) == [left + start]
    assert left_in_sources({}, snapshot()) == []


def test_a_bolt_is_done_when_its_inbox_is_committed() -> None:
    assert left_in_bolts(snapshot(SPLIT)) == []
    assert left_in_bolts(snapshot(SPLIT, lag=3)) == ["bolt split: 3 records not executed or not committed"]
    assert left_in_bolts(snapshot(replace(SPLIT, pending=1))) == ["bolt split: 1 input open"]


def test_what_holds_up_a_drain_is_named() -> None:
    no_acker = "no acker worker is running, so no tree ends: start one with acker worker"
    paused = replace(SPLIT, paused_by="split/0: ValueError", paused_seconds=12.0)
    for held, why in (
        (snapshot(paused), ["bolt split pauses since 12 s: split/0: ValueError"]),
        (snapshot(lag=2), ["bolt split: none of its processes runs, and 2 records wait"]),
        (snapshot(SPLIT), []),
    ):
        assert holding_up(held) == [no_acker, *why]


def test_processes_that_have_ended_do_not_run() -> None:
    assert running(snapshot(lines(5), SPLIT)) == ["lines: 1 process", "split: 1 process"]
    assert running(snapshot()) == []
