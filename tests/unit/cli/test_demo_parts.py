"""The parts of the demo: its kills, topology, report, and the verdict on a run in containers."""

import itertools
from collections import Counter

import pytest

from acker_cli.demo.session import DemoReport, Kills
from acker_cli.demo.text import comparison, lines, plain_count
from acker_cli.demo.word_count import Parameters, topology
from acker_worker.stats import WorkerStats
from examples.compose.verification import Results, is_right
from spout_sdk.statistics import Stats
from spout_sdk.testing import SimulatedCluster
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


@pytest.mark.parametrize("fail_rate", [0.0, 0.05])
def test_each_word_is_counted_once_even_if_lines_are_replayed(
    fail_rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Parameters(fail_rate=fail_rate).to_environment().items():
        monkeypatch.setenv(name, value)
    with SimulatedCluster(topology(), topics={"word-count.text": 2}, step=0.5) as cluster:
        for number, line in enumerate(lines(40)):
            cluster.produce("word-count.text", line, partition=number % 2)
        cluster.advance(60)
        assert len(cluster.acked("lines")) == 40
        assert cluster.state("count") == plain_count(40)
        assert bool(cluster.failed("lines")) == (fail_rate > 0)


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
    ("acked", "dead_letters", "counted", "is_right_"),
    [(3, 0, "aba", True), (2, 0, "aba", False), (3, 1, "aba", False), (3, 0, "ab", False)],
)
def test_the_verdict_on_a_run_in_containers(acked: int, dead_letters: int, counted: str, is_right_: bool) -> None:
    now, printed = itertools.count(), list[str]()
    results = Results(lambda: acked, lambda: dead_letters, lambda: Counter(counted))
    found = is_right(results, 3, Counter("aba"), 10.0, printed.append, lambda: float(next(now)), lambda _seconds: None)
    assert found is is_right_
    assert printed[-1].startswith("counts match" if counted == "aba" else "counts differ")
    assert ("no line was acked for 10 s" in "\n".join(printed)) == (acked < 3)
