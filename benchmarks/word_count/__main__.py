"""The word count of the demo's text: ours beside Storm, pystorm, Quix Streams and Bytewax.

    make bench-setup
    python -m benchmarks.word_count
    python -m benchmarks.word_count --only ours storm --rounds 3
    python -m benchmarks.word_count --only ours --processes split=2 count=2 --ackers 2
    python -m benchmarks.word_count --quick --cores 3 --only ours bytewax

docs/performance.md describes the contestants, and what is measured of them.
"""

import argparse
import contextlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import BenchmarkError
from benchmarks.topics import broker
from benchmarks.word_count.contestants import Contestant, Demo, KafkaPeer, Ours, Setting, Storm
from benchmarks.word_count.rounds import calibrated, row, run_round
from benchmarks.word_count.topology import COUNT, LINES, SPLIT, TASKS
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS

CONTESTANTS: Final[dict[str, Contestant]] = {
    each.name: each
    for each in (
        Storm("storm", 60_000),
        Storm("pystorm", 10_000, "pystorm"),
        KafkaPeer("quixstreams", "quixstreams", 5_000),
        KafkaPeer("quixstreams-2", "quixstreams", 5_000, processes=2),
        KafkaPeer("bytewax", "bytewax", 20_000),
        Ours("ours", 20_000),
        Ours("ours-arrow", 20_000, columns=True),
        Ours("ours-kafka", 60_000, topic=True),
        Ours("ours-kafka-arrow", 60_000, topic=True, columns=True),
        Demo("ours-demo", 8_000),
    )
}
_QUICK_LINES: Final = 2_000
_DECIDE: Final = ("only", "lines", "seconds", "pending", "processes", "ackers", "ack_partitions")
"""Options that say what is compared: with another value than its own, a run is not the one that is kept."""


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


def _processes(text: str) -> tuple[str, int]:
    component, _, count = text.partition("=")
    if component not in (LINES, SPLIT, COUNT) or not count.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not {LINES}=N, {SPLIT}=N or {COUNT}=N")
    return component, int(count)


def _cores(text: str) -> list[int]:
    try:
        return sorted({int(core) for core in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of cores like 0,1") from None


def _parser() -> argparse.ArgumentParser:
    parser = harness.parser(__doc__, f"one round of {_QUICK_LINES:,} lines")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), metavar="NAME", help=", ".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--seconds", type=float, default=12.0, help="that a round is to take; 12 unless given")
    parser.add_argument("--lines", type=int, help="of a round of each contestant, instead of as many as take --seconds")
    parser.add_argument("--cores", type=_cores, default=[0, 1], help="that everything runs on; 0,1 unless given")
    parser.add_argument("--pending", type=int, default=400, help="open trees of a task of a spout; 400 unless given")
    parser.add_argument("--processes", nargs="+", type=_processes, default=[], metavar="COMPONENT=N", help="of ours")
    parser.add_argument("--ackers", type=int, default=1, help="acker workers of ours; 1 unless given")
    parser.add_argument("--ack-partitions", type=int, default=DEFAULT_ACK_PARTITIONS, help="of ours")
    return parser


def main() -> None:
    parser = _parser()
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
    # What is started inherits it: the broker, and every process of every contestant.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, given.cores)
    if os.sched_getaffinity(0) != set(given.cores):
        raise BenchmarkError(f"this machine has not all of the cores {given.cores}: choose others with --cores")
    processes = dict(given.processes)
    with (
        tempfile.TemporaryDirectory(prefix="word-count-", ignore_cleanup_errors=True) as directory,
        broker(data_dir=Path(directory)) as topics,
    ):
        logs = Path(directory)
        setting = Setting(topics, "", logs, 0, given.pending, processes, given.ackers, given.ack_partitions)
        settings = {}
        for each in contestants:
            count = lines or calibrated(each, setting, logs, given.seconds)
            settings[each.name] = replace(setting, lines=min(count, each.most or count))
            harness.say(f"{each.name}: {settings[each.name].lines:,} lines a round")
        runs = {each.name: partial(run_round, each, settings[each.name], logs) for each in contestants}
        rows = [row(CONTESTANTS[name], of) for name, of in harness.in_turn(runs, rounds).items()]
    compared = {
        "rounds": rounds,
        "cores": given.cores,
        "max_spout_pending": given.pending,
        "tasks": TASKS,
        "processes": processes,
        "ackers": given.ackers,
        "ack_partitions": given.ack_partitions,
    }
    versions = {name: version for each in contestants for name, version in each.versions().items()}
    harness.publish("word_count", host, rows, compared, kept_in, versions=versions, ratios=ratios(rows))


if __name__ == "__main__":
    harness.run(main)
