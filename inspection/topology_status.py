"""Topologies on a cluster: their topics, the members and committed offsets of their groups, and lags.

Committed offsets are read with a consumer for each group, which never joins it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from inspection.health.lags import GroupLag, Lags
from inspection.topic_status import PartitionStatus, TopicStatus, TopologyLags, TopologyStatus, sum_known
from inspection.transaction_markers import TransactionMarkers, read_from
from kafka_clients.catalogue import CONTACT_SECONDS, Catalogue, KafkaSettings
from kafka_clients.errors import REFUSED, AccessError
from kafka_clients.group_commits import Commits, GroupCommits
from kafka_clients.log_reader import unanswered
from kafka_clients.retriable import Place, answer_or_error, retrying
from tuple_tree.manifest import Manifest
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
from tuple_tree.topics import topic_specs

T = TypeVar("T")
_NO_GROUP: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)
_BEGIN_AND_END: Final = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NEWEST: Final = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


class ClusterStatus:
    """Requests the state of topics and groups from a cluster, many at a time."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self.catalogue = Catalogue(kafka)
        self._admin = self.catalogue.admin
        self.commits = GroupCommits(kafka)
        self._markers = TransactionMarkers(read_from(kafka))

    def of(
        self, manifests: Iterable[Manifest], existing: Mapping[str, int], *, with_members: bool = True
    ) -> list[TopologyStatus]:
        """The status of topologies; `existing` are all topics of the cluster with their numbers of partitions.

        With members of groups, a process that repeats this aborts where a broker goes away meanwhile (ADR 18). Without
        them, a lag that has changed since the last call counts markers of transactions. Raises `AccessError` if topics
        may not be described, `BrokerUnreachableError` if there is no answer in time.
        """
        own = [(manifest, _own_topics(manifest)) for manifest in manifests]
        places = {
            topic: [(topic, number) for number in range(existing.get(topic, 0))]
            for _, topics in own
            for topic in topics
        }
        read: dict[str, list[Place]] = defaultdict(list)
        for topic, (_, group) in (item for _, topics in own for item in topics.items()):
            if group is not None:
                read[group] += places[topic]
        external = {component_group(each.topology, it.name) for each, _ in own for it in each.components if it.external}
        offset_ranges = self.offset_ranges([place for of_topic in places.values() for place in of_topic])
        members = self.members(read) if with_members else dict.fromkeys(read)
        committed = self.commits.of(read)

        def partition(place: Place, group: str | None) -> PartitionStatus:
            begin, end = offset_ranges[place]
            commit = committed.get(group or "", {}).get(place)
            done = None if commit is None else commit.offset
            # A group without commits begins at the beginning; but a spout that never commits reads nothing there, and
            # an external component may keep its offsets elsewhere.
            starts_at_begin = group in committed and ".notices." not in place[0] and group not in external
            position = begin if done is None and starts_at_begin else done
            return PartitionStatus.of(place[1], begin, end, commit, position)

        statuses = self._markers.without(
            (
                TopicStatus(
                    *(topic, expected, group),
                    tuple(partition(at, group) for at in places[topic] if at in offset_ranges),
                )
                for _, topics in own
                for topic, (expected, group) in topics.items()
            ),
            at_once=with_members,
        )
        by_name = {status.name: status for status in statuses}
        return [
            TopologyStatus(
                manifest,
                tuple(by_name[topic] for topic in topics),
                {group: members[group] for _, group in topics.values() if group is not None},
            )
            for manifest, topics in own
        ]

    def sources(self, manifest: Manifest, commits: Commits | None = None) -> tuple[TopicStatus, ...]:
        """The topics that its spouts read, each with the partitions for which they have committed offsets.

        Without `commits` they are requested, which is for commands that run once. Topics without a DESCRIBE ACL, or
        deleted ones, are left out: a source belongs to another application.
        """
        own = _own_topics(manifest)
        groups = [component_group(manifest.topology, spout.name) for spout in manifest.spouts]
        topics: dict[tuple[str, str], list[PartitionStatus]] = defaultdict(list)
        for group, of_group in (self.all_commits(groups) if commits is None else commits).items():
            places = [place for place in sorted(of_group) if place[0] not in own]
            for place, (begin, end) in sorted(self.offset_ranges(places, only_known=True).items()):
                commit = of_group[place]
                topics[place[0], group].append(PartitionStatus.of(place[1], begin, end, commit, commit.offset))
        found = (
            TopicStatus(name, len(partitions), group, tuple(partitions))
            for (name, group), partitions in sorted(topics.items())
        )
        return tuple(self._markers.without(found, at_once=commits is None))

    def all_commits(self, groups: Iterable[str]) -> Commits:
        """The commits of groups whose partitions are not known; they are requested for all partitions that exist.

        Not with `list_consumer_group_offsets`, see `kafka_clients.librdkafka_bugs`. Raises `BrokerUnreachableError`.
        """
        places = [(topic, number) for topic, count in self.catalogue.topics().items() for number in range(count)]
        return self.commits.of(dict.fromkeys(groups, places))

    def reported_ms(self, topologies: Iterable[str]) -> dict[str, int]:
        """Topology → the time of the latest record of its statistics, except topologies without any."""
        places = {stats_topic(name): name for name in topologies}
        found: dict[str, int] = {}
        for at, answer in self._listed([(topic, 0) for topic in places], _NEWEST).items():
            with suppress(KafkaException):
                found[places[at.topic]] = answer.result().timestamp
        return found

    def members(self, groups: Iterable[str]) -> dict[str, int | None]:
        """Consumer group → its members; None if it may not be described. Raises `BrokerUnreachableError`."""
        names = sorted(set(groups))

        def ask() -> dict[str, int | None]:
            found: dict[str, int | None] = {}
            for group, answer in self._admin.describe_consumer_groups(names, request_timeout=CONTACT_SECONDS).items():
                group_or_error = answer_or_error(answer, *_NO_GROUP, *REFUSED)
                if isinstance(group_or_error, KafkaError):
                    found[group] = 0 if group_or_error.code() in _NO_GROUP else None
                else:
                    found[group] = len(group_or_error.members)
            return found

        return _answered(self._admin, ask) if names else {}

    def lags(self, manifest: Manifest, sources: Mapping[str, Iterable[str]]) -> TopologyLags:
        """The lags of a topology now; `sources` are the topics that each `KafkaSpout` reads. Errors as of `of`."""
        existing, topology = self.catalogue.topics(), manifest.topology
        (status,) = self.of([manifest], existing, with_members=False)
        inboxes = {tuples_topic(topology, bolt.name): bolt.name for bolt in manifest.inboxes}
        lags = {bolt.name: status.of_component(bolt.name)[1] for bolt in manifest.inboxes}
        done = {inboxes[topic.name]: topic.done_ahead for topic in status.topics if topic.name in inboxes}
        all_sources: list[TopicStatus] = []
        for spout, topics in sources.items():
            read = [(topic, number) for topic in topics for number in range(existing.get(topic, 0))]
            commits = self.commits.of({component_group(topology, spout): read})
            of_spout = self.sources(manifest, commits)
            all_sources += of_spout
            lags[spout] = sum_known(topic.lag for topic in of_spout)
            done[spout] = sum(topic.done_ahead for topic in of_spout)
        (letters,) = [topic.partitions for topic in status.topics if topic.name == dead_letters_topic(topology)]
        dead_letters = (letters[0].begin, letters[0].end) if letters else None
        tasks = {inboxes[topic.name]: topic.partitions for topic in status.topics if topic.name in inboxes}
        of_tasks = {bolt: {one.partition: one.lag for one in of} for bolt, of in tasks.items()}
        return TopologyLags(lags, dead_letters, of_tasks, done, status.topics, tuple(all_sources))

    def offset_ranges(self, places: list[Place], *, only_known: bool = False) -> dict[Place, tuple[int, int]]:
        """The begin and the end of partitions, except partitions that do not exist.

        Waits for partitions that have no leader yet. With `only_known` it neither waits nor raises: partitions without
        an answer are left out.
        """
        begins, ends = (self._offsets(places, spec, only_known=only_known) for spec in _BEGIN_AND_END)
        return {place: (begin, ends[place]) for place, begin in begins.items() if place in ends}

    def _offsets(self, places: list[Place], which: OffsetSpec, *, only_known: bool) -> dict[Place, int]:
        def ask() -> dict[Place, int]:
            offsets: dict[Place, int] = {}
            for at, answer in self._listed(places, which).items():
                try:
                    offsets[at.topic, at.partition] = answer.result().offset
                except KafkaException as error:
                    code = error.args[0].code()
                    if only_known or code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    if code not in REFUSED:
                        raise
                    raise AccessError(
                        f"topic {at.topic} has no DESCRIBE ACL for this user: allow Describe for topics and groups "
                        "that begin with the topology's name"
                    ) from error
            return offsets

        return _answered(self._admin, ask)

    def _listed(self, places: list[Place], which: OffsetSpec) -> Mapping[TopicPartition, Any]:
        wanted = {TopicPartition(*place): which for place in places}
        return self._admin.list_offsets(wanted, request_timeout=CONTACT_SECONDS) if places else {}


def lags_of(manifest: Manifest, topics: Iterable[TopicStatus]) -> Lags:
    """The lags of the groups of a topology on its own topics and its sources, where they commit."""
    # A spout commits its offsets of the source, not of its notices.
    notices = notices_topic(manifest.topology, "")
    return {
        (topic.group, (topic.name, one.partition)): GroupLag(one.end - one.lag, one.lag)
        for topic in topics
        if topic.group is not None and not topic.name.startswith(notices)
        for one in topic.partitions
        if one.lag is not None
    }


def _answered(admin: AdminClient, ask: Callable[[], T]) -> T:
    try:
        return retrying(admin, ask, CONTACT_SECONDS)
    except KafkaException as error:
        raise unanswered(error.args[0]) from error


def _own_topics(manifest: Manifest) -> dict[str, tuple[int, str | None]]:
    """Topic → its partitions, and the consumer group that reads it."""
    topology = manifest.topology
    readers = {acks_topic(topology): acker_group(topology)} if manifest.acking else {}
    for component in manifest.heads:
        topic = notices_topic if component.kind == "spout" else tuples_topic
        readers[topic(topology, component.name)] = component_group(topology, component.name)
    specs = [spec for spec in topic_specs(manifest) if spec.name != TOPOLOGIES_TOPIC]
    return {spec.name: (spec.partitions, readers.get(spec.name)) for spec in specs}
