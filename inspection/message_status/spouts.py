"""The source partitions of spouts with their committed offsets, and the roots of a message."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TopicPartition

from inspection.errors import StatusError
from inspection.topic_status import done_of
from inspection.topology_status import ClusterStatus
from kafka_clients.access import VIEWER, remedy
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import AccessError
from kafka_clients.log_reader import Place
from tuple_tree.components import SpoutManifest
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError, PositionError
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic
from tuple_tree.positions import MAX_ATTEMPTS, MAX_PARTITIONS, Position, positional_root, topic_key
from tuple_tree.source_commits import SourceCommit

_INTERNAL: Final = "__"


@dataclass(frozen=True, slots=True)
class SourceSpout:
    """A spout, and the topics for which its group has committed offsets.

    Attributes:
        topics: topic → its number of partitions.
        partitions: the same of all topics of the cluster.
        done: source partition → its done set, by the commit.
        begins: source partition → the offset before which the group has skipped messages, by the commit.
    """

    manifest: SpoutManifest
    topics: Mapping[str, int]
    partitions: Mapping[str, int]
    done: Mapping[Place, DoneSet]
    begins: Mapping[Place, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.manifest.name


class SourceSpouts:
    """Reads the committed offsets of a topology's spouts; for one thread.

    By the group's commits for any partition of the cluster: a manifest does not name the topics that a spout reads.
    """

    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._manifest = manifest
        self.cluster = ClusterStatus(kafka)

    def read(self, named: str | None = None) -> list[SourceSpout]:
        """The spouts that have committed offsets of topics, as of now.

        If the user has named a topic that is none of these, also the spouts that have committed none at all: they may
        read it, and have not begun to.

        Raises `StatusError` if there are none, `AccessError` if the offsets may not be read.
        """
        notices = {notices_topic(self._manifest.topology, each.name) for each in self._manifest.spouts}
        topics = {
            name: count
            for name, count in self.cluster.catalogue.topics().items()
            if name not in notices and not name.startswith(_INTERNAL)
        }
        places = [(name, number) for name, count in topics.items() for number in range(count)]
        groups = {component_group(self._manifest.topology, each.name): each for each in self._manifest.spouts}
        commits = self.cluster.commits.of(dict.fromkeys(groups, places))
        if self.cluster.commits.refused:
            group = min(self.cluster.commits.refused)
            raise AccessError(f"group {group} has no DESCRIBE ACL for this user: {remedy(VIEWER)}")
        spouts = [_spout(groups[group], topics, of_group) for group, of_group in commits.items() if of_group]
        if named in topics and not any(named in each.topics for each in spouts):
            unread = [each for group, each in groups.items() if not commits.get(group)]
            spouts += [SourceSpout(each, {named: topics[named]}, topics, {}) for each in unread]
        if not spouts:
            raise StatusError(
                f"no spout of {self._manifest.topology} has committed an offset, so it is not known which topics they "
                "read: name the topic, --topic TOPIC or --offset TOPIC/PARTITION/OFFSET. Only a KafkaSpout and spouts "
                "in Spark read topics; start it: acker run MODULE:TOPOLOGY. If it runs, allow this user Describe of "
                "its topics"
            )
        return spouts

    def roots(self, spout: SourceSpout, at: Place, offset: int) -> list[int]:
        """The roots that the attempts at a message may have; none if its topic was deleted."""
        topic, partition = at
        topic_id = self.cluster.catalogue.topic_id(topic)
        if topic_id is None:
            return []
        index = [each.name for each in self._manifest.spouts].index(spout.name)
        key, partitions = topic_key(topic_id), self._manifest.ack_partitions
        with suppress(PositionError):  # such an offset has no root
            return [
                positional_root(Position(index, number, offset, attempt), key, partitions)
                for number in source_numbers(spout.topics, partition)
                for attempt in range(MAX_ATTEMPTS)
            ]
        return []


def source_numbers(topics: Collection[str], partition: int) -> list[int]:
    """The numbers that a source partition may have in positional roots.

    They depend on how many topics the spout reads, and in which order it names them. Its group may have committed
    offsets of others before. Roots differ by topic, so a wrong number has the root of no message.
    """
    shares = [(index, MAX_PARTITIONS // count) for count in range(1, len(topics) + 1) for index in range(count)]
    return sorted({index * share + partition for index, share in shares if partition < share})


def _spout(manifest: SpoutManifest, topics: Mapping[str, int], commits: Mapping[Place, TopicPartition]) -> SourceSpout:
    read = {name: topics[name] for name in sorted({topic for topic, _ in commits})}
    done = {place: done_of(commit) for place, commit in commits.items()}
    begins: dict[Place, int] = {}
    for place, commit in commits.items():
        with suppress(CommitError):  # of another version
            begins[place] = SourceCommit.read(commit.offset, commit.metadata).begin
    return SourceSpout(manifest, read, topics, done, begins)
