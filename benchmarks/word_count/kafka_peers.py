"""The word counts of Quix Streams and Bytewax: lines from a topic, a record for each word with its count to a topic."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks import running
from benchmarks.errors import BenchmarkError
from benchmarks.setup import python_peers
from benchmarks.word_count.contestants import PARTITIONS, Contestant, Counted, CountingRun, Setting, await_topic, ends
from benchmarks.word_count.text import plain_count

_PATIENCE_SECONDS: Final = 30.0


class KafkaRun(CountingRun):
    """Processes that run; how far they are, is how many records are in their sink.

    Args:
        processes: of one group.
        consumer: for the sink, without a group.
        sink: its topic.
        total: words that are going to be there.
    """

    def __init__(self, processes: Sequence[running.Process], consumer: Consumer, sink: str, total: int) -> None:
        self._processes = processes
        self._consumer = consumer
        self._sink = sink
        self._total = total

    @property
    def total(self) -> int:
        return self._total

    def done(self) -> int:
        return ends(self._consumer, self._sink)

    def pids(self) -> Sequence[int]:
        return [process.pid for process in self._processes]

    def check(self) -> None:
        for process in self._processes:
            process.check()

    def counted(self) -> Counted:
        """The largest count of each word in the sink."""
        with contextlib.closing(self._consumer):
            return Counted(self._counts())

    def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        left = ends(self._consumer, self._sink)
        self._consumer.assign([TopicPartition(self._sink, partition, 0) for partition in range(PARTITIONS)])
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while left > 0:
            for message in self._consumer.consume(10_000, 0.2):
                if message.error() is not None:
                    raise BenchmarkError(f"{self._sink} could not be read: {message.error()}")
                word, count = (message.key() or b"").decode(), int(message.value() or b"0")
                counts[word] = max(counts[word], count)
                left -= 1
                deadline = time.monotonic() + _PATIENCE_SECONDS
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self._sink} could not be read within {_PATIENCE_SECONDS:g} s")
        return counts


class KafkaPeer(Contestant):
    """A framework that reads and writes Kafka topics.

    Args:
        name: of the contestant.
        framework: in whose environment it runs.
        lines: of its first round.
        processes: how many share the work.
    """

    def __init__(self, name: str, framework: str, lines: int, processes: int = 1) -> None:
        super().__init__(name, lines)
        self._framework = framework
        self._processes = processes

    def versions(self) -> dict[str, str]:
        return python_peers.versions(self._framework)

    @contextlib.contextmanager
    def run(self, setting: Setting) -> Iterator[CountingRun]:
        topics, sink = setting.topics, f"{setting.name}.sink"
        source = topics.source(setting.lines)
        topics.topics.create({sink: PARTITIONS})
        consumer = topics.consumer()
        await_topic(consumer, sink)
        with contextlib.ExitStack() as stack:
            processes = []
            for number in range(self._processes):
                own = setting.directory / str(number)
                own.mkdir()
                arguments = [topics.servers, source, sink, setting.name, str(own)]
                program = f"{self._framework}_words"
                processes.append(stack.enter_context(running.peer(program, self._framework, *arguments)))
            yield KafkaRun(processes, consumer, sink, plain_count(setting.lines).total())

    def kind(self, topic: str) -> str:
        """The repartition topic, the changelog, or the sink."""
        return next((kind for kind in ("repartition", "changelog") if topic.startswith(kind)), "sink")
