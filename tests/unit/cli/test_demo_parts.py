"""The parts of the demo: its topology, pace, kills, stores, report, and the verdict on a run in containers."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from acker_cli.demo.session import DemoReport, Kills
from acker_cli.demo.stores import CountStore, LineStore, acked_lines, counted_words
from acker_cli.demo.text import comparison
from acker_cli.demo.word_count import LineSpout, Parameters, topology
from acker_worker.stats import WorkerStats
from examples.compose import spark_word_count
from examples.compose.verification import is_right, kept_results
from spout_sdk import Stats
from tests.seeds import each_seed


def test_its_topology_is_that_of_the_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = Parameters("words-1", tmp_path / "stores", 0.25, 7, 12.5, 100)
    assert Parameters.from_environment(parameters.to_environment()) == parameters
    for name, value in parameters.to_environment().items():
        monkeypatch.setenv(name, value)
    plain, spark = topology().manifest, spark_word_count.topology().manifest
    # In Spark a spout has one task, and what counts needs no grouping, for it keeps each place in the text.
    shapes = [
        [(each.name, [stream.fields for stream in each.streams]) for each in of.components] for of in (plain, spark)
    ]
    assert shapes[0] == shapes[1]
    assert spark.topology == "words-1"
    assert all(part.external for part in spark.components)
    assert list(tmp_path.iterdir()) == [], "building it creates no files"


def test_the_pace_does_not_catch_up(tmp_path: Path) -> None:
    now, emitted = 100.0, Mock()
    spout = LineSpout(Parameters(directory=tmp_path, rate=4.0), lambda: now)
    spout.open(Mock(task=0, tasks=1), emitted)
    for _ in range(2):
        now += 60
        emitted.reset_mock()
        for _call in range(3):
            spout.next_tuple()
        assert emitted.emit.call_count == 1
    spout.close()


def kills_of(seed: int) -> list[tuple[float, tuple[int, str]]]:
    killed: list[tuple[float, tuple[int, str]]] = []
    kills = Kills(seed, ["count"])
    for step in range(1001):
        share = step / 1000
        stats = Stats("count", pids=(20, 21), tasks=(0, 1), executed=step)
        killed += [(share, victim) for victim in kills.due(share, [10], {"count": stats}, {"count": [20, 21]})]
    assert kills.of_ackers + kills.of_bolts == len(killed)
    return killed


def test_one_acker_and_one_bolt_process_are_killed_in_the_middle() -> None:
    def check(seed: int) -> None:
        (acker_at, acker), (bolt_at, (bolt, role)) = kills_of(seed)
        assert acker == (10, "acker worker")
        assert role == "count process"
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


class World:
    """A clock that advances when the verification pauses, and the word count, which continues."""

    def __init__(self, directory: Path, *lines: int) -> None:
        directory.mkdir()
        self.directory, self.now = directory, 0.0
        self.printed: list[str] = []
        self.todo: list[int] = []
        self.process(*lines)

    def process(self, *lines: int) -> None:
        with closing(CountStore(self.directory, 0)) as counts, closing(LineStore(self.directory, 0)) as acked:
            for line in lines:
                counts.add([(line, 0, "aba"[line])])
                acked.add(line)

    def pause(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if self.todo and self.now // 8.0 > before // 8.0:
            self.process(self.todo.pop(0))

    def verified(self) -> bool:
        results = kept_results(self.directory)
        return is_right(results, 3, Counter("aba"), 10.0, self.printed.append, lambda: self.now, self.pause)


def test_the_verdict_on_a_run_in_containers(tmp_path: Path) -> None:
    # What was processed before, what is processed one line in 8 s, and the verdict.
    for number, (before, later, verdict, after_s, counts) in enumerate(
        (
            ((0, 1, 2), (), True, 0.0, "counts match: 3 words, 2 distinct"),
            ((), (0, 1, 2), True, 24.0, "counts match"),
            ((0,), (), False, 10.5, "counts differ"),
            ((0, 1, 2, 1), (), False, 0.0, "counts match"),
        )
    ):
        world = World(tmp_path / str(number), *before)
        world.todo = [*later]
        assert world.verified() is verdict, number
        assert (world.now, world.printed[-1].startswith(counts)) == (after_s, True), number
        assert ("no line was acked for 10 s" in "\n".join(world.printed)) == (before == (0,)), number
    too_many = World(tmp_path / "more", 0, 1, 2)
    with closing(CountStore(too_many.directory, 1)) as store:
        store.add([(7, 0, "b")])
    assert not too_many.verified()
