"""Reads partitions from chosen offsets on, without joining a consumer group."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.access import VIEWER
from kafka_clients.client_settings import for_consumer, new_client
from kafka_clients.errors import GONE, REFUSED, BrokerError, BrokerUnreachableError, TopicsError, access_refused
from kafka_clients.retriable import Place as Place
from kafka_clients.retriable import retrying
from tuple_tree.names import CATALOGUE_GROUP


def watermarks(consumer: Consumer, partition: TopicPartition, patience_s: float) -> tuple[int, int]:
    """First offset and high watermark of a partition; waits for a leader for `patience_s` seconds.

    Raises `KafkaException` if there is no answer in time, and for any other error.
    """

    def ask() -> tuple[int, int]:
        return consumer.get_watermark_offsets(partition, timeout=patience_s, cached=False)

    return retrying(consumer, ask, patience_s, [(partition.topic, partition.partition)])


RECEIVE_TIMEOUT_SECONDS: Final = 30.0  # how long brokers may send no record before reading fails, in seconds
_ANSWER_SECONDS: Final = 8.0  # how long a broker may take to answer, in seconds
_POLL_SECONDS: Final = 0.1
_POLL_RECORDS: Final = 2_000
_WAIT_MS: Final = 50
_SETTINGS: Final[dict[str, Any]] = {
    # What goes wrong is raised, or passes.
    "log_level": 0,
    # Retention may delete what is to be read.
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 50,
}

Progress = Callable[[str, int, int], None]  # called with what is read, and how many records of how many are done


class LogReader:
    """One consumer; not for several threads.

    It reads in the name of a group, because librdkafka requires one, and does not join it. Errors name the ACLs of a
    role. `read` fails if no record comes for `receive_timeout_s` seconds, and calls `progress` repeatedly. Pass
    `has_ends=False` for a reader that only polls: each end of a partition costs as much as a record. A broker answers a
    request for records after `wait_ms` if none has come, and an end is known then.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        progress: Progress | None = None,
        isolation: str = "read_committed",
        group: str = CATALOGUE_GROUP,
        role: str | None = VIEWER,
        receive_timeout_s: float = RECEIVE_TIMEOUT_SECONDS,
        *,
        has_ends: bool = True,
        wait_ms: int = _WAIT_MS,
    ) -> None:
        own = {"isolation.level": isolation, "group.id": group, "enable.partition.eof": has_ends}
        settings = {**for_consumer(kafka), **_SETTINGS, **own, "fetch.wait.max.ms": wait_ms}
        self._consumer = new_client(Consumer, settings)
        self._group, self._role, self._receive_timeout_s = group, role, receive_timeout_s
        self._progress = progress or (lambda _what, _done, _total: None)
        # The partitions whose end was reached since `assign`, each with the offset there. The last offsets of a
        # partition may be markers of transactions, so to count records is not enough.
        self.ended: dict[Place, int] = {}
        # The topics with an error that `poll` has ignored since `assign`.
        self.refused: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def offset_ranges(
        self, places: Iterable[Place], since_ms: int | None = None, until_ms: int | None = None
    ) -> dict[Place, range]:
        """The ranges of offsets between two times, by the records' timestamps, in milliseconds since the epoch.

        None stands for the beginning of a partition, and for its end now. Raises `BrokerError`.
        """
        kept = {}
        # First, because this waits for the leaders of a new topic.
        for place in places:
            try:
                kept[place] = watermarks(self._consumer, TopicPartition(*place), _ANSWER_SECONDS)
            except KafkaException as error:
                raise self._error(error.args[0], place[0]) from error
        starts, ends = self._at_time([*kept], since_ms), self._at_time([*kept], until_ms)
        offset_ranges = {}
        for place, (low, high) in kept.items():
            # -1: no record is as young as that.
            start = max(low, high if starts.get(place, low) < 0 else starts.get(place, low))
            end = high if ends.get(place, -1) < 0 else ends[place]
            offset_ranges[place] = range(start, max(start, end))
        return offset_ranges

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        """The committed offsets of the group; nothing of a partition where there is none.

        With `read_committed` it waits for transactions that are about to commit such offsets. Raises `BrokerError`.
        """
        asked = [TopicPartition(*place) for place in places]
        try:
            answers = self._consumer.committed(asked, timeout=_ANSWER_SECONDS)
        except KafkaException as error:
            raise self._error(error.args[0], asked[0].topic if asked else "") from error
        for answer in answers:
            if answer.error is not None:
                raise self._error(answer.error, answer.topic)
        return {(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def assign(self, starts: Mapping[Place, int]) -> None:
        wanted = [TopicPartition(*place, offset) for place, offset in starts.items()]
        self.ended, self.refused = {}, set()
        self._consumer.assign(wanted)
        # A partition stays paused over assignments.
        self._consumer.resume(wanted)
        if wanted:
            # librdkafka looks for partitions to fetch only once a second, or when it sends another request to a leader.
            with suppress(KafkaException):
                self._consumer.offsets_for_times([TopicPartition(*place, OFFSET_END) for place in starts], timeout=1.0)

    def poll(self, seconds: float, *, ignoring: Collection[int] = ()) -> list[Message]:
        """The next records, those of a partition in order; waits `seconds` for the first.

        Raises `TopicsError` or `AccessError` if they may not be read, or the topic does not exist, unless the error's
        code is one of `ignoring`.
        """
        first = self._consumer.poll(seconds)
        records = []
        for message in [] if first is None else [first, *self._consumer.consume(_POLL_RECORDS, 0)]:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ended[place_of(message)] = message.offset() or 0
            elif error.code() in ignoring:
                self.refused.add(message.topic() or "")
            elif error.code() in (*REFUSED, *GONE) or error.fatal():
                raise self._error(error, message.topic() or "")
        return records

    def read(self, what: str, offset_ranges: Mapping[Place, range], take: Callable[[Message], None]) -> None:
        """Calls `take` with each record in the ranges, in order within a partition; `what` names them in the progress.

        Raises `BrokerUnreachableError` if brokers send nothing for `receive_timeout_s`, and as `poll`.
        """
        left = {place: offsets for place, offsets in offset_ranges.items() if len(offsets)}
        total, done = sum(map(len, left.values())), 0
        self.assign({place: offsets.start for place, offsets in left.items()})
        active_at = time.monotonic()
        try:
            while left:
                ends_known = len(self.ended)
                messages = self.poll(_POLL_SECONDS)
                if messages or len(self.ended) > ends_known:
                    active_at = time.monotonic()
                elif time.monotonic() - active_at > self._receive_timeout_s:
                    raise BrokerUnreachableError(
                        f"no records of {', '.join(sorted({topic for topic, _ in left}))} came for "
                        f"{self._receive_timeout_s:g} s: try again when the brokers are available"
                    )
                for message in messages:
                    offsets = left.get(place_of(message))
                    if offsets is None:
                        continue
                    offset = message.offset() or 0
                    if offset < offsets.stop:
                        done += 1
                        take(message)
                    if offset >= offsets.stop - 1:
                        self._finish(left, place_of(message))
                if messages:
                    # Again: `take` may have worked for long.
                    active_at = time.monotonic()
                for place in self.ended.keys() & left.keys():
                    self._finish(left, place)
                self._progress(what, done, total)
        finally:
            self._consumer.unassign()

    def have_records(self, offset_ranges: Mapping[Place, range], seconds: float) -> dict[Place, bool]:
        """Whether partitions have a record from the begin of a range on, or only markers of transactions to its end.

        True where they may not be read. A partition without an answer in time is left out, and one with an open
        transaction, whose records may be aborted.
        """
        waiting, found = set(offset_ranges), dict[Place, bool]()
        self.assign({place: offsets.start for place, offsets in offset_ranges.items()})
        deadline = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline:
            # A source may belong to another application, and not be readable.
            for message in self.poll(_POLL_SECONDS, ignoring=(*REFUSED, *GONE)):
                found.setdefault(place_of(message), True)
            for place in self.ended.keys() & waiting - found.keys():
                if self.ended[place] >= offset_ranges[place].stop:
                    found[place] = False
            found |= dict.fromkeys((place for place in waiting if place[0] in self.refused), True)
            waiting -= found.keys() | self.ended.keys()
        return found

    def pause(self, place: Place) -> None:
        self._consumer.pause([TopicPartition(*place)])

    def _finish(self, left: dict[Place, range], place: Place) -> None:
        del left[place]
        self.pause(place)

    def _at_time(self, places: list[Place], at_ms: int | None) -> dict[Place, int]:
        """The first offset that is as young as that; -1 where there is none."""
        if at_ms is None or not places:
            return {}
        wanted = [TopicPartition(*place, max(0, at_ms)) for place in places]

        def ask() -> dict[Place, int]:
            answers = self._consumer.offsets_for_times(wanted, timeout=_ANSWER_SECONDS)
            for error in (answer.error for answer in answers if answer.error is not None):
                raise KafkaException(error)
            return {(answer.topic, answer.partition): answer.offset for answer in answers}

        try:
            return retrying(self._consumer, ask, _ANSWER_SECONDS, places)
        except KafkaException as error:
            raise self._error(error.args[0], places[0][0]) from error

    def _error(self, error: KafkaError, topic: str) -> BrokerError:
        if error.code() in GONE:
            return TopicsError.missing(topic)
        return access_refused(error, topic, self._group, self._role) or unanswered(error, f"for {topic} ")


def unanswered(error: KafkaError, what: str = "") -> BrokerUnreachableError:
    """The error where brokers do not answer a request."""
    return BrokerUnreachableError(f"the brokers do not answer {what}({error.str()}): try again when they are available")


def place_of(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0
