"""Reads `{topology}.dead-letters`, as far as it is committed."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from inspection.dead_letters.errors import DeadLettersError
from inspection.dead_letters.letter import DeadLetter, Header, Replay, parse
from inspection.dead_letters.letter_previews import LetterPreviews
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.client_settings import for_consumer
from kafka_clients.errors import ClusterError, UnknownTopologyError
from kafka_clients.watermarks import watermarks
from tuple_tree.errors import ManifestError
from tuple_tree.names import CATALOGUE_GROUP, dead_letters_topic

_POLL_S: Final = 0.2
_SILENCE_S: Final = 30.0
"""How long no broker may say anything before reading is given up, in seconds."""

Seen = Callable[[int], None]
"""Called now and then with how many records were read."""


class DeadLetterLog:
    """The dead letters of a topology.

    Args:
        kafka: librdkafka properties.
        topology: its name.
        seen: is told how many records were read.

    Attributes:
        topic: their topic.
        partitions: topic → partitions, of all topics of the cluster.

    Raises:
        UnknownTopologyError: if there are neither dead letters nor a topology of that name.
        DeadLettersError: if a topology of that name has no topic of dead letters.
        BrokerUnreachableError: if no broker answers in time.
    """

    def __init__(self, kafka: KafkaSettings, topology: str, seen: Seen | None = None) -> None:
        self._catalogue = catalogue = Catalogue(kafka)
        self._topology = topology
        self.topic = dead_letters_topic(topology)
        self.partitions: Mapping[str, int] = catalogue.topics()
        self._kafka = kafka
        self._seen = seen or (lambda _count: None)
        if self.topic not in self.partitions:
            known = catalogue.manifests()
            if topology not in known:
                raise UnknownTopologyError(topology, sorted(known))
            raise DeadLettersError(
                f"topic {self.topic} does not exist, or may not be seen: acker doctor {topology} says what to do"
            )

    def entries(
        self, *, since_ms: int | None = None, start: int | None = None, until: int = 0
    ) -> Iterator[DeadLetter | Replay]:
        """Reads dead letters, and what tells of replays, up to the end.

        Args:
            since_ms: where to begin, in milliseconds since the epoch.
            start: the offset to begin at.
            until: the end is not before this offset: an open transaction that lies before it is waited for.

        Raises:
            DeadLettersError: if they may not be read, no broker says anything for half a minute, or the transaction
                does not end.
        """
        consumer = self._consumer()
        try:
            for message in self._records(consumer, self._begin(consumer, since_ms, start), until):
                yield parsed(message)
        finally:
            consumer.close()

    def replays(self) -> dict[int, int]:
        """Offset of a dead letter → when it was last replayed, in milliseconds since the epoch.

        Raises:
            DeadLettersError: as above.
        """
        return {entry.of: entry.timestamp_ms for entry in self.entries() if isinstance(entry, Replay)}

    def fetch(self, offsets: Collection[int]) -> Iterator[DeadLetter]:
        """Reads single letters, in the order of their offsets; those that are gone are left out.

        Raises:
            DeadLettersError: as above.
        """
        wanted = sorted(offsets)
        if not wanted:
            return
        consumer = self._consumer()
        try:
            for message in self._records(consumer, wanted[0], 0):
                offset = message.offset()
                # Records that retention has deleted meanwhile are skipped.
                while wanted and offset is not None and wanted[0] < offset:
                    wanted.pop(0)
                if wanted and offset == wanted[0]:
                    entry = parsed(message)
                    if isinstance(entry, DeadLetter):
                        yield entry
                    wanted.pop(0)
                if not wanted:
                    return
        finally:
            consumer.close()

    def previews(self) -> LetterPreviews:
        """What the letters look like: tuples by field, as the topology's manifest says, or bytes if it cannot be read.

        A topology may be gone, and its letters still there.
        """
        try:
            return LetterPreviews(self._catalogue.manifest(self._topology))
        except (ClusterError, ManifestError):
            return LetterPreviews(None)

    def _consumer(self) -> Consumer:
        settings: dict[str, Any] = {
            "fetch.wait.max.ms": 50,
            "log_level": 0,
            **for_consumer(self._kafka),
            "group.id": CATALOGUE_GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        return Consumer(settings)

    def _begin(self, consumer: Consumer, since_ms: int | None, start: int | None) -> int:
        try:
            low, high = watermarks(consumer, TopicPartition(self.topic, 0), _SILENCE_S)
            if start is not None:
                return max(low, start)
            if since_ms is None:
                return int(low)
            (found,) = consumer.offsets_for_times([TopicPartition(self.topic, 0, since_ms)], timeout=_SILENCE_S)
            if found.error is not None:
                raise KafkaException(found.error)
        except KafkaException as error:
            raise DeadLettersError(
                f"topic {self.topic} cannot be read ({error.args[0].str()}): acker doctor says what is wrong"
            ) from error
        return found.offset if found.offset >= 0 else int(high)

    def _records(self, consumer: Consumer, begin: int, until: int) -> Iterator[Message]:
        consumer.assign([TopicPartition(self.topic, 0, begin)])
        deadline = time.monotonic() + _SILENCE_S
        count = 0
        while True:
            for message in consumer.consume(500, _POLL_S):
                error = message.error()
                if error is None:
                    count += 1
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    if (message.offset() or 0) >= until:
                        return
                    continue
                elif not error.retriable():
                    raise DeadLettersError(
                        f"topic {self.topic} cannot be read ({error.str()}): acker doctor says what is wrong"
                    )
                else:
                    continue
                deadline = time.monotonic() + _SILENCE_S
            self._seen(count)
            if time.monotonic() > deadline:
                raise DeadLettersError(
                    f"topic {self.topic} cannot be read to its end, after {count} records: no broker answers, or a "
                    f"transaction that writes into it has been open for {_SILENCE_S:g} s. Try again later"
                )


def parsed(message: Message) -> DeadLetter | Replay:
    """Reads a record of `{topology}.dead-letters`, as `letter.parse` does."""
    # Its type says that headers may be a mapping, which only those are that are sent.
    pairs: Any = message.headers() or ()
    headers: list[Header] = [(name, _bytes(value)) for name, value in pairs]
    offset = message.offset()
    return parse(
        -1 if offset is None else offset,
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        headers,
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
