"""Lags without the markers of transactions at their end, which have offsets, and which no reader gets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from inspection.topic_status import TopicStatus
from kafka_clients.catalogue import CONTACT_SECONDS, KafkaSettings
from kafka_clients.log_reader import LogReader, Place

Read = Callable[[Mapping[Place, range]], Mapping[Place, bool]]
"""Returns for ranges of offsets whether they have a record; without the partitions that do not answer."""

_FIRST: Final = range(0)


@dataclass(slots=True)
class _Lag:
    offsets: range = _FIRST  # at the last look
    markers: int = 0  # how many of the first offsets are markers, as far as they were read
    has_records: bool = False  # whether a record was found

    def moves_to(self, offsets: range) -> bool:
        """Takes the offsets of this look; returns whether they have changed."""
        before, self.offsets = self.offsets, offsets
        if before.start != offsets.start or before.stop > offsets.stop:
            self.markers, self.has_records = 0, False
        return before != offsets

    @property
    def is_known(self) -> bool:
        return self.has_records or self.markers == len(self.offsets)


class TransactionMarkers:
    """Counts the markers in lags; not for several threads. A lag is read once, as soon as it is at rest.

    Args:
        read: reads ranges of offsets.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lags: dict[tuple[str, Place], _Lag] = {}

    def without(self, topics: Iterable[TopicStatus], *, at_once: bool) -> list[TopicStatus]:
        """Topics with lags in which markers do not count.

        Args:
            topics: with lags that count markers.
            at_once: whether a lag that has changed since the last call is read, too.
        """
        found = [*topics]
        lags = {
            (topic.group, (topic.name, each.partition)): range(begin, each.end)
            for topic in found
            for each in topic.partitions
            if topic.group is not None and (begin := each.undone_from) is not None
        }
        markers = self._count(lags, at_once=at_once)

        def of(topic: TopicStatus) -> TopicStatus:
            counts = [markers.get((topic.group or "", (topic.name, each.partition)), 0) for each in topic.partitions]
            partitions = zip(topic.partitions, counts, strict=True)
            kept = (replace(each, lag=each.lag - count) if each.lag else each for each, count in partitions)
            return replace(topic, partitions=tuple(kept)) if any(counts) else topic

        return [of(topic) for topic in found]

    def _count(self, lags: Mapping[tuple[str, Place], range], *, at_once: bool) -> dict[tuple[str, Place], int]:
        """How many of the offsets are markers, by group and partition."""
        unknown = set()
        for key, offsets in lags.items():
            lag = self._lags.setdefault(key, _Lag())
            if (not lag.moves_to(offsets) or at_once) and not lag.is_known:
                unknown.add(key)
        for key, has_records in self._answers(unknown):
            lag = self._lags[key]
            lag.has_records = has_records
            lag.markers = lag.markers if has_records else len(lag.offsets)
        return {key: self._lags[key].markers for key in lags}

    def _answers(self, keys: Iterable[tuple[str, Place]]) -> Iterable[tuple[tuple[str, Place], bool]]:
        """Reads a partition that several groups have a lag in for one after another."""
        left = sorted(keys)
        while left:
            now = {key[1]: key for key in left}
            answers = self._read({place: self._lags[key].offsets for place, key in now.items()})
            yield from ((now[place], has_records) for place, has_records in answers.items())
            left = [key for key in left if key not in now.values()]


def read_from(kafka: KafkaSettings) -> Read:
    """Reads with a consumer, for some seconds at most."""

    def read(offset_ranges: Mapping[Place, range]) -> Mapping[Place, bool]:
        with LogReader(kafka) as reader:
            return reader.have_records(offset_ranges, CONTACT_SECONDS)

    return read
