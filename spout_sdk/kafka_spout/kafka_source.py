"""The source of a spout's task on Kafka: a consumer that reads ahead, and one for replays once there are any.

The members of the spout's group read the notices, and a commit by another consumer is refused while it has members. So
the reader of the notices commits for the source as well; then the group's generation also fences a process that was
removed from the group and still runs. With `at_most_once` it reads no notices, but commits as well.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.client_settings import new_client
from kafka_clients.errors import GONE, REFUSED
from kafka_clients.group_consumer import GroupConsumer, first_error
from kafka_clients.log_reader import watermarks
from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import AccessError, BrokerError, TopicsError, UnsupportedVersionError
from spout_sdk.kafka.kafka_reader import positions
from spout_sdk.kafka.kafka_settings import KafkaSettings, consumer_settings, watching_client
from spout_sdk.records import Record
from tuple_tree.commit_metadata import Commit
from tuple_tree.errors import CommitError
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_partition import SourcePartition

logger = get_logger("spout_sdk.kafka_spout")

ANSWER_SECONDS: Final = 5.0
ROUND_SECONDS: Final = 10.0  # messages that were not read within this time are requested again
_LARGEST_READ: Final = 500


@dataclass(frozen=True, slots=True)
class OffsetOutOfRange:
    """Messages from `expected` on were deleted before they were read; reading continues at `first`."""

    at: SourcePartition
    expected: int
    first: int


@dataclass(slots=True)
class Fetched:
    """The result of reading by position: records, offsets that retention has deleted, and offsets not read in time."""

    records: list[Record]
    gone: list[tuple[SourcePartition, int]]
    unread: list[tuple[SourcePartition, int]]


class KafkaSource:
    """Reads source topics, also by position, and commits for the group of the spout; for one thread.

    `member` commits. Calls do not wait for the network unless they say so. They raise `BrokerError` if no broker
    answers, a topic does not exist or may not be read, or reading cannot continue.
    """

    def __init__(self, kafka: KafkaSettings, group: str, member: GroupConsumer) -> None:
        settings = {
            # A partition that is begun or resumed waits for the fetches of the others.
            "fetch.wait.max.ms": 100,
            **consumer_settings(kafka, group),
            # An offset out of range is reported and counted, not skipped without a trace.
            "auto.offset.reset": "error",
            # The end may be after the last message, at a marker of a transaction for instance.
            "enable.partition.eof": True,
        }
        self._consumer = GroupConsumer(settings, f"the source of group {group}", on_error=self._on_error)
        self._client = self._consumer.client
        self._kafka = kafka
        self._group = group
        self._member = member
        self._started: dict[SourcePartition, int] = {}
        self._out_of_range: list[OffsetOutOfRange] = []  # of the last read
        self._ends: dict[SourcePartition, int] = {}  # the ends that were reached last
        self._new_ends: set[SourcePartition] = set()
        self._by_position: PositionReader | None = None

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; waits for the answer."""
        try:
            metadata = self._client.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
        except KafkaException as error:
            raise _unreadable(f"source topic {topic}", error.args[0], topic) from error
        return len(metadata.partitions)

    def topic_id(self, topic: str) -> str:
        """The topic id, as Kafka's tools print it; waits for the answer."""
        admin = watching_client(self._kafka)  # kept until the answer has come
        answers = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)
        try:
            return str(answers[topic].result().topic_id)
        except KafkaException as error:
            # The topic exists, as another broker has just described it, so this request is tried again.
            raise _unreadable(f"source topic {topic}", error.args[0]) from error

    def bounds(self, at: SourcePartition) -> tuple[int, int]:
        """First offset and the one after the last; waits for the answer."""
        try:
            return watermarks(self._client, TopicPartition(*at), ANSWER_SECONDS)
        except KafkaException as error:
            raise _unreadable(f"the end of {at}", error.args[0]) from error

    def committed(self, of: Sequence[SourcePartition]) -> dict[SourcePartition, SourceCommit]:
        """Offsets and metadata that the group has committed; waits for the answer."""
        try:
            answers = self._member.client.committed([TopicPartition(*at) for at in of], timeout=ANSWER_SECONDS)
            if error := first_error(answers):
                raise KafkaException(error)
        except KafkaException as error:
            raise _unreadable(f"offsets of group {self._group}", error.args[0]) from error
        return {
            SourcePartition(each.topic, each.partition): _read(each.offset, each.metadata)
            for each in answers
            if each.offset >= 0
        }

    def commit_now(self, commits: Mapping[SourcePartition, Commit]) -> bool:
        """Commits, waits, and returns whether it succeeded; a failure is logged."""
        return self._member.commit_and_wait(positions(commits), ANSWER_SECONDS)

    @property
    def metadata_room(self) -> int:
        """How many bytes the metadata of a commit may have."""
        return self._member.metadata_room

    def start(self, positions: Mapping[SourcePartition, int]) -> None:
        """Begins to read these partitions as well."""
        self._started.update(positions)
        self._client.incremental_assign([TopicPartition(*at, offset) for at, offset in positions.items()])

    def pause(self, at: SourcePartition) -> None:
        """Reads no more of a partition, until `resume`."""
        self._client.pause([TopicPartition(*at)])

    def resume(self, at: SourcePartition) -> None:
        self._client.resume([TopicPartition(*at)])

    def read(self, limit: int, seconds: float = 0.0) -> tuple[Sequence[Record], Sequence[OffsetOutOfRange]]:
        """The records that are available now, in order within each partition, at most `limit`.

        Waits at most `seconds` for the first record.
        """
        self._out_of_range = []
        return self._consumer.read(limit, seconds), self._out_of_range

    def take_ends(self) -> Mapping[SourcePartition, int]:
        """The ends of partitions that were reached since the last call, with all messages before them read."""
        ends = {at: self._ends[at] for at in self._new_ends}
        self._new_ends.clear()
        return ends

    def lag(self, at: SourcePartition) -> int:
        """How many messages of a partition were not read, as far as is known without a request."""
        _, end = self._client.get_watermark_offsets(TopicPartition(*at), cached=True)
        (position,) = self._client.position([TopicPartition(*at)])
        read_to = position.offset if position.offset >= 0 else self._started[at]
        return max(0, end - max(read_to, self._ends.get(at, 0)))

    def fetch(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:
        """Begins to read offsets by position, in ascending order for each partition; not during another round."""
        if self._by_position is None:
            self._by_position = PositionReader(self._kafka, self._group)
        self._by_position.begin(wanted, now)

    def fetched(self, now: float) -> Fetched | None:
        """Records since the last call; None when there are no more."""
        return None if self._by_position is None else self._by_position.poll(now)

    def close(self) -> None:
        self._consumer.close()
        if self._by_position is not None:
            self._by_position.close()

    def _on_error(self, message: Message, error: KafkaError) -> bool:
        if error.code() == KafkaError._PARTITION_EOF:
            at = SourcePartition(message.topic() or "", message.partition() or 0)
            self._ends[at] = message.offset() or 0
            self._new_ends.add(at)
            return True
        if error.code() in GONE:
            raise _unreadable(f"source topic {message.topic()}", error, message.topic())
        if error.code() != KafkaError._AUTO_OFFSET_RESET:
            return False
        self._out_of_range.append(self._restarted(message, error))
        return True

    def _restarted(self, message: Message, error: KafkaError) -> OffsetOutOfRange:
        """Continues at the first message that is left, because the offset is out of range."""
        at = SourcePartition(message.topic() or "", message.partition() or 0)
        (position,) = self._client.position([TopicPartition(*at)])
        expected = position.offset if position.offset >= 0 else self._started[at]
        first, _ = self.bounds(at)
        if first <= expected:
            raise TopicsError(
                str(at),
                f"offset {expected} cannot be read ({error.str()}): if the topic was created again, reset the "
                "offsets of the spout's group",
            )
        self._client.incremental_unassign([TopicPartition(*at)])
        self._client.incremental_assign([TopicPartition(*at, first)])
        self._started[at] = first
        self._ends.pop(at, None)
        self._new_ends.discard(at)
        return OffsetOutOfRange(at, expected, first)


def _unreadable(what: str, error: KafkaError, topic: str | None = None) -> BrokerError:
    if error.code() in REFUSED:
        return AccessError(f"{what} may not be read by this user: {remedy()}")
    if topic is not None and error.code() in GONE:
        return TopicsError(topic, "does not exist, or has lost partitions: create it, or name another")
    return BrokerError(f"{what} cannot be read: {error.str()}; check the brokers and the settings")


def _read(offset: int, metadata: str | None) -> SourceCommit:
    try:
        return SourceCommit.read(offset, metadata)
    except CommitError as error:
        raise UnsupportedVersionError(str(error)) from error


class PositionReader:
    """Reads failed messages again by their positions; commits nothing and joins no group.

    A second consumer, so that replays and new messages never wait for each other. A round reads one range of each
    partition, from the first wanted offset to the last. A wanted offset that is missing in the range was deleted.
    """

    def __init__(self, kafka: KafkaSettings, group: str) -> None:
        self._consumer = new_client(
            Consumer,
            {
                # A round is short, so little is fetched beyond its end, and an empty fetch returns soon.
                "queued.max.messages.kbytes": 1_024,
                "fetch.wait.max.ms": 20,
                **consumer_settings(kafka, group),
                "enable.partition.eof": True,
            },
        )
        self._wanted: dict[SourcePartition, deque[int]] = {}
        self._until = 0.0

    def begin(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:
        """Begins a round: offsets in ascending order for each partition."""
        self._wanted = {at: deque(offsets) for at, offsets in wanted.items()}
        self._until = now + ROUND_SECONDS
        self._consumer.assign([TopicPartition(*at, offsets[0]) for at, offsets in self._wanted.items()])

    def poll(self, now: float) -> Fetched | None:
        """Records since the last call; None when the round is over."""
        if not self._wanted:
            return None
        fetched = Fetched([], [], [])
        for message in self._consumer.consume(_LARGEST_READ, 0):
            self._take(message, fetched)
        if now >= self._until:
            # While another broker becomes the leader, the log may end before an offset that was read once.
            for at, offsets in self._wanted.items():
                fetched.unread.extend((at, offset) for offset in offsets)
            self._wanted.clear()
        if not self._wanted:
            self._consumer.unassign()
        return fetched

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Message, fetched: Fetched) -> None:
        at = SourcePartition(message.topic() or "", message.partition() or 0)
        offsets = self._wanted.get(at)
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            # The consumer that reads ahead raises final errors; here, the round ends without the missing messages.
            logger.warning("reading %s by position: %s", at, error.str())
            return
        if offsets is None:
            return
        reached = message.offset() or 0
        while offsets and offsets[0] < reached:
            fetched.gone.append((at, offsets.popleft()))
        if error is None and offsets and offsets[0] == reached:
            offsets.popleft()
            fetched.records.append(message)
        if not offsets:
            del self._wanted[at]
