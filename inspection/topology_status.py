"""Topologies on a cluster: their topics, members of their groups, and lags."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from inspection.group_commits import NO_GROUP, Commits, GroupCommits, commits_of
from kafka_clients.catalogue import CONTACT_S, Catalogue, KafkaSettings
from kafka_clients.client_settings import for_admin
from kafka_clients.errors import REFUSED, AccessError
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.log_reader import LEADERLESS, Place, unanswered
from tuple_tree.manifest import Manifest, topic_specs
from tuple_tree.names import (
    TOPOLOGIES_TOPIC,
    acker_group,
    acks_topic,
    component_group,
    dead_letters_topic,
    notices_topic,
    stats_topic,
    tuples_topic,
)

_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    partition: int
    begin: int
    end: int
    committed: int | None  # of the group that reads it; None if there is none, or it may not be described
    lag: int | None  # None where no group commits


@dataclass(frozen=True, slots=True)
class TopicStatus:
    name: str
    expected_partitions: int  # of the manifest
    group: str | None  # that reads it
    partitions: tuple[PartitionStatus, ...]  # empty if it does not exist

    @property
    def problem(self) -> str:
        """Empty if there is none."""
        if not self.partitions:
            return "does not exist"
        if len(self.partitions) != self.expected_partitions:
            return f"has {len(self.partitions)} partitions, but the manifest says {self.expected_partitions}"
        return ""

    @property
    def lag(self) -> int | None:
        return _sum_known(one.lag for one in self.partitions)


@dataclass(frozen=True, slots=True)
class TopologyStatus:
    manifest: Manifest
    topics: tuple[TopicStatus, ...]  # all of its own, in the manifest's order
    members: Mapping[str, int | None] = field(default_factory=dict)  # group → count; None without a DESCRIBE ACL

    @property
    def missing(self) -> list[str]:
        return [topic.name for topic in self.topics if not topic.partitions]

    @property
    def ackers(self) -> int | None:
        return self.members.get(acker_group(self.manifest.topology))

    @property
    def unread_acks(self) -> int | None:
        """Ack batches whose outcomes no worker has committed."""
        return self._lag({acks_topic(self.manifest.topology)})

    @property
    def waiting(self) -> int | None:
        """The lag of the inboxes of bolts; that of external ones only if their groups have committed."""
        return self._lag({tuples_topic(self.manifest.topology, bolt.name) for bolt in self.manifest.bolts})

    def of_component(self, name: str) -> tuple[int | None, int | None]:
        """The processes of a component, and its lag; None for what is not known."""
        topology = self.manifest.topology
        lag = self._lag({tuples_topic(topology, name), notices_topic(topology, name)})
        return self.members.get(component_group(topology, name)), lag

    def task_lags(self, bolt: str) -> dict[int, int | None]:
        """The lag of each task of a bolt."""
        inbox = tuples_topic(self.manifest.topology, bolt)
        return {one.partition: one.lag for topic in self.topics if topic.name == inbox for one in topic.partitions}

    def _lag(self, topics: set[str]) -> int | None:
        return _sum_known(topic.lag for topic in self.topics if topic.name in topics)


class ClusterStatus:
    """Requests the state of topics and groups from a cluster, many at a time."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._admin = forgettable(AdminClient)({**for_admin(kafka), "log_level": 0})
        self._commits = GroupCommits(kafka)

    def of(
        self, manifests: Iterable[Manifest], existing: Mapping[str, int], *, with_members: bool = True
    ) -> list[TopologyStatus]:
        """The status of topologies; `existing` are all topics of the cluster with their numbers of partitions.

        With members of groups, a process that repeats this aborts where a broker goes away meanwhile (ADR 18). Raises
        `AccessError` if topics may not be described, `BrokerUnreachableError` if there is no answer in time.
        """
        own = [(manifest, _own_topics(manifest)) for manifest in manifests]
        places: list[Place] = []
        read: dict[str, list[Place]] = defaultdict(list)
        for name, (_, group) in (item for _, topics in own for item in topics.items()):
            of_topic = [(name, number) for number in range(existing.get(name, 0))]
            places += of_topic
            if group is not None:
                read[group] += of_topic
        begins = self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        there = begins.keys() & ends.keys()  # without what was deleted meanwhile
        members = self.members(read) if with_members else dict.fromkeys(read)
        committed = commits_of(self._admin, read) if with_members else self._commits.of(read)

        def status(manifest: Manifest, topics: Mapping[str, tuple[int, str | None]]) -> TopologyStatus:
            external = {component_group(manifest.topology, each.name) for each in manifest.components if each.external}

            def partition(topic: str, number: int, group: str | None) -> PartitionStatus:
                begin, end = begins[topic, number], ends[topic, number]
                commit = committed.get(group or "", {}).get((topic, number))
                done = None if commit is None else commit.offset
                # A group without commits begins at the beginning; but a spout that never commits reads nothing there,
                # and an external component may keep its offsets elsewhere.
                starts_at_begin = group in committed and ".notices." not in topic and group not in external
                position = begin if done is None and starts_at_begin else done
                return PartitionStatus(number, begin, end, done, None if position is None else max(0, end - position))

            statuses = []
            for name, (expected, group) in topics.items():
                numbers = [number for number in range(existing.get(name, 0)) if (name, number) in there]
                partitions = tuple(partition(name, number, group) for number in numbers)
                statuses.append(TopicStatus(name, expected, group, partitions))
            groups = {group: members[group] for _, group in topics.values() if group is not None}
            return TopologyStatus(manifest, tuple(statuses), groups)

        return [status(manifest, topics) for manifest, topics in own]

    def sources(self, manifest: Manifest, commits: Commits | None = None) -> tuple[TopicStatus, ...]:
        """The topics that its spouts read, each with the partitions for which they have committed offsets.

        Without `commits` they are requested, which is for commands that run once. Topics without a DESCRIBE ACL, or
        deleted ones, are left out: a source belongs to another application.
        """
        own = _own_topics(manifest)
        groups = [component_group(manifest.topology, spout.name) for spout in manifest.spouts]
        topics: dict[tuple[str, str], list[PartitionStatus]] = defaultdict(list)
        for group, of_group in (commits_of(self._admin, groups) if commits is None else commits).items():
            places = [place for place in sorted(of_group) if place[0] not in own]
            begins = self._offsets(places, OffsetSpec.earliest(), only_known=True)  # type: ignore[no-untyped-call]
            ends = self._offsets(places, OffsetSpec.latest(), only_known=True)  # type: ignore[no-untyped-call]
            for place in sorted(begins.keys() & ends.keys()):
                end, done = ends[place], of_group[place].offset
                topics[place[0], group].append(PartitionStatus(place[1], begins[place], end, done, max(0, end - done)))
        return tuple(
            TopicStatus(name, len(partitions), group, tuple(partitions))
            for (name, group), partitions in sorted(topics.items())
        )

    def reported_ms(self, topologies: Iterable[str]) -> dict[str, int]:
        """Topology → the time of the latest record of its statistics, without those that have none."""
        places = {stats_topic(name): name for name in topologies}
        found: dict[str, int] = {}
        for at, answer in self._listed([(topic, 0) for topic in places], OffsetSpec.max_timestamp()).items():  # type: ignore[no-untyped-call]
            with suppress(KafkaException):
                found[places[at.topic]] = answer.result().timestamp
        return found

    def members(self, groups: Iterable[str]) -> dict[str, int | None]:
        """Consumer group → its members; None if it may not be described. Raises `BrokerUnreachableError`."""
        names = sorted(set(groups))
        described = self._admin.describe_consumer_groups(names, request_timeout=CONTACT_S) if names else {}
        found: dict[str, int | None] = {}
        for group, answer in described.items():
            try:
                found[group] = len(answer.result().members)
            except KafkaException as error:
                code = error.args[0].code()
                if code not in (*NO_GROUP, *REFUSED):
                    raise unanswered(error.args[0]) from error
                found[group] = 0 if code in NO_GROUP else None
        return found

    def _offsets(self, places: list[Place], which: OffsetSpec, *, only_known: bool = False) -> dict[Place, int]:
        """The offsets of partitions, without those that do not exist; waits for those that have no leader yet.

        With `only_known` it neither waits nor raises: partitions without an answer are left out.
        """
        offsets: dict[Place, int] = {}
        deadline = time.monotonic() + CONTACT_S
        while places:
            left: list[Place] = []
            for at, answer in self._listed(places, which).items():
                try:
                    offsets[at.topic, at.partition] = answer.result().offset
                except KafkaException as error:
                    code = error.args[0].code()
                    if only_known or code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    if code in LEADERLESS and time.monotonic() < deadline:
                        left.append((at.topic, at.partition))
                    elif code in REFUSED:
                        raise AccessError(
                            f"topic {at.topic} has no DESCRIBE ACL for this user: allow Describe for topics and "
                            "groups that begin with the topology's name"
                        ) from error
                    else:
                        raise unanswered(error.args[0]) from error
            places = left
            if places:
                time.sleep(_PAUSE_S)
        return offsets

    def _listed(self, places: list[Place], which: OffsetSpec) -> Mapping[TopicPartition, Any]:
        wanted = {TopicPartition(*place): which for place in places}
        return self._admin.list_offsets(wanted, request_timeout=CONTACT_S) if places else {}


class Waiting(NamedTuple):
    """Lags of a topology's components, and its dead letters; in the order of `TopologyView.feed_lags`."""

    # bolt, `KafkaSpout` → lag of its group; None where that may not be read, and for an external bolt without commits
    lags: Mapping[str, int | None]
    dead_letters: int | None  # None if there is no such topic
    task_lags: Mapping[str, Mapping[int, int | None]]  # bolt → task → its lag


class Lags:
    """Reads the lags of one topology."""

    def __init__(self, kafka: KafkaSettings, manifest: Manifest) -> None:
        self._manifest = manifest
        self._catalogue = Catalogue(kafka)
        self._status = ClusterStatus(kafka)
        self._source_commits = GroupCommits(kafka)

    def read(self, sources: Mapping[str, Iterable[str]] | None = None) -> Waiting:
        """The lags now; `sources` are the topics that each spout reads.

        Raises `AccessError` or `BrokerUnreachableError`.
        """
        existing = self._catalogue.topics()
        (status,) = self._status.of([self._manifest], existing, with_members=False)
        dead_letters = dead_letters_topic(self._manifest.topology)
        bolts = [bolt.name for bolt in self._manifest.bolts]
        spouts = {component_group(self._manifest.topology, spout): spout for spout in sources or {}}
        read = {
            group: [(topic, number) for topic in (sources or {})[spout] for number in range(existing.get(topic, 0))]
            for group, spout in spouts.items()
        }
        of_sources = self._status.sources(self._manifest, self._source_commits.of(read))
        (letters,) = [topic.partitions for topic in status.topics if topic.name == dead_letters]
        return Waiting(
            {bolt: status.of_component(bolt)[1] for bolt in bolts}
            | {
                spout: _sum_known(each.lag for each in of_sources if each.group == group)
                for group, spout in spouts.items()
            },
            sum(one.end - one.begin for one in letters) if letters else None,
            {bolt: status.task_lags(bolt) for bolt in bolts},
        )


def _sum_known(lags: Iterable[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def _own_topics(manifest: Manifest) -> dict[str, tuple[int, str | None]]:
    """Topic → its partitions, and the consumer group that reads it."""
    topology = manifest.topology
    readers = {acks_topic(topology): acker_group(topology)} if manifest.acking else {}
    for component in manifest.components:
        topic = notices_topic if component.kind == "spout" else tuples_topic
        readers[topic(topology, component.name)] = component_group(topology, component.name)
    specs = [spec for spec in topic_specs(manifest) if spec.name != TOPOLOGIES_TOPIC]
    return {spec.name: (spec.partitions, readers.get(spec.name)) for spec in specs}
