"""The trees that failed last, with their messages, and the latest dead letters.

Only the ends of their topics are read, and no record twice.
"""

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from heapq import heappop, heappush
from itertools import chain
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from inspection.dead_letters import DeadLetter, LetterPreviews, Replay, parsed
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import ClusterError
from kafka_clients.log_reader import LogReader, Place, place_of
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.messages import FailReason, decode_notice_batch, failed_by_of
from tuple_tree.names import dead_letters_topic, notices_topic
from tuple_tree.positions import MAX_PARTITIONS, position_of, topic_key

_log = logging.getLogger(__name__)

Shown = Mapping[str, Any]  # A JSON object

KEPT: Final = 100  # failures of each reason, and dead letters, that are shown at most
NOTICE_RECORDS: Final = 1_000
"""How many records are read back of a partition with notices; most of them are of acked trees."""
LETTER_RECORDS: Final = 1_000
"""How many records are read back of the dead letters; some are notes of replays."""
_PREVIEW: Final = 200
_READ_S: Final = 5.0  # how long one read may take; what it did not reach is read by the next
_POLL_S: Final = 0.1
_KNOWN_S: Final = 60.0  # how long the id of a topic is kept


class Tail:
    """Reads the last `records` of each partition, then what is appended; `take` is called with each record."""

    def __init__(
        self, kafka: KafkaSettings, places: Sequence[Place], records: int, take: Callable[[Message], None]
    ) -> None:
        self._kafka = kafka
        self._places = places
        self._records = records
        self._take = take
        self._next: dict[Place, int] = {}

    def read(self) -> None:
        if not self._places:
            return
        with closing(LogReader(self._kafka)) as reader:
            kept = reader.stretches(self._places)
            reader.assign({place: self._start(place, kept[place]) for place in self._places})
            deadline = time.monotonic() + _READ_S
            while len(reader.ended) < len(self._places) and time.monotonic() < deadline:
                for message in reader.poll(_POLL_S):
                    self._next[place_of(message)] = (message.offset() or 0) + 1
                    self._take(message)

    def _start(self, place: Place, kept: range) -> int:
        begin = max(kept.start, kept.stop - self._records)
        known = self._next.get(place, begin)
        # A position beyond the end is of a topic of this name that was deleted.
        return max(known, begin) if known <= kept.stop else begin


class RecentFailures:
    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        topology = manifest.topology
        self._topology = topology
        self._spouts = {notices_topic(topology, spout.name): spout.name for spout in manifest.spouts}
        tasks = [
            (notices_topic(topology, spout.name), task) for spout in manifest.spouts for task in range(spout.tasks)
        ]
        # By reason, so that many time-outs do not hide the rest. Heaps, the oldest first: partitions are read one after
        # the other, so what comes last is not the latest.
        self._found: defaultdict[int, list[tuple[int, int, Shown]]] = defaultdict(list)
        self._taken = 0
        self._tail = Tail(kafka, tasks if manifest.acking else (), NOTICE_RECORDS, self._take)

    def read(self) -> list[Shown]:
        self._tail.read()
        return [failure for *_, failure in sorted(chain(*self._found.values()), reverse=True)]

    def _take(self, message: Message) -> None:
        try:
            batch = decode_notice_batch(message.value())
        except WireError as error:
            _log.warning("%s/%s/%s: %s", message.topic(), message.partition(), message.offset(), error)
            return
        at = _appended(message)
        by = failed_by_of(dict(message.headers() or ()), len(batch.failed_roots))
        for root, number, text, bolt in zip(
            batch.failed_roots, batch.fail_reasons, batch.fail_messages, by, strict=True
        ):
            name = f"{int(root):016x}"
            failure: Shown = {
                "root": name,
                "spout": self._spouts[str(message.topic())],
                "task": message.partition(),
                "reason": FailReason(int(number)).word,
                "by": bolt or None,
                "message": text,
                "at": at,
                "trace": f"acker trace {name} --topology {self._topology}",
            }
            self._taken += 1
            found = self._found[int(number)]
            heappush(found, (at or 0, self._taken, failure))
            if len(found) > KEPT:
                heappop(found)


class RecentDeadLetters:
    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._previews = LetterPreviews(manifest)
        self._found: deque[DeadLetter] = deque(maxlen=KEPT)
        self._replayed: dict[int, int] = {}
        self._tail = Tail(kafka, [(dead_letters_topic(manifest.topology), 0)], LETTER_RECORDS, self._take)

    def read(self) -> list[Shown]:
        self._tail.read()
        if self._found:
            # A note comes after its letter, so none is missed of those that are shown.
            oldest = min(letter.offset for letter in self._found)
            self._replayed = {of: at for of, at in self._replayed.items() if of >= oldest}
        return [self._shown(letter) for letter in reversed(self._found)]

    def _take(self, message: Message) -> None:
        entry = parsed(message)
        if isinstance(entry, Replay):
            self._replayed[entry.of] = entry.timestamp_ms
        else:
            self._found.append(entry)

    def _shown(self, letter: DeadLetter) -> Shown:
        return {
            "offset": letter.offset,
            "at": letter.timestamp_ms if letter.timestamp_ms > 0 else None,
            "topic": letter.topic or None,
            "of_partition": _number(letter.partition),
            "of_offset": _number(letter.position),
            "reason": letter.reason,
            "detail": letter.detail or None,
            "by": letter.by or None,
            "value": None if letter.value is None else self._previews.of(letter, _PREVIEW),
            "replayed": self._replayed.get(letter.offset),
        }


class SourceMessages:
    """The messages of a `KafkaSpout` behind the roots of trees: a root contains its message's position."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._catalogue = Catalogue(kafka)
        self._manifest = manifest
        self._topics: dict[str, tuple[float, str | None, int]] = {}
        self._spouts = [spout.name for spout in manifest.spouts]

    def of(self, spout: str, root: int, topics: Sequence[str]) -> str | None:
        """As `TOPIC[PARTITION] offset N`; None if the root is of no message, or no broker answers."""
        for index, topic in enumerate(topics):
            identity, partitions = self._topic(topic)
            if identity is None:
                continue
            found = position_of(root, topic_key(identity), self._manifest.ack_partitions)
            place, partition = divmod(found.partition, MAX_PARTITIONS // len(topics))
            # The key of another topic gives other numbers, which hardly ever fit.
            if (found.spout, place) == (self._spouts.index(spout), index) and partition < partitions:
                return f"{topic}[{partition}] offset {found.offset}"
        return None

    def _topic(self, name: str) -> tuple[str | None, int]:
        """The id of a topic, None if it is not known, and its number of partitions."""
        now = time.monotonic()
        known_at, identity, partitions = self._topics.get(name, (now - _KNOWN_S, None, 0))
        if now - known_at >= _KNOWN_S:
            try:
                partitions = self._catalogue.topics().get(name, 0)
                identity = self._catalogue.topic_id(name) if partitions else None
            except ClusterError:
                identity = None
            self._topics[name] = now, identity, partitions
        return identity, partitions


def _appended(message: Message) -> int | None:
    kind, at = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else at


def _number(number: int) -> int | None:
    return number if number >= 0 else None
