"""The parts of the demo: its kills, stores, report, and the verdict on a run in containers."""

import itertools
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from acker_cli.demo.session import DemoReport, Kills
from acker_cli.demo.stores import CountStore, LineStore, acked_lines, counted_words
from acker_cli.demo.text import comparison
from acker_worker.stats import WorkerStats
from examples.compose.verification import is_right, kept_results
from spout_sdk import Stats
from tests.seeds import each_seed


def kills_of(seed: int) -> list[tuple[float, tuple[int, str]]]:
    killed: list[tuple[float, tuple[int, str]]] = []
    kills = Kills(seed, ["count"])
    for step in range(1001):
        share = step / 1000
        stats = Stats("count", pids=(20, 21), tasks=(0, 1), executed=step)
        killed += [(share, victim) for victim in kills.due(share, [10], {"count": stats}, {"count": [20, 21]})]
    assert kills.of_ackers + kills.of_bolts == len(killed)
    return killed


def test_one_acker_and_one_worker_process_are_killed_in_the_middle() -> None:
    def check(seed: int) -> None:
        (acker_at, acker), (bolt_at, (bolt, role)) = kills_of(seed)
        assert acker == (10, "acker worker")
        assert role == "worker process"
        assert bolt in (20, 21)
        assert 0.2 < acker_at < 0.45 < bolt_at < 0.7
        assert kills_of(seed) == [(acker_at, acker), (bolt_at, (bolt, role))]

    each_seed(check)


def test_a_position_in_the_text_counts_once(tmp_path: Path) -> None:
    """Also where a task moved, and its old process still has the file open."""
    (tmp_path / "count-0.sqlite").touch()
    (tmp_path / "lines-0.sqlite").touch()
    assert counted_words(tmp_path) == Counter()
    assert acked_lines(tmp_path) == 0
    old, new, other = CountStore(tmp_path, 0), CountStore(tmp_path, 0), CountStore(tmp_path, 1)
    assert old.add([(1, 0, "a")]) == 0
    assert new.add([(1, 0, "a"), (1, 1, "a"), (1, 1, "a")]) == 2
    assert old.add([(1, 1, "a")]) == 1
    assert other.add([(2, 0, "a")]) == 0
    old.close()
    assert new.add([(3, 0, "b")]) == 0
    for store in (new, other):
        store.close()
    assert counted_words(tmp_path) == Counter({"a": 3, "b": 1})


def report(lines_acked: int = 10, counted: str = "a b b") -> DemoReport:
    counts = Counter(["a", "b", "b"]), Counter(counted.split())
    return DemoReport(Stats("lines"), 0, WorkerStats(), 10, lines_acked, 4.0, *counts, acker_kills=1, bolt_kills=0)


def test_verify_succeeds_only_if_all_lines_are_acked_and_counts_match() -> None:
    assert report().is_right
    assert not report(lines_acked=9).is_right
    assert not report(counted="a b").is_right
    # The totals are equal, and the words are not.
    differing = comparison(Counter(a=2, b=1, c=5), Counter(a=1, b=2, c=5))
    assert differing.endswith("8 of 8 words, 3 of 3 distinct: 'a' 1 instead of 2, 'b' 2 instead of 1")


@pytest.mark.parametrize(
    ("acked", "is_right_", "counts"),
    [
        ((0, 1, 2), True, "counts match: 3 words, 2 distinct"),
        ((0,), False, "counts differ"),  # no more lines are acked
        ((0, 1, 2, 1), False, "counts match"),  # one line twice
    ],
)
def test_the_verdict_on_a_run_in_containers(
    tmp_path: Path, acked: tuple[int, ...], is_right_: bool, counts: str
) -> None:
    with closing(CountStore(tmp_path, 0)) as words, closing(LineStore(tmp_path, 0)) as lines:
        for line in acked:
            words.add([(line, 0, "aba"[line])])
            lines.add(line)
    now, printed = itertools.count(), list[str]()
    results = kept_results(tmp_path)
    found = is_right(results, 3, Counter("aba"), 10.0, printed.append, lambda: float(next(now)), lambda _seconds: None)
    assert found is is_right_
    assert printed[-1].startswith(counts)
    assert ("no line was acked for 10 s" in "\n".join(printed)) == (len(acked) < 3)
