"""Messages with a key in source topics, and in topics of outcomes, which may be kept for longer."""

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Message

from inspection.message_status.blocks import FIRST_BLOCK, BlockReader
from inspection.message_status.outcome_topics import OutcomeTopic
from inspection.message_status.partitioners import likely_partitions
from inspection.message_status.verdict import SourceMessage
from kafka_clients.log_reader import Place


class KeySearch:
    """Searches for a key; a record is compared by its key alone, but Kafka sends it whole.

    First the ends of all partitions are read, then the partitions to which producers write the key by default, and then
    the others, from the end, until a message is found. With `every`, all of them are read.
    """

    def __init__(self, reader: BlockReader, key: bytes, *, every: bool) -> None:
        self._reader, self._key, self._every = reader, key, every
        self._found: dict[tuple[str, int, int], SourceMessage] = {}

    def messages(self, topics: Mapping[str, int], since_ms: int | None) -> list[SourceMessage]:
        """The messages that were found in topics with these numbers of partitions, the newest first."""

        def take(record: Message) -> None:
            if record.key() == self._key:
                at = record.topic() or "", record.partition() or 0, record.offset() or 0
                self._found[at] = SourceMessage(*at, self._key, record.timestamp()[1])

        likely = [(topic, number) for topic, count in topics.items() for number in likely_partitions(self._key, count)]
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self._read(", ".join(topics), likely, places, since_ms, take)
        return self._newest_first()

    def by_outcomes(self, of: OutcomeTopic, topics: Iterable[str], since_ms: int | None) -> list[SourceMessage]:
        """The messages of topics by their outcomes, for messages that are no longer in the topics."""
        wanted = {*topics}

        def take(record: Message) -> None:
            if record.key() == self._key and (read := of.read(record)) is not None and read.topic in wanted:
                at = read.topic, read.partition, read.offset
                self._found[at] = SourceMessage(*at, self._key)

        near, far = of.places(self._key)
        self._read(of.name, near, near + far, since_ms, take)
        return self._newest_first()

    def _read(
        self,
        what: str,
        likely: Iterable[Place],
        places: Iterable[Place],
        since_ms: int | None,
        take: Callable[[Message], None],
    ) -> None:
        offset_ranges, near = self._reader.offset_ranges(places, since_ms), {*likely}
        ends = {place: offsets[-FIRST_BLOCK:] for place, offsets in offset_ranges.items()}
        rest = {place: offsets[:-FIRST_BLOCK] for place, offsets in offset_ranges.items()}
        first = {place: offsets for place, offsets in rest.items() if place in near}
        others = {place: offsets for place, offsets in rest.items() if place not in near}
        for part in (ends, first, others):
            self._reader.read(what, part, take, self._is_enough)
            if self._is_enough():
                return

    def _is_enough(self) -> bool:
        return bool(self._found) and not self._every

    def _newest_first(self) -> list[SourceMessage]:
        def age(message: SourceMessage) -> tuple[int, int]:
            return message.at_ms or 0, message.offset

        return sorted(self._found.values(), key=age, reverse=True)
