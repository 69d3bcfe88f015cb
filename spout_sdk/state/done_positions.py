"""Reads the commits of the spouts upstream of a bolt, so that its tasks can drop the identities of done positions.

A thread reads the commits, with a consumer of each group (ADR 18), because the calls wait for the answers.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_clients.access import remedy
from kafka_clients.background import Background
from kafka_clients.client_settings import new_client
from kafka_clients.errors import GONE, REFUSED
from kafka_clients.group_commits import GroupCommits
from kafka_clients.librdkafka_bugs import HANG_SECONDS, forgettable
from kafka_clients.log_reader import Place, unanswered
from kafka_clients.repeated_lines import EACH, get_logger
from kafka_clients.retriable import LEADERLESS
from kafka_clients.topic_watch import Descriptions, describe_topics
from spout_sdk.api.topology import Topology
from spout_sdk.errors import AccessError, BrokerError, SpoutSdkError, TopicsError
from spout_sdk.kafka.kafka_settings import KafkaSettings, consumer_settings, watching_client
from spout_sdk.kafka_spout.partitions import owned_numbers
from spout_sdk.state.source_topics import moved
from spout_sdk.state.watermarks import SourceOffsets
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.names import component_group
from tuple_tree.positions import PARTITION_BITS
from tuple_tree.source_commits import SourceCommit

logger = get_logger("spout_sdk.state")

LOOK_SECONDS: Final = 1.0
"""The time between two requests."""
_ANSWER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Source:
    """A `KafkaSpout` upstream: its name, its index among the spouts, its group, and its topics."""

    spout: str
    index: int
    group: str
    topics: tuple[str, ...]


@dataclass(slots=True)
class _Answer:
    done: dict[int, DoneSet] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class DonePositions:
    """The done positions of the `KafkaSpout`s upstream of a bolt, read about every second; for one thread.

    A partition key is `spout << 12 | number of the partition`, as in the positions of messages.

    Attributes:
        done: partition key → the offsets in the last commit that were emitted and are done; for tasks that begin later.
        offsets: partition key → the committed offset, 0 if there is none, and the offset after the last message that
            can be read; of all partitions, from one request. Empty before the first answer.
        topics: spout → topic → the topic id, in the order in which the spout names them; empty before the first answer.
    """

    def __init__(self, topology: Topology, component: str, kafka: KafkaSettings) -> None:
        manifest, self._bolt, self._topology = topology.manifest, component, topology.name
        indices = {spout.name: index for index, spout in enumerate(manifest.spouts)}
        self._sources = tuple(
            _Source(spout.name, indices[spout.name], component_group(manifest.topology, spout.name), topics)
            for spout in manifest.spouts_upstream(component)
            if (topics := topology.kafka_sources.get(spout.name))
        )
        self._arguments = self._sources, component, kafka
        self._reader = _Reader(*self._arguments)
        self._background = new_client(Background, kafka)
        self._reading: Future[_Answer] | None = None
        self._look_at = 0.0
        self.done: dict[int, DoneSet] = {}
        self._committed: dict[int, int] = {}
        self._problems: list[str] = []
        self.offsets: Mapping[int, SourceOffsets] = {}
        self.topics: Mapping[str, Mapping[str, str]] = {}

    def look(self, now: float) -> Mapping[int, DoneSet] | None:
        """Sends requests if they are due, and takes the answers that have arrived, without waiting.

        Returns the done positions that differ from the last answer, by partition key; None if there is no answer, or
        nothing new. Raises `TopicsError` if a source topic was deleted and created again: the task must not execute
        tuples of the new topic.
        """
        if self._reading is not None and now >= self._look_at + HANG_SECONDS:
            # A call of librdkafka may never return. Leave the clients to its thread, and create new ones.
            self._report(["a request has had no answer for a minute, and others are sent with another client"])
            self._reading, self._reader = None, _Reader(*self._arguments)
        if self._reading is None and self._sources and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._reading = self._background.begin(self._reader.read, "done-positions")
        if self._reading is None or not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        try:
            answer = reading.result()
        except SpoutSdkError as error:
            answer = _Answer(problems=[str(error)])
        self._report(answer.problems)
        self._take_topics(answer.topics)
        new = {key: done for key, done in answer.done.items() if self.done.get(key) != done}
        self.done |= new
        self._committed |= answer.committed
        if answer.ends:
            ends = answer.ends.items()
            self.offsets = {key: SourceOffsets(self._committed.get(key, 0), end) for key, end in ends}
        return new or None

    def _take_topics(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        for spout, before in self.topics.items():
            for topic, id_ in topics.get(spout, {}).items():
                if before[topic] != id_:
                    problem = f"was deleted and created again: its id was {before[topic]}, and is {id_}"
                    raise moved(topic, problem, self._topology, self._bolt, self.topics)
        self.topics = topics or self.topics

    def _report(self, problems: list[str]) -> None:
        """Logs each new problem once, and the end of the problems."""
        for problem in problems:
            if problem not in self._problems:
                logger.warning(
                    "%s does not know what is done of its spouts' messages, and keeps all identities meanwhile: %s",
                    *(self._bolt, problem),
                    extra=EACH,
                )
        if self._problems and not problems:
            logger.info("%s knows again what is done of its spouts' messages", self._bolt)
        self._problems = problems


class _Reader:
    """Reads from Kafka, and waits for the answers."""

    def __init__(self, sources: Sequence[_Source], bolt: str, kafka: KafkaSettings) -> None:
        self._sources = sources
        self._bolt = bolt
        self._kafka = kafka
        self._commits = GroupCommits(kafka)
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None
        self._counts: dict[str, int] = {}
        self._ids: dict[str, str] = {}
        self._read: dict[int, tuple[int, str | None]] = {}  # commits that were read, by partition key

    def read(self) -> _Answer:
        """Reads new commits, and the ends of partitions. Raises `BrokerError`; other problems are in the answer."""
        answer = _Answer()
        # Each time, because new messages of a recreated topic have the positions of earlier messages.
        self._describe()
        answer.topics = {each.spout: {topic: self._ids[topic] for topic in each.topics} for each in self._sources}
        keys = {each: self._keys(each) for each in self._sources}
        commits = self._commits.of({each.group: [*of.values()] for each, of in keys.items()})
        for each, of_source in keys.items():
            if each.group in self._commits.refused:
                answer.problems.append(
                    f"group {each.group} or a topic of it has no DESCRIBE ACL for this user: {remedy(self._bolt)}"
                )
                continue
            for key, place in of_source.items():
                commit = commits[each.group].get(place)
                if commit is None or self._read.get(key) == (made := (commit.offset, commit.metadata)):
                    continue
                try:
                    read = SourceCommit.read(commit.offset, commit.metadata)
                except CommitError as error:
                    answer.problems.append(f"group {each.group}: {error}")
                    continue
                # Without an attempt, another program has committed the offset: the spout may begin elsewhere.
                self._read[key] = made
                if read.next_attempt is not None:
                    answer.done[key] = read.processed
                    answer.committed[key] = read.offset
        try:
            # After the commits: `Watermarks.learn` requires this order.
            answer.ends = self._read_ends({place: key for of in keys.values() for key, place in of.items()})
        except BrokerError as error:
            answer.problems.append(str(error))
        return answer

    def _describe(self) -> None:
        if self._admin is None:
            self._admin = watching_client(self._kafka)
        topics = sorted({topic for each in self._sources for topic in each.topics})
        answers: Descriptions = describe_topics(self._admin, topics)
        for topic, future in answers.items():
            try:
                described = future.result(2 * _ANSWER_SECONDS)
            except KafkaException as error:
                raise _unreadable(topic, self._bolt, error) from error
            except TimeoutError as error:
                raise BrokerError(f"the brokers do not describe source topic {topic}: the task asks again") from error
            self._ids[topic] = str(described.topic_id)
            self._counts[topic] = len(described.partitions)

    def _keys(self, source: _Source) -> dict[int, Place]:
        numbers = owned_numbers({topic: self._counts[topic] for topic in source.topics}, 0, 1)
        return {source.index << PARTITION_BITS | number: (at.topic, at.partition) for at, number in numbers.items()}

    def _read_ends(self, keys: Mapping[Place, int]) -> dict[int, int]:
        """The ends by partition key; empty while any partition has no leader."""
        if self._consumer is None:
            settings = {**consumer_settings(self._kafka, self._sources[0].group), "log_level": 0}
            self._consumer = new_client(forgettable(Consumer), settings)
        wanted = [TopicPartition(*place, OFFSET_END) for place in keys]
        try:
            answers = self._consumer.offsets_for_times(wanted, timeout=_ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].code() in LEADERLESS:
                return {}
            raise unanswered(error.args[0], "for the ends of source topics ") from error
        for each in answers:
            if each.error is not None:
                if each.error.code() in LEADERLESS:
                    return {}
                raise _unreadable(each.topic, self._bolt, KafkaException(each.error))
        return {keys[each.topic, each.partition]: each.offset for each in answers}


def _unreadable(topic: str, bolt: str, error: KafkaException) -> BrokerError:
    code = error.args[0].code()
    if code in REFUSED:
        return AccessError(f"source topic {topic} has no DESCRIBE ACL for this user: {remedy(bolt)}")
    if code in GONE:
        return TopicsError(topic, "does not exist, and a spout upstream reads it: create it, or name another")
    return unanswered(error.args[0], f"for source topic {topic} ")
