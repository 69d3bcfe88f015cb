"""The word count of the demo's text: ours compared with Storm, pystorm, Quix Streams and Bytewax.

    make bench-setup
    python -m benchmarks.word_count
    python -m benchmarks.word_count --only ours storm --rounds 3
    python -m benchmarks.word_count --quick --cores 3 --only ours bytewax

Each round is watched from outside, checked, and measured in its steady part, between the first and the last tenth of
what is to be processed. This begins later where a contestant compiles while it runs, and ends earlier where much is
under way at a time: at its end as much has to be under way as at its beginning, or work would be left out.
docs/performance.md describes the contestants, and what is measured of them.
"""

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.contestants import Contestant, Counted, Demo, KafkaPeer, Ours, Setting, Storm
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import Sample, steady, watch
from benchmarks.topics import broker
from benchmarks.topologies import TASKS
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS

CONTESTANTS: Final[dict[str, Contestant]] = {
    each.name: each
    for each in (
        Storm("storm", 700_000),
        Storm("pystorm", 40_000, "pystorm"),
        KafkaPeer("quixstreams", "quixstreams", 50_000),
        KafkaPeer("quixstreams-2", "quixstreams", 50_000, processes=2),
        KafkaPeer("bytewax", "bytewax", 300_000),
        Ours("ours", 150_000),
        Ours("ours-arrow", 150_000, columns=True),
        Ours("ours-chained", 200_000, chained=True),
        Ours("ours-chained-arrow", 200_000, columns=True, chained=True),
        Ours("ours-kafka", 300_000, topic=True),
        Ours("ours-kafka-arrow", 900_000, topic=True, columns=True),
        Ours("ours-kafka-chained", 400_000, topic=True, chained=True),
        Ours("ours-kafka-chained-arrow", 900_000, topic=True, columns=True, chained=True),
        Ours("ours-sink", 100_000, topic=True, sink=True),
        Ours("ours-sink-arrow", 150_000, topic=True, columns=True, sink=True),
        Ours("ours-state", 80_000, topic=True, sink=True, state=True),
        Ours("ours-state-arrow", 120_000, topic=True, columns=True, sink=True, state=True),
        Demo("ours-demo", 30_000),
    )
}
_QUICK_LINES: Final = 2_000
_DECIDE: Final = ("only", "lines", "pending", "ack_partitions")
"""Options that choose what is compared: with another value than the default, a run is not the one that is kept."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round that was measured: `steady` is a part of its samples, `share` of the round; `seconds` are all of it."""

    lines: int
    tuples: int
    steady: Sample
    share: float
    seconds: float
    counted: Counted
    bytes: Mapping[str, int]  # kind of topic → bytes of its log

    def figures(self) -> dict[str, float]:
        tuples, cpu = self.share * self.tuples, self.steady.figures
        return {
            "tuples_per_s": tuples / self.steady.at,
            "tuples_per_s_of_whole_round": self.tuples / self.seconds,
            "cpu_us_per_tuple": cpu["contestant"] / tuples * 1e6,
            "cpu_us_per_tuple_with_broker": sum(cpu.values()) / tuples * 1e6,
            "kafka_bytes_per_tuple": sum(self.bytes.values()) / self.tuples,
            **self.counted.latencies,
        }

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:,.2f}" for name, value in self.figures().items())


def run_round(contestant: Contestant, setting: Setting, logs: Path) -> Round:
    """One round, in a directory and with topics of its own; `logs` is the broker's data directory."""
    name = f"words-{contestant.name}-{uuid.uuid4().hex[:8]}"
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    setting = replace(setting, name=name, directory=directory)
    try:
        with contestant.run(setting) as run:
            pids = {"contestant": run.pids, **({"broker": [setting.topics.pid]} if contestant.on_kafka else {})}
            samples = watch(run.done, pids, run.check, total=run.total)
        counted = run.counted()
        check(contestant, setting.lines, counted)
        sizes = log_bytes(logs, name, contestant.kind)
    finally:
        setting.topics.delete(name)
        # A process that was killed may still write while this is removed.
        shutil.rmtree(directory, ignore_errors=True)
    tuples = setting.lines + contestant.expected(setting.lines).total()
    first, last = contestant.part(setting.lines)
    part = steady(samples, first * run.total, last * run.total)
    return Round(setting.lines, tuples, part, last - first, samples[-1].at - samples[0].at, counted, sizes)


def log_bytes(logs: Path, name: str, kind: Callable[[str], str]) -> dict[str, int]:
    """Kind of topic → bytes of the logs of all topics with a round's name in theirs."""
    sizes: dict[str, int] = {}
    # The broker still deletes the topics of the round before, while their directories are walked.
    for directory, _, files in os.walk(logs):
        topic = Path(directory).name.rpartition("-")[0]
        if name in topic and not directory.endswith("-delete"):
            segments = [Path(directory, file) for file in files if file.endswith(".log")]
            sizes[kind(topic)] = sizes.get(kind(topic), 0) + sum(segment.stat().st_size for segment in segments)
    return sizes


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
    kinds = {
        kind: round(sum(each.bytes.get(kind, 0) for each in rounds) / sum(each.tuples for each in rounds), 2)
        for kind in sorted({kind for each in rounds for kind in each.bytes})
    }
    return {
        "contestant": contestant.name,
        "lines": [each.lines for each in rounds],
        **{name: Spread.of([each[name] for each in figures], None if "per_s" in name else 2) for name in figures[0]},
        "kafka_bytes_by_topic": kinds,
    }


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Ours against each of the others, medians over medians: larger is better for us, but for the latencies."""
    calculated: dict[str, float] = {}

    def ratio(name: str, column: str, above: dict[str, Any], below: dict[str, Any]) -> None:
        if column in above and column in below and below[column].median:
            calculated[name] = round(above[column].median / below[column].median, 3)

    for ours in (each for each in rows if each["contestant"].startswith("ours")):
        for other in (each for each in rows if not each["contestant"].startswith("ours")):
            name = f"{ours['contestant']} to {other['contestant']}"
            ratio(name, "tuples_per_s", ours, other)
            ratio(f"{name}, by CPU time", "cpu_us_per_tuple_with_broker", other, ours)
            ratio(f"{name}, p50", "p50_ms", ours, other)
            ratio(f"{name}, p99", "p99_ms", ours, other)
    return calculated


def _cores(text: str) -> list[int]:
    return sorted({int(core) for core in text.split(",")})


def main() -> None:
    parser = harness.parser(__doc__, f"one round of {_QUICK_LINES:,} lines")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), metavar="NAME", help=", ".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--lines", type=int, help="of a round of each contestant, instead of 12 s on two cores")
    parser.add_argument("--cores", type=_cores, default=[0, 1], help="that everything runs on; 0,1 unless given")
    parser.add_argument("--pending", type=int, default=400, help="open trees of a task of a spout; 400 unless given")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of ours")
    given = parser.parse_args()
    whole = all(getattr(given, option) == parser.get_default(option) for option in _DECIDE)
    rounds = given.rounds or (1 if given.quick else 5)
    lines = given.lines or (_QUICK_LINES if given.quick else None)
    contestants = [CONTESTANTS[name] for name in given.only or CONTESTANTS]
    for each in contestants:
        each.versions()  # A missing peer ends the benchmark now.
    kept_in = harness.directory(given, whole=whole)
    harness.await_idle(kept_in)
    host = harness.machine()
    # All processes that it starts inherit it: the broker, and those of each contestant.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, given.cores)
    if os.sched_getaffinity(0) != set(given.cores):
        raise BenchmarkError(f"this machine has not all of the cores {given.cores}: choose others with --cores")
    with (
        tempfile.TemporaryDirectory(prefix="word-count-", ignore_cleanup_errors=True) as directory,
        broker(data_dir=Path(directory)) as topics,
    ):
        logs = Path(directory)
        runs = {}
        for each in contestants:
            count = min(lines or each.lines, each.most or lines or each.lines)
            setting = Setting(topics, "", logs, count, given.pending, given.ack_partitions)
            runs[each.name] = partial(run_round, each, setting, logs)
        warm = 0 if given.quick else harness.warm_rounds(len(runs))
        rows = [row(CONTESTANTS[name], of) for name, of in harness.in_turn(runs, rounds, warm=warm).items()]
    compared = {
        "rounds": rounds,
        "cores": given.cores,
        "max_spout_pending": given.pending,
        "tasks": TASKS,
        "ack_partitions": given.ack_partitions,
    }
    versions = {name: version for each in contestants for name, version in each.versions().items()}
    harness.publish("word_count", host, rows, compared, kept_in, versions=versions, ratios=ratios(rows))


if __name__ == "__main__":
    harness.run(main)
