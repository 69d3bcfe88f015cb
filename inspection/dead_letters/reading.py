"""Reads `{topology}.dead-letters`, as far as it is committed."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from confluent_kafka import Message

from inspection.dead_letters.letter import DeadLetter, Header, Replay, parse
from inspection.dead_letters.payloads import LetterPreviews
from inspection.errors import DeadLettersError
from kafka_clients.catalogue import Catalogue, KafkaSettings
from kafka_clients.errors import ClusterError, UnknownTopologyError
from kafka_clients.log_reader import SILENCE_S, LogReader
from tuple_tree.errors import ManifestError
from tuple_tree.names import dead_letters_topic

_POLL_S: Final = 0.2


class DeadLetterLog:
    """The dead letters of a topology; `progress` is called repeatedly with the number of records read.

    Raises `UnknownTopologyError` if there is no such topology, `DeadLettersError` if it has no topic of dead letters.
    """

    def __init__(self, kafka: KafkaSettings, topology: str, progress: Callable[[int], None] | None = None) -> None:
        self._catalogue = Catalogue(kafka)
        self._topology = topology
        self._kafka = kafka
        self._progress = progress or (lambda _count: None)
        self.topic = dead_letters_topic(topology)
        self.partitions: Mapping[str, int] = self._catalogue.topics()
        """Topic → partitions, of all topics of the cluster."""
        if self.topic not in self.partitions:
            known = self._catalogue.manifests()
            if topology not in known:
                raise UnknownTopologyError(topology, sorted(known))
            raise DeadLettersError(
                f"topic {self.topic} does not exist, or this user has no DESCRIBE ACL for it: acker doctor {topology} "
                "shows what to do"
            )

    def entries(
        self, *, since_ms: int | None = None, start: int | None = None, until: int = 0
    ) -> Iterator[DeadLetter | Replay]:
        """Reads dead letters, and the records of their replays, up to the end.

        It begins at a time, in milliseconds since the epoch, or at an offset, and ends at `until` or later: it waits
        for transactions that are open before that. Raises `DeadLettersError` if no record comes for half a minute.
        """
        place = (self.topic, 0)
        with closing(LogReader(self._kafka)) as reader:
            kept = reader.stretches([place], since_ms)[place]
            reader.assign({place: kept.start if start is None else max(kept.start, start)})
            deadline = time.monotonic() + SILENCE_S
            count = 0
            while reader.ended.get(place, -1) < until:
                messages = reader.poll(_POLL_S)
                for message in messages:
                    count += 1
                    yield parsed(message)
                self._progress(count)
                if messages:
                    deadline = time.monotonic() + SILENCE_S
                elif time.monotonic() > deadline:
                    raise DeadLettersError(
                        f"topic {self.topic} cannot be read to its end, after {count} records: no broker answers, or a "
                        f"transaction that writes into it has been open for {SILENCE_S:g} s. Try again later"
                    )

    def replays(self) -> dict[int, int]:
        """Offset of a dead letter → when it was last replayed, in milliseconds since the epoch."""
        return {entry.of: entry.timestamp_ms for entry in self.entries() if isinstance(entry, Replay)}

    def fetch(self, offsets: Collection[int]) -> Iterator[DeadLetter]:
        """Reads single letters, in the order of their offsets, without those that retention has deleted."""
        if not offsets:
            return
        last = max(offsets)
        for entry in self.entries(start=min(offsets)):
            offset = entry.offset if isinstance(entry, DeadLetter) else -1
            if isinstance(entry, DeadLetter) and offset in offsets:
                yield entry
            if offset >= last:
                return

    def previews(self) -> LetterPreviews:
        """Previews of the letters: tuples by field, or bytes if the manifest was deleted or cannot be read."""
        try:
            return LetterPreviews(self._catalogue.manifest(self._topology))
        except (ClusterError, ManifestError):
            return LetterPreviews(None)


def parsed(message: Message) -> DeadLetter | Replay:
    # Its type allows a mapping of headers, and text, which only records to be sent have.
    pairs: Any = message.headers() or ()
    headers: list[Header] = [*pairs]
    offset = message.offset()
    return parse(-1 if offset is None else offset, message.timestamp()[1], message.key(), message.value(), headers)
