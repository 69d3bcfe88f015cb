"""The word count of the demo's text: ours beside Storm, pystorm, Quix Streams and Bytewax.

    make bench-setup
    python -m benchmarks.word_count
    python -m benchmarks.word_count --only ours storm --rounds 3
    python -m benchmarks.word_count --only ours --processes split=2 count=2 --ackers 2
    python -m benchmarks.word_count --quick --cores 3 --only ours bytewax
    python -m benchmarks.word_count --requests

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

Storm, pystorm and ours have two tasks of each component and 400 open trees for each task of a spout that has the lines;
a `KafkaSpout` has the 10,000 that are the default, and the demo its own 1,000.

A tuple is a line or a word. The rate, the CPU time and the latency are those of the steady part of a round, from the
first tenth of its lines to the last. Of Storm, whose JVM is new in each round and compiles while it runs, it begins at
the half of a round that is twice as long. Of a `KafkaSpout` it ends when as many lines are left as may be open, so that
as many are under way at its end as at its beginning. The report also has the rate of the whole round:
where a contestant reads its source ahead of its own work, that is the fairer one.

How far a round is, is seen by what the spouts of Storm and of ours say is acked, and by the records in the sink of the
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
from pathlib import Path
from typing import Any, Final

from benchmarks import command
from benchmarks.broker_topics import Topics
from benchmarks.errors import BenchmarkError
from benchmarks.results import machine, publish, report
from benchmarks.word_count import requests
from benchmarks.word_count.contestants import Contestant, Setting, WordTopics
from benchmarks.word_count.kafka_peers import KafkaPeer
from benchmarks.word_count.ours import Demo, Ours
from benchmarks.word_count.rounds import Round, Rounds, row, say
from benchmarks.word_count.storm import Storm
from benchmarks.word_count.topology import COUNT, LINES, SPLIT
from local_kafka import LocalKafka

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
QUICK_LINES: Final = 2_000
_DECIDE: Final = ("only", "lines", "seconds", "pending", "tasks", "processes", "ackers", "ack_partitions", "columns")
"""Options that say what is compared: with another value than its own, a run is not the one that is kept."""


def measure(rounds: Rounds, contestants: Sequence[Contestant], given: argparse.Namespace) -> list[dict[str, Any]]:
    """All rounds, alternating, and each time another contestant first."""
    lines: dict[str, int] = {}
    for each in contestants:
        if given.lines:
            lines[each.name] = given.lines if each.most is None else min(given.lines, each.most)
        else:
            lines[each.name] = rounds.calibrated(each, given.seconds)
            say(f"{each.name}: {lines[each.name]:,} lines a round")
    found: dict[str, list[Round]] = {each.name: [] for each in contestants}
    for number in range(given.rounds):
        first = number % len(contestants)
        for each in (*contestants[first:], *contestants[:first]):
            one = rounds.run(each, lines[each.name])
            found[each.name].append(one)
            say(f"round {number + 1}: {each.name} {figures(one)}")
    return [row(each, found[each.name]) for each in contestants]


def figures(one: Round) -> str:
    """A round in one line."""
    figures = one.figures()
    p50, p99 = one.counted.p50_ms, one.counted.p99_ms
    latency = "" if p50 is None else f", p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    return (
        f"{figures['tuples_per_s']:,.0f} tuples/s, {figures['cpu_us_per_tuple']:.2f} us a tuple, "
        f"{figures['cpu_us_per_tuple_with_broker']:.2f} with the broker, {figures['kafka_bytes_per_tuple']:.1f} bytes"
        f"{latency}"
    )


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Ours against each of the others, medians over medians: larger is better for us, but for the latencies."""
    medians = {row["contestant"]: row for row in rows}
    ours = [name for name in medians if name.startswith("ours")]
    found: dict[str, float] = {}
    for mine in ours:
        for other in medians:
            if other not in ours:
                rate, theirs = (medians[name]["tuples_per_s"].median for name in (mine, other))
                found[f"{mine} to {other}"] = round(rate / theirs, 3)
                taken, their = (medians[name]["cpu_us_per_tuple_with_broker"].median for name in (mine, other))
                found[f"{mine} to {other}, by CPU time"] = round(their / taken, 3) if taken else 0.0
                for quantile in ("p50", "p99"):
                    taken, their = (medians[name].get(f"{quantile}_ms") for name in (mine, other))
                    if taken and their:
                        found[f"{mine} to {other}, {quantile}"] = round(taken.median / their.median, 3)
    return found


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
    parser = command.parser(__doc__, f"one round of {QUICK_LINES:,} lines")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), metavar="NAME", help=", ".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--seconds", type=float, default=12.0, help="that a round is to take; 12 unless given")
    parser.add_argument("--lines", type=int, help="of a round of each contestant, instead of as many as take --seconds")
    parser.add_argument("--cores", type=_cores, default=[0, 1], help="that everything runs on; 0,1 unless given")
    parser.add_argument("--pending", type=int, default=400, help="open trees of a task of a spout; 400 unless given")
    parser.add_argument("--tasks", type=int, default=2, help="of each component; 2 unless given")
    parser.add_argument("--processes", nargs="+", type=_processes, default=[], metavar="COMPONENT=N", help="of ours")
    parser.add_argument("--ackers", type=int, default=1, help="acker workers of ours; 1 unless given")
    parser.add_argument("--ack-partitions", type=int, default=1, help="of ours; the product's default is 8")
    parser.add_argument("--columns", nargs="+", choices=(SPLIT, COUNT), default=[SPLIT, COUNT], help="of ours-*arrow")
    parser.add_argument(
        "--requests", action="store_true", help="measure what the clients of ours send and fetch instead"
    )
    return parser


def main() -> None:
    parser = _parser()
    given = parser.parse_args()
    whole = all(getattr(given, option) == parser.get_default(option) for option in _DECIDE)
    given.rounds = given.rounds or (1 if given.quick else 5)
    given.lines = given.lines or (QUICK_LINES if given.quick else None)
    names = given.only or (["ours"] if given.requests else list(CONTESTANTS))
    contestants = [CONTESTANTS[name] for name in names]
    versions: dict[str, str] = {}
    for each in contestants:
        versions |= each.versions()
    host = machine()
    # What is started inherits it: the broker, and every process of every contestant.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, given.cores)
    if os.sched_getaffinity(0) != set(given.cores):
        raise BenchmarkError(f"this machine has not all of the cores {given.cores}: choose others with --cores")
    settings = {
        "rounds": given.rounds,
        "cores": given.cores,
        "max_spout_pending": given.pending,
        "tasks": given.tasks,
        "processes": dict(given.processes),
        "ackers": given.ackers,
        "ack_partitions": given.ack_partitions,
        "columns": given.columns,
    }
    with (
        tempfile.TemporaryDirectory(prefix="word-count-", ignore_cleanup_errors=True) as logs,
        LocalKafka(jvm="server", heap="1g", data_dir=Path(logs)) as kafka,
    ):
        topics = Topics(kafka.bootstrap_servers)
        words = WordTopics(topics)

        def setting(name: str, directory: Path, lines: int) -> Setting:
            return Setting(
                topics=words,
                name=name,
                directory=directory,
                lines=lines,
                tasks=given.tasks,
                pending=given.pending,
                processes=dict(given.processes),
                ackers=given.ackers,
                ack_partitions=given.ack_partitions,
                columns=given.columns,
            )

        try:
            rounds = Rounds(kafka.pid or 0, Path(logs), setting)
            if given.requests:
                rows = requests.measure(setting, contestants, given, rounds, kafka.pid or 0)
                publish(report("word_count_requests", host, rows, settings), command.directory(given, whole=whole))
                return
            rows = measure(rounds, contestants, given)
            for each in contestants:
                versions |= each.versions()
        finally:
            topics.close()
    found = report("word_count", host, rows, settings, versions, ratios(rows))
    publish(found, command.directory(given, whole=whole))


if __name__ == "__main__":
    command.run(main)
