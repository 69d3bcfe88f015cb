"""The contestants: each starts its processes on the same broker, and returns its counts once they have ended."""

import itertools
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.broker_topics import Topics
from benchmarks.errors import BenchmarkError
from benchmarks.word_count.text import lines, plain_count
from benchmarks.word_count.watching import FIRST, LAST, Run
from kafka_clients.watermarks import watermarks

PARTITIONS: Final = 2
"""Of each topic of the peers, and of the source."""

# That connections end with the broker is no news.
_QUIET: Final[dict[str, Any]] = {"log_level": 2}
_KNOWN_SECONDS: Final = 30.0


class WordTopics:
    """The topics of a run: a source for each number of lines, filled once.

    Args:
        topics: of the broker.
    """

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.servers = topics.servers
        self._admin = AdminClient({"bootstrap.servers": self.servers, **_QUIET})
        self._filled: dict[int, str] = {}

    def source(self, count: int) -> str:
        """A topic with so many lines, a record each, spread over its partitions."""
        if count not in self._filled:
            name = f"lines.{count}"
            self.topics.create({name: PARTITIONS})
            producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20, "compression.type": "lz4"})
            for number, line in enumerate(itertools.islice(itertools.cycle(lines()), count)):
                while True:
                    try:
                        producer.produce(name, line.encode(), partition=number % PARTITIONS)
                        break
                    except BufferError:
                        producer.poll(0.05)
            if producer.flush(120):
                raise BenchmarkError(f"{name} could not be filled: the broker does not answer")
            self._filled[count] = name
        return self._filled[count]

    def delete(self, of: str) -> None:
        """Deletes all topics with a word in their name."""
        found = [name for name in self._admin.list_topics(timeout=30).topics if of in name]
        if found:
            for future in self._admin.delete_topics(found).values():
                future.result(30)

    def consumer(self) -> Consumer:
        """A consumer without a group; the caller closes it."""
        return Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "word-count",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 50,
                **_QUIET,
            }
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """What a round is to be like.

    Attributes:
        topics: of the broker.
        name: of the round, which is in the names of all of its topics.
        directory: for its files.
        lines: how many are counted.
        tasks: of each component.
        pending: open trees of a task of a spout, where that is not the contestant's own.
        processes: component of ours → how many.
        ackers: acker workers of ours.
        ack_partitions: of ours.
        columns: bolts of ours that take record batches, of the contestants that are about that.
    """

    topics: WordTopics
    name: str
    directory: Path
    lines: int
    tasks: int
    pending: int
    processes: Mapping[str, int]
    ackers: int
    ack_partitions: int
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of a round.

    Attributes:
        counts: how often which word.
        failed: trees that failed and came again.
        p50_ms, p99_ms: complete latency in the steady part; None where there is none.
    """

    counts: Counter[str]
    failed: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None


class CountingRun(Run):
    """A contestant that runs, and what it counted."""

    @abstractmethod
    def counted(self) -> Counted:
        """What it counted; its processes have ended."""


class Contestant(ABC):
    """Somebody who counts words.

    Attributes:
        name: as in `--only`.
        lines: of the first, short round, from which it is worked out how many a round takes.
        most: lines that there are; None for as many as one wants.
        first: share of a round with which its steady part begins.
        on_kafka: whether it uses the broker, whose CPU time is a part of its own then.
    """

    on_kafka = True

    def __init__(self, name: str, lines: int, most: int | None = None, first: float = FIRST) -> None:
        self.name = name
        self.lines = lines
        self.most = most
        self.first = first

    def versions(self) -> dict[str, str]:
        """Of what is not ours. Raises `NotSetUpError` if it is not there."""
        return {}

    @abstractmethod
    def run(self, setting: Setting) -> AbstractContextManager[CountingRun]:
        """Starts it, and stops it at the end."""

    def window(self, setting: Setting) -> int:
        """Lines that may be under way at a time, if that is a large part of a round."""
        return 0

    def part(self, setting: Setting) -> tuple[float, float]:
        """Shares of a round between which it is steady; of one that is too short, the usual ones."""
        last = 1 - self.window(setting) / setting.lines
        return self.first, min(LAST, last) if last > 2 * self.first else LAST

    def expected(self, count: int) -> Counter[str]:
        """The plain count of so many lines."""
        return plain_count(count)

    def kind(self, topic: str) -> str:
        """What a topic of its is for."""
        return "sink"


def fresh_name(contestant: str) -> str:
    """A name that no round had before."""
    return f"words-{contestant}-{uuid.uuid4().hex[:8]}"


def ends(consumer: Consumer, topic: str) -> int:
    """The sum of the high watermarks of the partitions of a topic."""
    return sum(watermarks(consumer, TopicPartition(topic, partition), 30)[1] for partition in range(PARTITIONS))


def await_topic(consumer: Consumer, topic: str) -> None:
    """Waits until the broker describes a topic that was just created."""
    deadline = time.monotonic() + _KNOWN_SECONDS
    while True:
        try:
            ends(consumer, topic)
            return
        except KafkaException as error:
            unknown = error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
            if not unknown or time.monotonic() > deadline:
                raise BenchmarkError(f"the broker does not describe {topic}: {error.args[0].str()}") from error
        time.sleep(0.1)
