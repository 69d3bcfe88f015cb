"""The statistics of processes, from the `{topology}.stats` of one topology or of several, as they come."""

import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from confluent_kafka import Message

from inspection.view import TopologyView
from kafka_clients.catalogue import CONTACT_SECONDS, KafkaSettings
from kafka_clients.errors import GONE
from kafka_clients.log_reader import LogReader, Place, Progress
from kafka_clients.repeated_lines import get_logger
from tuple_tree.errors import StatsRecordError
from tuple_tree.manifest import Manifest
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import StatsRecord

logger = get_logger(__name__)


class BrokerClock:
    """The brokers' clock by this machine's, from records that are read as they are written.

    A record is read after the broker appended it, so the largest difference is the closest.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None

    def observe(self, appended_ms: int, local_ms: int) -> None:
        ahead_ms = appended_ms - local_ms
        self._ahead_ms = ahead_ms if self._ahead_ms is None else max(self._ahead_ms, ahead_ms)

    @property
    def is_known(self) -> bool:
        return self._ahead_ms is not None

    def now_ms(self, local_ms: int) -> int:
        """The brokers' time; this machine's before the first record."""
        return local_ms + (self._ahead_ms or 0)


class StatisticsReader:
    """Reads the statistics of topologies into their views; not for several threads."""

    def __init__(self, kafka: KafkaSettings, views: Iterable[TopologyView], progress: Progress | None = None) -> None:
        self._views = {stats_topic(view.manifest.topology): view for view in views}
        self._reader = LogReader(kafka, progress, receive_timeout_s=CONTACT_SECONDS)
        self._clock = BrokerClock()
        self._read_ms = local_ms()

    def close(self) -> None:
        self._reader.close()

    def read(self, since_ms: int, until_ms: int | None = None) -> None:
        """Reads to their end, or to a time; `poll` continues there. Raises `BrokerUnreachableError` if none come."""
        began_ms = local_ms()
        places: list[Place] = [(topic, 0) for topic in self._views]
        kept = self._reader.offset_ranges(places, since_ms, until_ms)
        self._reader.read("statistics", kept, self._take)
        self._reader.assign({place: offsets.stop for place, offsets in kept.items()})
        self._read_ms = began_ms

    def poll(self, seconds: float) -> None:
        """Waits `seconds` for records; raises `TopicsError` or `AccessError` if they may not be read."""
        began_ms = local_ms()
        messages = self._reader.poll(seconds, ignoring=GONE)
        for message in messages:
            self._clock.observe(message.timestamp()[1], local_ms())
            self._take(message)
        if not messages:
            self._read_ms = began_ms

    @property
    def knows_broker_time(self) -> bool:
        return self._clock.is_known

    @property
    def read_to_ms(self) -> int:
        """The brokers' time up to which all statistics are read; a view may have later ones.

        A process without a record since then has ended. By the time now it would have ended, too, if its records are
        only not read yet, on a machine that is slow.
        """
        return self._clock.now_ms(self._read_ms)

    def _take(self, message: Message) -> None:
        view = self._views[str(message.topic())]
        try:
            view.feed([StatsRecord.of(message.key(), message.value(), message.timestamp()[1])])
        except StatsRecordError as error:
            if not view.unreadable:
                logger.warning("%s offset %s is skipped: %s", message.topic(), message.offset(), error)
            view.unreadable += 1


def histories(
    kafka: KafkaSettings, manifest: Manifest, since_ms: int, until_ms: int, progress: Progress
) -> dict[str | None, list[dict[str, Any]]]:
    """The points between two times, by component; None for those of the topology."""
    view = TopologyView(manifest)
    with closing(StatisticsReader(kafka, [view], progress)) as reader:
        reader.read(since_ms, until_ms)
    names = (None, *(component.name for component in manifest.components))
    return {name: view.history(name)["points"] for name in names}


def local_ms() -> int:
    return int(time.time() * 1000)
