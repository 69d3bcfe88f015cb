"""Round by round, in turn: each is checked, and measured in its steady part."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.results import Spread
from benchmarks.word_count.contestants import Contestant, Counted, Setting, fresh_name
from benchmarks.word_count.watching import FIRST, LAST, Steady, log_bytes, steady, watch


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one round.

    Attributes:
        lines: that were counted.
        tuples: lines and words.
        steady: its steady part.
        seconds: of all of it, from the last look at which nothing was done.
        counted: what was counted.
        bytes: kind of topic → bytes of its log.
    """

    lines: int
    tuples: int
    steady: Steady
    seconds: float
    counted: Counted
    bytes: Mapping[str, int]

    @property
    def rate(self) -> float:
        """Lines and words a second."""
        return self.steady.share * self.tuples / self.steady.seconds

    @property
    def lines_a_second(self) -> float:
        """Lines alone."""
        return self.steady.share * self.lines / self.steady.seconds

    def figures(self) -> dict[str, float]:
        """The figures of each round; CPU time in microseconds a tuple."""
        scale = 1e6 / (self.steady.share * self.tuples)
        return {
            "tuples_per_s": self.rate,
            "tuples_per_s_of_whole_round": self.tuples / self.seconds,
            "cpu_us_per_tuple": self.steady.cpu * scale,
            "cpu_us_per_tuple_with_broker": (self.steady.cpu + self.steady.broker) * scale,
            "kafka_bytes_per_tuple": sum(self.bytes.values()) / self.tuples,
        }


class Rounds:
    """Runs rounds of any contestant.

    Args:
        broker: its process id.
        logs: the directory with its logs.
        setting: makes the setting of a round of its name, directory and lines.
    """

    def __init__(self, broker: int, logs: Path, setting: Callable[[str, Path, int], Setting]) -> None:
        self._broker = broker
        self._logs = logs
        self._setting = setting

    def run(self, contestant: Contestant, lines: int) -> Round:
        """One round.

        Raises:
            BenchmarkError: if a count is wrong, or trees failed.
        """
        name = fresh_name(contestant.name)
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        setting = self._setting(name, directory, lines)
        try:
            with contestant.run(setting) as run:
                looks = watch(run, self._broker)
            counted = run.counted()
            check(contestant, lines, counted)
            sizes: dict[str, int] = {}
            for topic, size in log_bytes(self._logs, name).items():
                sizes[contestant.kind(topic)] = sizes.get(contestant.kind(topic), 0) + size
        finally:
            setting.topics.delete(name)
            # A process that was killed may still write while this is removed.
            shutil.rmtree(directory, ignore_errors=True)
        tuples = lines + contestant.expected(lines).total()
        part = steady(looks, run.total, *contestant.part(setting))
        if not contestant.on_kafka:
            part = replace(part, broker=0.0)
        return Round(lines, tuples, part, looks[-1].at - looks[0].at, counted, sizes)

    def calibrated(self, contestant: Contestant, seconds: float) -> int:
        """How many lines a round has to have, by a short round.

        Args:
            contestant: who counts.
            seconds: that a round takes of which the first and the last tenth are left out; longer where it is more.
        """
        steady_lines = (LAST - FIRST) * seconds * self.run(contestant, contestant.lines).lines_a_second
        window = contestant.window(self._setting("", Path(), 0))
        wanted = max(steady_lines / (LAST - contestant.first), (steady_lines + window) / (1 - contestant.first))
        # In whole thousands, so that contestants that are about as fast share a source.
        count = max(1, round(wanted / 1000)) * 1000
        return count if contestant.most is None else min(count, contestant.most)


def check(contestant: Contestant, lines: int, counted: Counted) -> None:
    """Compares with a plain count.

    Raises:
        BenchmarkError: if a word was counted too seldom, or too often although nothing failed; and if trees failed,
            since such a round shows something else.
    """
    expected = contestant.expected(lines)
    lost = expected - counted.counts
    repeated = counted.counts - expected
    if lost or (repeated and not counted.failed):
        raise BenchmarkError(
            f"{contestant.name} counted {lines:,} lines wrongly: {lost.total():,} words of {expected.total():,} are "
            f"missing, {repeated.total():,} are too many, for instance {[*(lost or repeated).items()][:3]}"
        )
    if counted.failed:
        raise BenchmarkError(f"{counted.failed:,} trees of {contestant.name} failed, so this measures nothing")


def row(contestant: Contestant, rounds: Sequence[Round]) -> dict[str, Any]:
    """A row of the report."""
    figures = [each.figures() for each in rounds]
    latencies = {
        name: Spread.of([found for each in rounds if (found := getattr(each.counted, name)) is not None], 2)
        for name in ("p50_ms", "p99_ms")
        if getattr(rounds[0].counted, name) is not None
    }
    kinds = {
        kind: round(sum(each.bytes.get(kind, 0) for each in rounds) / sum(each.tuples for each in rounds), 2)
        for kind in sorted({kind for each in rounds for kind in each.bytes})
    }
    return {
        "contestant": contestant.name,
        "lines": [each.lines for each in rounds],
        **{name: Spread.of([each[name] for each in figures], None if "per_s" in name else 2) for name in figures[0]},
        **latencies,
        "kafka_bytes_by_topic": kinds,
    }


def say(text: str) -> None:
    """Tells a person how it goes."""
    print(text, file=sys.stderr, flush=True)
