"""What the doctor looks at: this machine, the brokers, and their topologies, twice within a few seconds.

Nothing is judged here, and nothing is written anywhere. How it is: `inspection.doctor`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from inspection.doctor import (
    Backlog,
    ClockBounds,
    ClusterFacts,
    Facts,
    MachineFacts,
    PartitionFacts,
    TopicFacts,
    TopologyFacts,
)
from inspection.stats_log import StatsLog
from inspection.topology_status import ClusterStatus, TopicStatus, TopologyStatus
from kafka_clients.catalogue import CONTACT_S, Catalogue, KafkaSettings
from kafka_clients.client_settings import for_admin, for_consumer
from kafka_clients.errors import ClusterError, TopicError
from kafka_clients.forgotten_clients import forgettable
from local_kafka.errors import LocalKafkaError
from local_kafka.java import find_java
from tuple_tree.manifest import Manifest
from tuple_tree.names import CATALOGUE_GROUP, TOPOLOGIES_TOPIC, acks_topic, notices_topic
from tuple_tree.process_stats import StatsRecord
from tuple_tree.topics import topic_specs

_BROKERS_TIME: Final = 2
"""Kafka's number for a timestamp that the broker gave, not the writer."""
_POLL_S: Final = 0.1
_PEEK_S: Final = 5.0
_SAID_S: Final = 5.0
"""How old what a process says of itself may be, in seconds."""
_PROTOCOL: Final = "inter.broker.protocol.version"

Say = Callable[[str], None]
"""Takes a line about what is being looked at."""


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    statuses: Mapping[str, TopologyStatus]
    sources: Mapping[str, tuple[TopicStatus, ...]]

    def read_by_groups(self, topology: str) -> Iterable[TopicStatus]:
        """The topics for which a group commits offsets."""
        for topic in self.statuses[topology].topics:
            # A spout commits how far its source is, not its notices.
            if topic.group is not None and not topic.name.startswith(notices_topic(topology, "")):
                yield topic
        yield from self.sources[topology]


def look_at_machine() -> MachineFacts:
    """Looks at this machine."""
    try:
        return MachineFacts(find_java().version)
    except LocalKafkaError as error:
        return MachineFacts(None, str(error))


def look_at_all(
    kafka: KafkaSettings,
    wanted: str | None,
    declared: Manifest | None,
    watch_s: float,
    say: Say,
    *,
    with_machine: bool = True,
) -> Facts:
    """Looks at everything.

    Args:
        kafka: librdkafka properties.
        wanted: a topology's name; None for all that are published.
        declared: the manifest of the topology's code, if that is known.
        watch_s: how long lag and clocks are watched, in seconds.
        say: is told what is being looked at.
        with_machine: whether this machine is looked at as well.
    """
    machine = None
    if with_machine:
        say("looking for Java …")
        machine = look_at_machine()
    servers = str(kafka.get("bootstrap.servers"))
    say(f"asking {servers} …")
    try:
        return _Gathering(kafka, wanted, declared, watch_s, say).facts(machine)
    except (ClusterError, KafkaException) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        return Facts(machine, ClusterFacts(servers, problem=why), wanted=wanted)


class _Gathering:
    def __init__(
        self, kafka: KafkaSettings, wanted: str | None, declared: Manifest | None, watch_s: float, say: Say
    ) -> None:
        self._kafka = kafka
        self._wanted = wanted
        self._declared = declared
        self._watch_s = watch_s
        self._say = say
        self._catalogue = Catalogue(kafka)
        self._status = ClusterStatus(kafka)
        self._admin = forgettable(AdminClient)({**for_admin(kafka), "log_level": 0})

    def facts(self, machine: MachineFacts | None) -> Facts:
        published = self._catalogue.manifests()
        brokers = [node.id for node in self._admin.describe_cluster(request_timeout=CONTACT_S).result().nodes]
        chosen = {name: what for name, what in sorted(published.items()) if self._wanted in (None, name)}
        manifests = [what for what in chosen.values() if isinstance(what, Manifest)]
        existing = self._catalogue.topics()
        topics, hidden = self._topics(manifests, existing)
        # What cannot be seen counts as missing for those who ask for offsets.
        visible = {name: len(topic.partitions) for name, topic in topics.items()}
        before_s = time.time()
        first = self._look(manifests, visible)
        clock = self._watch(manifests, first, before_s)
        second = self._look(manifests, visible)
        backlogs = self._backlogs(first, second)
        return Facts(
            machine,
            ClusterFacts(
                str(self._kafka.get("bootstrap.servers")),
                len(brokers),
                version=self._version(brokers[0]),
                clock=clock,
            ),
            tuple(
                TopologyFacts(
                    manifest,
                    {name: topic for name, topic in topics.items() if _belongs(name, manifest)},
                    hidden,
                    second.statuses[manifest.topology].members,
                    tuple(backlogs.get(manifest.topology, ())),
                    self._oldest_inputs(manifest),
                    self._declared if manifest.topology == self._wanted else None,
                )
                for manifest in manifests
            ),
            {name: str(what) for name, what in chosen.items() if not isinstance(what, Manifest)},
            self._wanted,
            tuple(sorted(published)),
        )

    def _oldest_inputs(self, manifest: Manifest) -> dict[str, tuple[str, float]]:
        """What the bolts say; nothing where the topic of the stats does not exist or may not be read."""
        log = StatsLog(self._kafka, manifest.topology)
        said: dict[str, StatsRecord] = {}
        try:
            log.open(_SAID_S)
            said = {record.process: record for record in log.catch_up() if record.kind == "component"}
        except TopicError:
            return {}
        finally:
            log.close()
        found: dict[str, tuple[str, float]] = {}
        for record in said.values():
            place, seconds = record.stats.get("oldest_input"), record.stats.get("oldest_input_seconds")
            if place and isinstance(seconds, float) and seconds > found.get(record.name, ("", 0.0))[1]:
                found[record.name] = (str(place), seconds)
        return found

    def _version(self, broker: int) -> str | None:
        """What brokers before 4.0 say of their version; None if they do not, or may not be asked."""
        asked = self._admin.describe_configs(
            [ConfigResource(ResourceType.BROKER, str(broker))], request_timeout=CONTACT_S
        )
        for answer in asked.values():
            try:
                entry = answer.result().get(_PROTOCOL)
            except KafkaException:
                return None
            return None if entry is None else entry.value
        return None

    def _topics(
        self, manifests: Iterable[Manifest], existing: Mapping[str, int]
    ) -> tuple[dict[str, TopicFacts], frozenset[str]]:
        """The topics of topologies as they are, and those that may not be seen."""
        names = [name for name in existing if any(_belongs(name, manifest) for manifest in manifests)]
        # What this user may not see is not among those that exist.
        names += sorted({spec.name for manifest in manifests for spec in topic_specs(manifest)} - set(names))
        if not names:
            return {}, frozenset()
        found: dict[str, TopicFacts] = {}
        hidden = set()
        configs = self._configs(names)
        described = self._admin.describe_topics(TopicCollection(names), request_timeout=CONTACT_S)
        for name, answer in described.items():
            try:
                partitions = answer.result().partitions
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    hidden.add(name)
                elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                continue
            found[name] = TopicFacts(
                name,
                tuple(
                    PartitionFacts(each.id, each.leader is not None, len(each.replicas), len(each.isr))
                    for each in partitions
                ),
                configs.get(name),
            )
        return found, frozenset(hidden)

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """Topic → its settings; without those that may not be asked."""
        found = {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        for resource, answer in self._admin.describe_configs(resources, request_timeout=CONTACT_S).items():
            try:
                found[resource.name] = {key: entry.value for key, entry in answer.result().items()}
            except KafkaException:
                continue
        return found

    def _look(self, manifests: Iterable[Manifest], existing: Mapping[str, int]) -> _Look:
        statuses = self._status.of(manifests, existing)
        return _Look(
            time.monotonic(),
            {status.manifest.topology: status for status in statuses},
            {manifest.topology: self._status.sources(manifest) for manifest in manifests},
        )

    def _watch(self, manifests: Iterable[Manifest], look: _Look, before_s: float) -> ClockBounds | None:
        """Reads what is appended to ack logs for a while, and tells the clocks from it.

        What lay beyond the end at the first look was appended after that began, and before it was read.
        """
        ends = [
            TopicPartition(topic.name, one.partition, one.end)
            for manifest in manifests
            for topic in look.statuses[manifest.topology].topics
            if topic.name == acks_topic(manifest.topology)
            for one in topic.partitions
        ]
        self._say(f"watching for {self._watch_s:g} s …")
        deadline = time.monotonic() + self._watch_s
        if not ends:
            threading.Event().wait(self._watch_s)
            return None
        least, most = float("-inf"), float("inf")
        consumer = self._consumer()
        try:
            consumer.assign(ends)
            while (left := deadline - time.monotonic()) > 0:
                for message in consumer.consume(500, min(_POLL_S, left)):
                    if message.error() is not None:
                        continue
                    kind, at_ms = message.timestamp()
                    if kind == _BROKERS_TIME:
                        least = max(least, at_ms / 1000 - time.time())
                        most = min(most, at_ms / 1000 - before_s)
        finally:
            consumer.close()
        return None if most == float("inf") else ClockBounds(least, most)

    def _backlogs(self, first: _Look, second: _Look) -> dict[str, list[Backlog]]:
        seconds = second.at_s - first.at_s
        found: dict[str, list[Backlog]] = {}
        asked: list[tuple[str, str, int, int]] = []
        for topology in second.statuses:
            before = {(topic.group, topic.name): topic for topic in first.read_by_groups(topology)}
            for topic in second.read_by_groups(topology):
                for backlog, reached in _of_topic(before.get((topic.group, topic.name)), topic, seconds):
                    found.setdefault(topology, []).append(backlog)
                    if backlog.after:
                        asked.append((topology, topic.name, backlog.partition, reached))
        if asked:
            self._say("looking at what waits …")
            real = self._with_records([(topic, partition, at) for _, topic, partition, at in asked])
            for topology, backlogs in found.items():
                found[topology] = [
                    each
                    if not each.after or (each.topic, each.partition) in real
                    else Backlog(
                        each.group, each.topic, each.partition, each.seconds, each.before, each.after, each.done, False
                    )
                    for each in backlogs
                ]
        return found

    def _with_records(self, places: Iterable[tuple[str, int, int]]) -> set[tuple[str, int]]:
        """Those of (topic, partition, offset) where a record follows, and not only marks of transactions.

        Whatever is not known in time counts as one: it may be in a transaction that is open.
        """
        waiting = {(topic, partition): at for topic, partition, at in places}
        real = set(waiting)
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, partition, at) for (topic, partition), at in waiting.items()])
            deadline = time.monotonic() + _PEEK_S
            while waiting and time.monotonic() < deadline:
                for message in consumer.consume(100, _POLL_S):
                    place = (str(message.topic()), int(message.partition() or 0))
                    error = message.error()
                    if place in waiting and (error is None or error.code() == KafkaError._PARTITION_EOF):
                        waiting.pop(place)
                        if error is not None:
                            real.discard(place)
        finally:
            consumer.close()
        return real

    def _consumer(self) -> Consumer:
        settings: dict[str, Any] = {
            **for_consumer(self._kafka),
            "log_level": 0,
            "group.id": CATALOGUE_GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
        return Consumer(settings)


def _of_topic(before: TopicStatus | None, after: TopicStatus, seconds: float) -> Iterable[tuple[Backlog, int]]:
    """The backlogs of a topic's partitions, each with the offset up to which its group has come."""
    earlier = {} if before is None else {one.partition: one for one in before.partitions}
    for one in after.partitions:
        then = earlier.get(one.partition)
        if then is None or then.lag is None or one.lag is None:
            continue
        reached_then, reached = then.end - then.lag, one.end - one.lag
        done = max(0, reached - reached_then)
        yield Backlog(after.group or "", after.name, one.partition, seconds, then.lag, one.lag, done), reached


def _belongs(topic: str, manifest: Manifest) -> bool:
    return topic == TOPOLOGIES_TOPIC or topic.startswith(f"{manifest.topology}.")
