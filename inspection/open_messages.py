"""The oldest unfinished messages of the sources of spouts, by the commits of their groups, with their ages."""

import time
from collections.abc import Iterable
from typing import Final

from inspection.health.messages import is_noteworthy
from inspection.health.observation import OpenMessage
from inspection.topic_status import PartitionStatus, TopicStatus
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import GONE, REFUSED
from kafka_clients.log_reader import LogReader, Place, place_of

_POLL_SECONDS: Final = 0.1
_PEEK_SECONDS: Final = 5.0


class OpenMessages:
    """Finds open messages that have failed often, or are very many; not for several threads.

    The time of each is read once, so a process may look again and again.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._written_ms: dict[tuple[Place, int], int | None] = {}

    def of(self, sources: Iterable[TopicStatus]) -> tuple[OpenMessage, ...]:
        """The open messages at committed offsets of sources."""
        found = {
            (topic.name, one.partition): (topic.group or "", one)
            for topic in sources
            for one in topic.partitions
            if one.committed is not None and is_noteworthy(one.failures, one.open_runs)
        }
        self._read({place: one for place, (_, one) in found.items()})
        return tuple(self._message(group, place, one) for place, (group, one) in found.items())

    def _message(self, group: str, place: Place, one: PartitionStatus) -> OpenMessage:
        offset = one.committed or 0
        written_ms = self._written_ms[place, offset]
        age = None if written_ms is None else max(0.0, time.time() - written_ms / 1000)
        return OpenMessage(group, *place, offset, one.failures, age, one.done_ahead, one.open_ahead)

    def _read(self, partitions: dict[Place, PartitionStatus]) -> None:
        """Reads the timestamps that are not known yet, as far as they can be read in time."""
        wanted = {place: one.committed or 0 for place, one in partitions.items()}
        self._written_ms = {key: self._written_ms.get(key) for key in wanted.items()}
        unread = {place: offset for place, offset in wanted.items() if self._written_ms[place, offset] is None}
        if not unread:
            return
        with LogReader(self._kafka) as reader:
            reader.assign(unread)
            deadline = time.monotonic() + _PEEK_SECONDS
            while unread and time.monotonic() < deadline:
                for message in reader.poll(_POLL_SECONDS, ignoring=(*REFUSED, *GONE)):
                    place = place_of(message)
                    if message.offset() == unread.get(place):
                        self._written_ms[place, unread.pop(place)] = message.timestamp()[1]
