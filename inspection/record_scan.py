"""Reading stretches of many partitions, from one offset to another, without being a member of any group."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.access import VIEWER, remedy
from kafka_clients.catalogue import CONTACT_S, KafkaSettings
from kafka_clients.client_settings import for_consumer
from kafka_clients.errors import BrokerUnreachableError, TopicError
from kafka_clients.watermarks import watermarks
from tuple_tree.names import CATALOGUE_GROUP

SILENCE_S: Final = 30.0
"""How long brokers may send nothing of what there is, in seconds."""
_POLL_S: Final = 0.1
_POLL_RECORDS: Final = 2_000
_SETTINGS: Final[dict[str, Any]] = {
    "log_level": 0,
    "group.id": CATALOGUE_GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 50,
    "fetch.wait.max.ms": 50,
}
_REFUSED: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_GONE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)

Place = tuple[str, int]
"""A topic and a partition of it."""
Progress = Callable[[str, int, int], None]
"""Called with what is read, and how many records of how many are done."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets of a partition.

    Attributes:
        start: the first one.
        end: the one behind the last.
    """

    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)


class RecordScan:
    """Finds stretches by time, and reads them; read-only.

    Args:
        kafka: librdkafka properties.
        progress: told now and then how far a `read` is.
    """

    def __init__(self, kafka: KafkaSettings, progress: Progress | None = None) -> None:
        self._consumer = Consumer({**for_consumer(kafka), **_SETTINGS})
        self._progress = progress or (lambda _what, _done, _total: None)

    def __enter__(self) -> "RecordScan":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()

    def stretches(
        self, places: Iterable[Place], since_ms: int | None = None, until_ms: int | None = None
    ) -> dict[Place, Stretch]:
        """What lies in partitions between two points of time, by the records' timestamps.

        Args:
            places: which partitions.
            since_ms: milliseconds since the epoch; None for the beginning.
            until_ms: likewise; None for all that is there now.

        Raises:
            BrokerUnreachableError: if there is no answer in time.
            TopicError: if a topic does not exist or may not be read.
        """
        wanted = list(places)
        found = {}
        starts, ends = self._at_time(wanted, since_ms), self._at_time(wanted, until_ms)
        for place in wanted:
            try:
                low, high = watermarks(self._consumer, TopicPartition(*place), CONTACT_S)
            except KafkaException as error:
                raise _told(error.args[0], place[0]) from error
            # Nothing is as young as that: then the end is meant.
            start = max(low, high if starts.get(place, low) < 0 else starts.get(place, low))
            end = high if ends.get(place, -1) < 0 else ends[place]
            found[place] = Stretch(start, max(start, end))
        return found

    def read(self, what: str, stretches: Mapping[Place, Stretch], take: Callable[[Message], None]) -> None:
        """Reads stretches; the records of a partition come in order.

        Args:
            what: what to call them in the progress.
            stretches: of partitions.
            take: called with each record.

        Raises:
            BrokerUnreachableError: if brokers send nothing for `SILENCE_S`.
            TopicError: if a topic does not exist any more, or may not be read.
        """
        left = {place: stretch for place, stretch in stretches.items() if len(stretch)}
        total = sum(map(len, left.values()))
        done = 0
        heard_at = time.monotonic()
        wanted = [TopicPartition(*place, stretch.start) for place, stretch in left.items()]
        self._consumer.assign(wanted)
        # A partition stays paused over assignments.
        self._consumer.resume(wanted)
        try:
            while left:
                messages = self._consumer.consume(_POLL_RECORDS, _POLL_S)
                if any(message.error() is None or _is_end(message) for message in messages):
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > SILENCE_S:
                    raise BrokerUnreachableError(
                        f"no records of {', '.join(sorted({topic for topic, _ in left}))} came for {SILENCE_S:g} s: "
                        "try again once the brokers are well"
                    )
                for message in messages:
                    place = (message.topic() or "", message.partition() or 0)
                    stretch = left.get(place)
                    if stretch is None:
                        continue
                    if (error := message.error()) is not None:
                        if _is_end(message):
                            self._finish(left, place)
                        elif error.code() in (*_REFUSED, *_GONE) or error.fatal():
                            raise _told(error, place[0])
                        continue
                    offset = message.offset() or 0
                    if offset < stretch.end:
                        done += 1
                        take(message)
                    if offset >= stretch.end - 1:
                        self._finish(left, place)
                self._progress(what, done, total)
        finally:
            self._consumer.unassign()

    def _finish(self, left: dict[Place, Stretch], place: Place) -> None:
        del left[place]
        self._consumer.pause([TopicPartition(*place)])

    def _at_time(self, places: list[Place], at_ms: int | None) -> dict[Place, int]:
        """The first offset that is as young as that; -1 where there is none."""
        if at_ms is None or not places:
            return {}
        asked = [TopicPartition(*place, max(0, at_ms)) for place in places]
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=CONTACT_S)
        except KafkaException as error:
            raise _told(error.args[0], places[0][0]) from error
        for answer in answers:
            if answer.error is not None:
                raise _told(answer.error, answer.topic)
        return {(answer.topic, answer.partition): answer.offset for answer in answers}


def show_time(at_ms: int) -> str:
    """A point of time for people, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _told(error: KafkaError, topic: str) -> Exception:
    if error.code() in _REFUSED:
        return TopicError(topic, f"may not be read by this user: {remedy(VIEWER)}")
    if error.code() in _GONE:
        return TopicError(topic, "does not exist. Create it: acker topics create MODULE:TOPOLOGY")
    return BrokerUnreachableError(f"the brokers do not answer ({error.str()}): try again once they are well")
