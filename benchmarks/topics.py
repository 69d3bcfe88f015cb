"""The broker of a benchmark, and its topics: filled before a run, and read after it.

Contestants are compared by what has arrived in a topic, records or tuples in them. No program measures itself.
"""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewTopic

from benchmarks.harness import BenchmarkError, wait
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import LogReader
from local_kafka import LocalKafka
from tuple_tree.manifest import Manifest

PAYLOAD_BYTES: Final = 100
_ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyz "


def payloads(count: int = 1_000, seed: int = 1) -> list[bytes]:
    """Different payloads of 100 bytes, all lower case."""
    drawn = random.Random(seed)
    return [bytes(drawn.choices(_ALPHABET, k=PAYLOAD_BYTES)) for _ in range(count)]


class Record(NamedTuple):
    """A record that a topic is filled with; `at_ms` is its timestamp, 0 for the current time."""

    value: bytes
    partition: int
    headers: list[Any] | None = None
    key: bytes | None = None
    at_ms: int = 0


class Topics:
    """The topics of one broker, whose process is `pid`."""

    def __init__(self, servers: str, pid: int = 0) -> None:
        self.servers = servers
        self.kafka = {"bootstrap.servers": servers}
        self.pid = pid
        self._catalogue = Catalogue(self.kafka)
        self.admin = self._catalogue.admin
        # A record has arrived when it is appended, whether its transaction has ended or not.
        self._reader = LogReader(self.kafka, isolation="read_uncommitted")

    def create(self, topics: Mapping[str, int]) -> None:
        """Makes topics (name → partitions) that are not there yet."""
        existing = self._catalogue.topics()
        wanted = {name: NewTopic(name, count, 1) for name, count in topics.items() if name not in existing}
        for future in self.admin.create_topics([*wanted.values()]).values() if wanted else ():
            future.result(30)
        wait(lambda: wanted.keys() <= self._catalogue.topics().keys(), "the broker does not describe its new topics")

    def create_for(self, manifest: Manifest) -> None:
        """Makes the topics of a topology, and publishes its manifest."""
        self._catalogue.create_topics(manifest, 1)
        self._catalogue.publish(manifest)

    def delete(self, of: str) -> None:
        """Deletes all topics that have a word in their name."""
        names = [name for name in self._catalogue.topics() if of in name]
        for future in self.admin.delete_topics(names).values() if names else ():
            future.result(30)

    def write(self, topic: str, records: Iterable[Record], settings: Mapping[str, Any] | None = None) -> None:
        """Writes records: value, partition, headers; without settings of a producer compressed, in large batches."""

        def undelivered(error: KafkaError | None, _message: Message) -> None:
            raise BenchmarkError(f"{topic} could not be filled: {error}")

        producer = Producer(
            {
                **self.kafka,
                "enable.idempotence": True,
                "on_delivery": undelivered,
                "delivery.report.only.error": True,
                **(settings or {"linger.ms": 20, "compression.type": "lz4", "queue.buffering.max.messages": 500_000}),
            }
        )
        for value, partition, headers, key, at_ms in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition, headers=headers, timestamp=at_ms)
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(120):
            raise BenchmarkError(f"{topic} could not be filled: the broker does not answer")

    def end(self, topic: str, partitions: int = 1) -> int:
        """The sum of the end offsets of the first `partitions` partitions."""
        return sum(offsets.stop for offsets in self._ranges(topic, partitions).values())

    def read(self, topic: str, take: Callable[[Message], None], partitions: int = 1, first: int = 0) -> None:
        """Calls `take` with the records of the first `partitions` partitions, from the offset `first`."""
        ranges = self._ranges(topic, partitions)
        self._reader.read(topic, {place: range(first, offsets.stop) for place, offsets in ranges.items()}, take)

    def _ranges(self, topic: str, partitions: int) -> Mapping[tuple[str, int], range]:
        return self._reader.offset_ranges([(topic, partition) for partition in range(partitions)])

    def close(self) -> None:
        self._reader.close()


@contextlib.contextmanager
def broker(properties: Mapping[str, str] | None = None, data_dir: Path | None = None) -> Iterator[Topics]:
    """Runs an embedded broker, with the JVM of a server and 1 GiB of heap, and yields its topics."""
    with LocalKafka(properties=properties or {}, data_dir=data_dir, jvm="server", heap="1g") as kafka:
        topics = Topics(kafka.bootstrap_servers, kafka.pid or 0)
        try:
            yield topics
        finally:
            topics.close()
