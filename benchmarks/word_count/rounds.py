"""Rounds of the word count: each is watched from outside, checked, and measured in its steady part.

The steady part lies between the first and the last tenth of what is to be processed. It begins later where a contestant
compiles while it runs, and ends earlier where much is under way at a time: at its end as much has to be under way as at
its beginning, or work would be left out. Progress between two samples is taken for even.
"""

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import cpu_seconds, descendants
from benchmarks.word_count.contestants import FIRST, LAST, Contestant, Counted, Run, Setting

_SAMPLE_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What was processed at a time, and CPU seconds of the contestant's processes and of the broker until then."""

    at: float
    done: float
    cpu: float = 0.0
    broker: float = 0.0


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady part of a round: its length, CPU seconds of the contestant and of the broker, share of the round."""

    seconds: float
    cpu: float
    broker: float
    share: float = LAST - FIRST


def steady(samples: Sequence[Sample], total: int, first: float = FIRST, last: float = LAST) -> Steady:
    """What happened between two shares of a round, of which `total` is what there was to process."""
    begin, end = _between(samples, first * total), _between(samples, last * total)
    if end.at - begin.at <= 0:
        raise BenchmarkError("a round was over before it was sampled: take more --lines")
    return Steady(end.at - begin.at, end.cpu - begin.cpu, end.broker - begin.broker, last - first)


def _between(samples: Sequence[Sample], done: float) -> Sample:
    """The sample when so much was done, interpolated."""
    for before, after in pairwise(samples):
        if before.done <= done <= after.done and after.done > before.done:
            share = (done - before.done) / (after.done - before.done)
            at, cpu, broker = (
                getattr(before, name) + share * (getattr(after, name) - getattr(before, name))
                for name in ("at", "cpu", "broker")
            )
            return Sample(at, done, cpu, broker)
    raise BenchmarkError("a round was over before it was sampled: take more --lines")


def watch(run: Run, broker: int) -> list[Sample]:
    """Watches until all is done: a sample for each time that something was done, and one before the first."""
    samples: list[Sample] = []
    pids: list[int] = []
    moved = time.monotonic()
    while True:
        done = run.done()
        if not pids and done:
            pids = descendants(run.pids)
            # What was spent before it was known which processes spend it counts as start-up.
            samples[:] = [Sample(each.at, each.done, _cpu(pids), cpu_seconds(broker)) for each in samples]
        now = time.monotonic()
        sample = Sample(now, done, _cpu(pids), cpu_seconds(broker))
        if not done:
            samples[:] = [sample]
        elif not samples or done > samples[-1].done:
            samples.append(sample)
            moved = now
        if done >= run.total:
            return samples
        run.check()
        if now - moved > _PATIENCE_SECONDS:
            raise BenchmarkError(f"{done:,} of {run.total:,} are done, and none for {_PATIENCE_SECONDS:g} s")
        time.sleep(_SAMPLE_SECONDS)


def _cpu(pids: Sequence[int]) -> float:
    return sum(map(cpu_seconds, pids))


def log_bytes(logs: Path, name: str, kind: Callable[[str], str]) -> dict[str, int]:
    """Kind of topic → bytes of the logs of all topics with a round's name in theirs."""
    sizes: dict[str, int] = {}
    for segment in logs.rglob("*.log"):
        topic = segment.parent.name.rpartition("-")[0]
        if name in topic and not segment.parent.name.endswith("-delete"):
            sizes[kind(topic)] = sizes.get(kind(topic), 0) + segment.stat().st_size
    return sizes


@dataclass(frozen=True, slots=True)
class Round:
    """A round that was measured: `seconds` are all, from the last sample at which nothing was done."""

    lines: int
    tuples: int
    steady: Steady
    seconds: float
    counted: Counted
    bytes: Mapping[str, int]
    """Kind of topic → bytes of its log."""

    def figures(self) -> dict[str, float]:
        tuples = self.steady.share * self.tuples
        return {
            "tuples_per_s": tuples / self.steady.seconds,
            "tuples_per_s_of_whole_round": self.tuples / self.seconds,
            "cpu_us_per_tuple": self.steady.cpu / tuples * 1e6,
            "cpu_us_per_tuple_with_broker": (self.steady.cpu + self.steady.broker) / tuples * 1e6,
            "kafka_bytes_per_tuple": sum(self.bytes.values()) / self.tuples,
        }

    def __str__(self) -> str:
        figures = {**self.figures(), "p50_ms": self.counted.p50_ms, "p99_ms": self.counted.p99_ms}
        return ", ".join(f"{name} {value:,.2f}" for name, value in figures.items() if value is not None)


def run_round(contestant: Contestant, setting: Setting, logs: Path) -> Round:
    """One round, in a directory and with topics of its own; `logs` is the broker's data directory."""
    name = f"words-{contestant.name}-{uuid.uuid4().hex[:8]}"
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    setting = replace(setting, name=name, directory=directory)
    try:
        with contestant.run(setting) as run:
            samples = watch(run, setting.topics.pid)
        counted = run.counted()
        check(contestant, setting.lines, counted)
        sizes = log_bytes(logs, name, contestant.kind)
    finally:
        setting.topics.delete(name)
        # A process that was killed may still write while this is removed.
        shutil.rmtree(directory, ignore_errors=True)
    tuples = setting.lines + contestant.expected(setting.lines).total()
    part = steady(samples, run.total, *contestant.part(setting.lines))
    if not contestant.on_kafka:
        part = replace(part, broker=0.0)
    return Round(setting.lines, tuples, part, samples[-1].at - samples[0].at, counted, sizes)


def calibrated(contestant: Contestant, setting: Setting, logs: Path, seconds: float) -> int:
    """How many lines a round of so many seconds has, by a short round; more where a larger part of it is left out."""
    short = run_round(contestant, replace(setting, lines=contestant.lines), logs)
    steady_lines = (LAST - FIRST) * seconds * short.steady.share * short.lines / short.steady.seconds
    wanted = max(steady_lines / (LAST - contestant.first), (steady_lines + contestant.window) / (1 - contestant.first))
    # In whole thousands, so that contestants that are about as fast share a source.
    return max(1, round(wanted / 1000)) * 1000


def check(contestant: Contestant, lines: int, counted: Counted) -> None:
    """Compares with a plain count.

    Raises:
        BenchmarkError: if a word was counted too seldom, or too often although nothing failed; and if trees failed,
            since such a round shows something else.
    """
    expected = contestant.expected(lines)
    lost, repeated = expected - counted.counts, counted.counts - expected
    if lost or (repeated and not counted.failed):
        raise BenchmarkError(
            f"{contestant.name} counted {lines:,} lines wrongly: {lost.total():,} words of {expected.total():,} are "
            f"missing, {repeated.total():,} are too many, for instance {[*(lost or repeated).items()][:3]}"
        )
    if counted.failed:
        raise BenchmarkError(f"{counted.failed:,} trees of {contestant.name} failed, so this measures nothing")


def row(contestant: Contestant, rounds: Sequence[Round]) -> dict[str, Any]:
    """A row of the result."""
    figures = [each.figures() for each in rounds]
    latencies = {
        name: Spread.of([getattr(each.counted, name) for each in rounds], 2)
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
