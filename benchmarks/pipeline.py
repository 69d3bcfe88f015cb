"""A JSON pipeline of four small steps, from topic to topic: ours compared with Bytewax, Quix Streams and Faust.

    make bench-setup
    python -m benchmarks.pipeline
    python -m benchmarks.pipeline --only ours bytewax --rounds 3
    python -m benchmarks.pipeline --quick --only ours bytewax

Clicks are parsed, filtered, enriched and formatted (`benchmarks.clicks`). Progress is the growth of the sink.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from confluent_kafka import Message

from benchmarks import harness
from benchmarks.clicks import CLICKS, PIPELINE, ClicksPlan, clicks, results
from benchmarks.comparison import PARTITIONS, Contestant, Counted, KafkaPeer, Run, Setting, compare, read_counts
from benchmarks.harness import BenchmarkError
from benchmarks.processes import running_topology
from benchmarks.topics import Topics

_QUICK_CLICKS: Final = 20_000


class Clicks(Contestant):
    """A program that processes clicks; its figures are for a click that is read."""

    def expected(self, count: int) -> Counter[bytes]:
        return results(count)

    def units(self, count: int) -> int:
        return count

    def filled(self, setting: Setting) -> str:
        return setting.source("clicks", clicks)

    def read(self, topics: Topics, sink: str) -> Counter[bytes]:
        """The results; replays may have added duplicates."""

        def add(counts: Counter[bytes], message: Message) -> None:
            counts[(message.value() or b"").replace(b", ", b",")] += 1  # some frameworks write JSON without spaces

        return read_counts(topics, sink, add)


class Ours(Clicks):
    """Our topology: the settings of its `ClicksPlan`, and the number of processes of its spout."""

    def __init__(self, name: str, count: int, *, processes: int = 1, **settings: Any) -> None:
        super().__init__(name, count)
        self._processes = processes
        self._settings = settings

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[Run]:
        topics, sink = setting.topics, setting.sink()
        plan = ClicksPlan(setting.name, self.filled(setting), sink, setting.ack_partitions, **self._settings)
        with running_topology(topics, PIPELINE, plan.environment, {CLICKS: self._processes}) as running:

            def check() -> None:
                running.check()
                if failures := running.failures():
                    raise BenchmarkError(f"trees failed, so this measures nothing: {failures}")

            pids = [pid for pids in running.pids().values() for pid in dict.fromkeys(pids)]
            total, done = self.expected(setting.count).total(), partial(topics.end, sink, PARTITIONS)
            yield Run(total, pids, done, check, lambda: Counted(self.read(topics, sink)))


class Peer(Clicks, KafkaPeer):
    work = "--clicks"


CONTESTANTS: Final = (
    Ours("ours", 1_000_000),
    Ours("ours-2", 1_000_000, processes=2),
    Ours("ours-columns", 3_000_000, columns=True),
    Ours("ours-at-most-once", 1_000_000, guarantee="at_most_once"),
    Ours("ours-exactly-once", 1_000_000, guarantee="exactly_once"),
    Ours("ours-unchained", 400_000, steps="unchained"),
    Ours("ours-unchained-columns", 1_000_000, steps="unchained", columns=True),
    Ours("ours-unchained-at-most-once", 600_000, steps="unchained", guarantee="at_most_once"),
    Ours("ours-unchained-exactly-once", 400_000, steps="unchained", guarantee="exactly_once"),
    Ours("ours-merged", 500_000, steps="merged"),
    Peer("plain", "plain", 1_500_000),
    Peer("bytewax", "bytewax", 1_000_000),
    Peer("quixstreams", "quixstreams", 500_000),
    Peer("quixstreams-2", "quixstreams", 500_000, processes=2),
    Peer("faust", "faust-streaming", 100_000),
)


if __name__ == "__main__":
    harness.run(lambda: compare("pipeline", __doc__, CONTESTANTS, "clicks", _QUICK_CLICKS, exact=False))
