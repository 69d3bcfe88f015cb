"""The word count of the demo's text: ours beside Storm, pystorm, Quix Streams and Bytewax.

    make bench-setup
    python -m benchmarks.word_count
    python -m benchmarks.word_count --only ours storm --rounds 3
    python -m benchmarks.word_count --only ours --processes split=2 count=2 --ackers 2
    python -m benchmarks.word_count --quick --cores 3 --only ours bytewax

Every contestant splits lines and counts their words, and each round ends with a comparison: its counts have to be those
of a plain count of the same lines, or the benchmark ends with an error. Lines are those of the text as their words with
a blank between them, from the beginning again after the end. Contestants take turns on one machine and one embedded
broker, all processes and the broker on the same cores.

- `storm`: Storm in a local cluster, one worker, bolts in Java, two ackers, counts in memory. Its tuples pass through
  memory and its spout has the lines.
- `pystorm`: the same with both bolts in Python, by Storm's multilang protocol.
- `quixstreams`, `quixstreams-2`: one and two processes; lines from a topic, words through a repartition topic, counts
  in RocksDB with a changelog topic, a record for each word to a sink.
- `bytewax`: one process; lines from a topic, counts in memory and, every second, in the recovery store, a record for
  each word to a sink. Words do not pass through Kafka.
- `ours`: a topology of the SDK, counts in memory, a process for each component and one acker worker; the spout has the
  lines.
- `ours-arrow`: the same, with bolts that take record batches.
- `ours-kafka`, `ours-kafka-arrow`: the same two with the lines from a topic, by a `KafkaSpout`.
- `ours-demo`: the topology of `acker demo`, whose counts and acked lines are in SQLite.

Storm, pystorm and ours have two tasks of each component and 400 open trees for each task of a spout that has the lines,
since Storm has no default; a `KafkaSpout` has the 10,000 that are the default of ours, and the demo its own number.
Ours has the default of 8 ack partitions. The comparison that is published is measured on an idle machine.

A tuple is a line or a word. The rate, the CPU time and the latency are those of the steady part of a round, from the
first tenth of its lines to the last. Of Storm, whose JVM is new in each round and compiles while it runs, it begins at
the half of a round that is twice as long. Of a `KafkaSpout` it ends when as many lines are left as may be open, so that
as many are under way at its end as at its beginning. The report also has the rate of the whole round:
where a contestant reads its source ahead of its own work, that is the fairer one.

The progress of a round is what the spouts of Storm and of ours have acked, and the records in the sink of the
others. CPU time is that of all processes of the contestant, from `/proc`, and that of the broker where it is used.
Complete latency, from emit to ack, is exact for Storm, and for ours within 6 %, as its histogram has buckets. Bytes are
those of the logs of all topics that a contestant writes to, its sink included, compressed as they are. How many lines a
round of a contestant has follows from a short round before, unless `--lines` is given.
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
from benchmarks.word_count.contestants import TASKS, Contestant, Demo, Ours, Setting
from benchmarks.word_count.peers import KafkaPeer, Storm
from benchmarks.word_count.rounds import calibrated, row, run_round
from benchmarks.word_count.topology import COUNT, LINES, SPLIT
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
    medians = {row["contestant"]: row for row in rows}
    calculated: dict[str, float] = {}
    for ours in (name for name in medians if name.startswith("ours")):
        for other in (name for name in medians if not name.startswith("ours")):

            def ratio(name: str, column: str, above: str, below: str) -> None:
                if column in medians[above] and column in medians[below] and medians[below][column].median:
                    quotient = medians[above][column].median / medians[below][column].median
                    calculated[name] = round(quotient, 3)

            ratio(f"{ours} to {other}", "tuples_per_s", ours, other)
            ratio(f"{ours} to {other}, by CPU time", "cpu_us_per_tuple_with_broker", other, ours)
            for quantile in ("p50", "p99"):
                ratio(f"{ours} to {other}, {quantile}", f"{quantile}_ms", ours, other)
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
    versions: dict[str, str] = {}
    for each in contestants:
        versions |= each.versions()
    kept_in = harness.directory(given, whole=whole)
    harness.await_idle(kept_in)
    host = harness.machine()
    # What is started inherits it: the broker, and every process of every contestant.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, given.cores)
    if os.sched_getaffinity(0) != set(given.cores):
        raise BenchmarkError(f"this machine has not all of the cores {given.cores}: choose others with --cores")
    with (
        tempfile.TemporaryDirectory(prefix="word-count-", ignore_cleanup_errors=True) as directory,
        broker(data_dir=Path(directory)) as topics,
    ):
        logs = Path(directory)
        setting = Setting(topics, "", logs, 0, given.pending, dict(given.processes), given.ackers, given.ack_partitions)
        settings = {}
        for each in contestants:
            count = lines or calibrated(each, setting, logs, given.seconds)
            settings[each.name] = replace(setting, lines=count if each.most is None else min(count, each.most))
            harness.say(f"{each.name}: {settings[each.name].lines:,} lines a round")
        measured = harness.in_turn(
            {each.name: partial(run_round, each, settings[each.name], logs) for each in contestants}, rounds
        )
        rows = [row(each, measured[each.name]) for each in contestants]
        for each in contestants:
            versions |= each.versions()
    compared = {
        "rounds": rounds,
        "cores": given.cores,
        "max_spout_pending": given.pending,
        "tasks": TASKS,
        "processes": dict(given.processes),
        "ackers": given.ackers,
        "ack_partitions": given.ack_partitions,
    }
    harness.publish("word_count", host, rows, compared, kept_in, versions=versions, ratios=ratios(rows))


if __name__ == "__main__":
    harness.run(main)
