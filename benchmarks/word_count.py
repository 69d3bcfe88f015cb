"""The word count of the demo's text: ours compared with Storm, pystorm, Quix Streams and Bytewax.

make bench-setup
python -m benchmarks.word_count
python -m benchmarks.word_count --only ours storm --rounds 3
python -m benchmarks.word_count --quick --cores 3 --only ours bytewax
"""

import contextlib
import itertools
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from confluent_kafka import Message

from benchmarks import harness
from benchmarks.comparison import Contestant, Counted, KafkaPeer, Run, Setting, compare, read_counts
from benchmarks.harness import BenchmarkError
from benchmarks.processes import running_program, running_topology
from benchmarks.setup import FRAMEWORKS, PEERS, require_storm, storm_program
from benchmarks.setup import WORD_COUNT as STORM_WORD_COUNT
from benchmarks.topics import Topics
from benchmarks.topologies import LINES, TASKS, WORD_COUNT, Plan, counts_of_tasks, lines, plain_count
from spout_sdk.statistics import LatencyHistogram

KAFKA_PENDING: Final = 10_000  # open trees of a task of a `KafkaSpout`: the default of a topology
_STORM_STOP_SECONDS: Final = 60.0
_PENDING: Final = 400  # open trees of a task of a spout that has the lines
_QUICK_LINES: Final = 2_000


class Words(Contestant):
    """A program that counts words; its figures are for a line or a word."""

    def expected(self, count: int) -> Counter[str]:
        return plain_count(count)

    def units(self, count: int) -> int:
        return count + self.expected(count).total()


def source(setting: Setting) -> str:
    """The topic with the lines, a record each."""

    def records(count: int) -> Iterable[bytes]:
        return (line.encode() for line in itertools.islice(itertools.cycle(lines()), count))

    return setting.source("lines", records)


def sink_counts(topics: Topics, sink: str) -> Counter[str]:
    """The counts in a topic, where a word has a record for each time that it came: the largest count is the last."""

    def add(counts: Counter[str], message: Message) -> None:
        word, count = (message.key() or b"").decode(), json.loads(message.value() or b"0")
        # Steps write word and count.
        counts[word] = max(counts[word], count if isinstance(count, int) else count[1])

    return read_counts(topics, sink, add)


class Ours(Words):
    """The word count of `benchmarks.topologies`: `topic` for a `KafkaSpout`, `columns` for record batches.

    With `steps` its bolts are functions. With `state` its results are records of a topic, as those of the peers.
    """

    def __init__(self, name: str, count: int, *features: str) -> None:
        super().__init__(name, count)
        self._features = features
        self.window = KAFKA_PENDING * TASKS if "topic" in features else 0

    def run(self, setting: Setting) -> AbstractContextManager[Run]:
        from_topic, sink = "topic" in self._features, setting.sink() if "state" in self._features else ""
        plan = Plan(
            setting.name,
            max_spout_pending=KAFKA_PENDING if from_topic else setting.pending,
            ack_partitions=setting.ack_partitions,
            topic=source(setting) if from_topic else "",
            columns="columns" in self._features,
            steps="steps" in self._features,
            directory=str(setting.directory),
            sink=sink,
            lines=setting.count,
        )
        counts = partial(sink_counts, setting.topics, sink) if sink else partial(counts_of_tasks, setting.directory)
        return _our_run(setting, WORD_COUNT, plan.environment, self.part(setting.count), counts)


@contextlib.contextmanager
def _our_run(
    setting: Setting,
    reference: str,
    variables: Mapping[str, str],
    part: tuple[float, float],
    counts: Callable[[], Counter[str]],
) -> Iterator[Run]:
    """Progress and latencies are those of the stats, twice a second."""
    reports = [(0, LatencyHistogram())]
    with running_topology(setting.topics, reference, variables) as running:

        def done() -> int:
            stats = running.runner.stats()[LINES]
            if stats.acked > reports[-1][0]:
                reports.append((stats.acked, stats.complete_latency))
            return stats.acked

        def counted() -> Counted:
            first, last = (share * setting.count for share in part)
            within = [latency for acked, latency in reports if first <= acked <= last]
            # Of the acks that were reported in the steady part; of all, where that is between two reports.
            latency = within[-1].since(within[0]) if len(within) > 1 else reports[-1][1]
            latencies = {f"p{percent}_ms": latency.quantile(percent / 100) * 1e3 for percent in (50, 99)}
            return Counted(counts(), latencies)

        # The lines begin once all processes are ready.
        (setting.directory / "go").touch()
        pids = [pid for pids in running.pids().values() for pid in pids]
        yield Run(setting.count, pids, done, running.check, counted)


class Peer(Words, KafkaPeer):
    work = "--words"

    def filled(self, setting: Setting) -> str:
        return source(setting)

    def read(self, topics: Topics, sink: str) -> Counter[str]:
        return sink_counts(topics, sink)


class Storm(Words):
    """Storm in a local cluster of one worker; bolts by the multilang protocol in a framework's environment, or Java."""

    first = 0.5  # each round is a new JVM, which compiles while it runs
    on_kafka = False

    def __init__(self, name: str, count: int, framework: str | None = None) -> None:
        super().__init__(name, count)
        self._framework = framework
        self._versions: dict[str, str] = {}

    def versions(self) -> dict[str, str]:
        """Of pystorm, and after a round of Storm and Java."""
        require_storm()
        return self._versions | ({} if self._framework is None else FRAMEWORKS[self._framework].versions())

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        directory = setting.directory
        file = directory / "text"
        file.write_text("\n".join(lines()) + "\n")
        arguments = [file, setting.count, TASKS, setting.pending, directory, self.first]
        if self._framework is not None:
            arguments.append(FRAMEWORKS[self._framework].python())
            arguments += [PEERS / f"{self._framework}_{bolt}.py" for bolt in ("split", "count")]
        # Its ZooKeeper and its supervisor keep files; they go with those of the round.
        options = [f"-Djava.io.tmpdir={directory}"]
        command = storm_program(STORM_WORD_COUNT, 1024, *map(str, arguments), options=options)
        progress: dict[str, Any] = {"acked": 0, "failed": 0}

        def done() -> int:
            # Ten times a second it prints its progress, at its end its latencies and versions.
            for line in program.output.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    progress.update(json.loads(line))
            return int(progress["acked"])

        def check() -> None:
            if done() < setting.count:
                program.check()
            if progress["failed"]:
                raise BenchmarkError(f"{progress['failed']:,} trees of Storm failed, so this measures nothing")

        def counted() -> Counted:
            if "p50_ms" not in progress:
                raise BenchmarkError(f"Storm did not print its latencies within {_STORM_STOP_SECONDS:g} s")
            latencies = {name: progress[name] for name in ("p50_ms", "p99_ms")}
            return Counted(counts_of_tasks(directory), latencies)

        with running_program("Storm", command, directory=directory) as program:
            yield Run(setting.count, [program.process.pid], done, check, counted)
            # It ends once its counts are written.
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.process.wait(_STORM_STOP_SECONDS)
            done()
        self._versions = dict(progress.get("versions", {}))


CONTESTANTS: Final = (
    Storm("storm", 700_000),
    Storm("pystorm", 40_000, "pystorm"),
    Peer("quixstreams", "quixstreams", 50_000),
    Peer("quixstreams-2", "quixstreams", 50_000, processes=2),
    Peer("bytewax", "bytewax", 300_000),
    Ours("ours", 150_000),
    Ours("ours-arrow", 150_000, "columns"),
    Ours("ours-kafka", 300_000, "topic"),
    Ours("ours-kafka-arrow", 900_000, "topic", "columns"),
    Ours("ours-state", 80_000, "topic", "state"),
    Ours("ours-steps", 80_000, "topic", "state", "steps"),
)


if __name__ == "__main__":
    harness.run(
        lambda: compare("word_count", __doc__, CONTESTANTS, "lines", _QUICK_LINES, exact=True, pending=_PENDING)
    )
