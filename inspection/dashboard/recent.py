"""The trees that failed last, with their messages, and the latest dead letters.

Only the ends of their topics are read, and no record twice.
"""

import time
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from inspection.dead_letters import DeadLetter, LetterPreviews, Replay, parse
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import BrokerError
from kafka_clients.log_reader import LogReader, Place, place_of
from kafka_clients.repeated_lines import get_logger
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason, decode_notice_batch, failed_by_of
from tuple_tree.names import dead_letters_topic, notices_topic
from tuple_tree.positions import MAX_PARTITIONS, position_of, topic_key

logger = get_logger(__name__)

JsonObject = Mapping[str, Any]  # A JSON object

KEPT: Final = 100  # failures of each reason, and dead letters, that are shown at most
NOTICE_RECORDS: Final = 1_000
"""How many records are read back of a partition with notices; most of them are of acked trees."""
LETTER_RECORDS: Final = 1_000
"""How many records are read back of the dead letters; some are notes of replays."""
_PREVIEW: Final = 200
_KNOWN_SECONDS: Final = 60.0  # how long the id of a topic is kept


class Tail:
    """The last `records` of each partition, then what is appended."""

    def __init__(self, kafka: KafkaSettings, places: Iterable[Place], records: int) -> None:
        self._kafka = kafka
        self._places = [*places]
        self._records = records
        self._next: dict[Place, int] = {}

    def read(self) -> list[Message]:
        """The records since the last call, those of a partition in order."""
        found: list[Message] = []
        with LogReader(self._kafka) as reader:
            kept = reader.offset_ranges(self._places)
            unread = {place: range(self._start(place, kept[place]), kept[place].stop) for place in kept}
            reader.read("the latest records", unread, found.append)
        self._next |= {place_of(message): (message.offset() or 0) + 1 for message in found}
        return found

    def _start(self, place: Place, kept: range) -> int:
        begin = max(kept.start, kept.stop - self._records)
        known = self._next.get(place, begin)
        # A position beyond the end is of a topic of this name that was deleted.
        return max(known, begin) if known <= kept.stop else begin


class RecentFailures:
    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._topology = manifest.topology
        self._spouts = {notices_topic(manifest.topology, spout.name): spout for spout in manifest.spouts}
        # By reason, so that many time-outs do not hide the rest; by time, because partitions are read one after the
        # other, so what comes last is not the latest.
        self._found: defaultdict[int, list[tuple[int, int, JsonObject]]] = defaultdict(list)
        self._taken = 0
        tasks = [(topic, task) for topic, spout in self._spouts.items() for task in range(spout.tasks)]
        self._tail = Tail(kafka, tasks if manifest.acking else (), NOTICE_RECORDS)

    def read(self) -> list[JsonObject]:
        for message in self._tail.read():
            self._take(message)
        return [failure for *_, failure in sorted(chain(*self._found.values()), reverse=True)]

    def _take(self, message: Message) -> None:
        try:
            batch = decode_notice_batch(message.value())
        except WireError as error:
            logger.warning("%s/%s/%s: %s", message.topic(), message.partition(), message.offset(), error)
            return
        kind, at = message.timestamp()
        by = failed_by_of(dict(message.headers() or ()), len(batch.failed_roots))
        for root, number, text, bolt in zip(
            batch.failed_roots, batch.fail_reasons, batch.fail_messages, by, strict=True
        ):
            name = f"{int(root):016x}"
            failure: JsonObject = {
                "root": name,
                "spout": self._spouts[str(message.topic())].name,
                "task": message.partition(),
                "reason": FailReason(int(number)).word,
                "by": bolt or None,
                "message": text,
                "at": None if kind == TIMESTAMP_NOT_AVAILABLE else at,
                "trace": f"acker trace {name} --topology {self._topology}",
            }
            self._taken += 1
            insort(self._found[int(number)], (at, self._taken, failure))
            del self._found[int(number)][:-KEPT]


class RecentDeadLetters:
    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._previews = LetterPreviews(manifest)
        self._found: deque[DeadLetter] = deque(maxlen=KEPT)
        self._replayed: dict[int, int] = {}
        self._tail = Tail(kafka, [(dead_letters_topic(manifest.topology), 0)], LETTER_RECORDS)

    def read(self) -> list[JsonObject]:
        for entry in map(parse, self._tail.read()):
            if isinstance(entry, Replay):
                self._replayed[entry.of] = entry.timestamp_ms
            else:
                self._found.append(entry)
        if self._found:
            # A note comes after its letter, so no note of a shown letter is missed.
            oldest = min(letter.offset for letter in self._found)
            self._replayed = {of: at for of, at in self._replayed.items() if of >= oldest}
        return [self._shown(letter) for letter in reversed(self._found)]

    def _shown(self, letter: DeadLetter) -> JsonObject:
        return {
            "offset": letter.offset,
            "at": letter.timestamp_ms if letter.timestamp_ms > 0 else None,
            "topic": letter.topic or None,
            "of_partition": letter.partition if letter.partition >= 0 else None,
            "of_offset": letter.position if letter.position >= 0 else None,
            "reason": letter.reason,
            "detail": letter.detail or None,
            "by": letter.by or None,
            "value": None if letter.value is None else self._previews.of(letter, _PREVIEW),
            "replayed": self._replayed.get(letter.offset),
        }


class SourceMessages:
    """The messages of a `KafkaSpout` that the roots of trees stand for: a root contains its message's position."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._catalogue = Catalogue(kafka)
        self._ack_partitions = manifest.ack_partitions
        self._spouts = [spout.name for spout in manifest.spouts]
        # Topic → when it was requested, its id if it is known, and its number of partitions.
        self._topics: dict[str, tuple[float, str | None, int]] = {}

    def of(self, spout: str, root: int, topics: Sequence[str]) -> str | None:
        """As `TOPIC[PARTITION] offset N`; None if the root is of no message, or no broker answers."""
        for index, topic in enumerate(topics):
            identity, partitions = self._topic(topic)
            if identity is None:
                continue
            found = position_of(root, topic_key(identity), self._ack_partitions)
            place, partition = divmod(found.partition, MAX_PARTITIONS // len(topics))
            # The key of another topic gives other numbers, which hardly ever fit.
            if (found.spout, place) == (self._spouts.index(spout), index) and partition < partitions:
                return f"{topic}[{partition}] offset {found.offset}"
        return None

    def _topic(self, name: str) -> tuple[str | None, int]:
        now = time.monotonic()
        known_at, identity, partitions = self._topics.get(name, (now - _KNOWN_SECONDS, None, 0))
        if now - known_at >= _KNOWN_SECONDS:
            try:
                partitions = self._catalogue.topics().get(name, 0)
                identity = self._catalogue.topic_id(name) if partitions else None
            except BrokerError:
                identity = None
            self._topics[name] = now, identity, partitions
        return identity, partitions
