"""Gathers what the doctor checks: facts of the brokers and their topologies, and this machine's Java.

Lags are read twice within a few seconds. Nothing is written anywhere.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from inspection.doctor.facts import Facts, TopologyFacts
from inspection.doctor.topic_checks import unknown_topics
from inspection.health.lags import GroupLag, Lags, lag_changes_between
from inspection.health.limits import RECENT_SECONDS
from inspection.health.observation import Observation, OpenMessage
from inspection.observer import latest
from inspection.open_messages import OpenMessages
from inspection.topic_status import TopologyStatus
from inspection.topology_status import ClusterStatus, lags_of
from kafka_clients.catalogue import CONTACT_SECONDS, KafkaSettings
from kafka_clients.errors import GONE, REFUSED, BrokerError
from kafka_clients.log_reader import LogReader, Place, place_of
from local_kafka.errors import LocalKafkaError
from local_kafka.java import find_java
from tuple_tree.errors import WireError
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, acks_topic, state_topic, tuples_topic
from tuple_tree.outcome_records import other_writers
from tuple_tree.state_records import ABOUT_KEY, About
from tuple_tree.topics import topic_specs

_POLL_SECONDS: Final = 0.1
_PEEK_SECONDS: Final = 5.0
_STATS_SECONDS: Final = RECENT_SECONDS + 5.0  # of statistics that are read
_PROTOCOL: Final = "inter.broker.protocol.version"

Report = Callable[[str], None]  # called with a line about what is being read


def with_java(facts: Facts) -> Facts:
    """The facts and those of this machine's Java."""
    try:
        return replace(facts, java=find_java().version)
    except LocalKafkaError as error:
        return replace(facts, java_problem=str(error))


def gather_facts(
    kafka: KafkaSettings, wanted: str | None, declared: Manifest | None, watch_s: float, report: Report
) -> Facts:
    """Gathers all facts of a cluster.

    Args:
        wanted: a topology's name; None for all that are published.
        declared: the manifest of the topology's code, if that is known.
        watch_s: how long lag and clocks are watched, in seconds.
        report: called with what is being read.
    """
    servers = str(kafka.get("bootstrap.servers"))
    report(f"requesting the state of {servers} …")
    try:
        return _Gathering(kafka, report).facts(wanted, declared, watch_s)
    except (BrokerError, KafkaException) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        return Facts(servers, problem=why, wanted=wanted)


class _Gathering:
    def __init__(self, kafka: KafkaSettings, report: Report) -> None:
        self._kafka = kafka
        self._report = report
        self._status = ClusterStatus(kafka)
        self._admin = self._status.catalogue.admin

    def facts(self, wanted: str | None, declared: Manifest | None, watch_s: float) -> Facts:
        published, controls = self._status.catalogue.manifests(), self._status.catalogue.controls()
        brokers = self._status.catalogue.await_brokers(1, CONTACT_SECONDS)
        chosen = {name: each for name, each in sorted(published.items()) if wanted in (None, name)}
        manifests = [each for each in chosen.values() if isinstance(each, Manifest)]
        names = [name for name in self._status.catalogue.topics() if any(_belongs(name, each) for each in manifests)]
        # Topics without a DESCRIBE ACL are not listed.
        names += sorted({spec.name for manifest in manifests for spec in topic_specs(manifest)} - set(names))
        described = self._status.catalogue.described(names)
        topics = {name: each.partitions for name, each in described.items() if not isinstance(each, KafkaError)}
        errors = {name: each.code() for name, each in described.items() if isinstance(each, KafkaError)}
        configs = self._configs(ResourceType.TOPIC, names)
        # A topic without a DESCRIBE ACL counts as missing where offsets are requested.
        visible = {name: len(partitions) for name, partitions in topics.items()}
        before_s, began_s = time.time(), time.monotonic()
        statuses = self._status.of(manifests, visible)
        first = self._lags(statuses)
        clock = self._watch(statuses, before_s, watch_s)
        seconds = time.monotonic() - began_s
        statuses = self._status.of(manifests, visible)
        lag_changes = lag_changes_between(seconds, first, self._lags(statuses))
        held = {status.manifest.topology: self._held(status.manifest) for status in statuses}
        return Facts(
            str(self._kafka.get("bootstrap.servers")),
            len(brokers),
            version=self._version(brokers[0]),
            clock=clock,
            topologies=tuple(
                TopologyFacts(
                    Observation(
                        status.manifest,
                        latest(self._kafka, status.manifest, _STATS_SECONDS),
                        tuple(each for each in lag_changes if _belongs(each.group, status.manifest)),
                        held[status.manifest.topology],
                        status.members,
                        controls[name].state if (name := status.manifest.topology) in controls else "running",
                    ),
                    {name: each for name, each in topics.items() if _belongs(name, status.manifest)},
                    configs,
                    frozenset(name for name, code in errors.items() if code in REFUSED),
                    (abouts := self._descriptions(status)),
                    self._source_ids(abouts.values()),
                    declared if status.manifest.topology == wanted else None,
                    {
                        spout: other_writers(status.manifest, spout, published)
                        for spout in status.manifest.outcome_topics
                    },
                    self._strangers(topics, status.manifest),
                )
                for status in statuses
            ),
            unreadable={name: str(each) for name, each in chosen.items() if not isinstance(each, Manifest)},
            wanted=wanted,
            published=tuple(sorted(published)),
        )

    def _version(self, broker: int) -> str | None:
        """The protocol version that brokers before 4.0 report; None if there is none, or it may not be read."""
        return self._configs(ResourceType.BROKER, [str(broker)]).get(str(broker), {}).get(_PROTOCOL)

    def _configs(self, kind: ResourceType, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """Topic or broker → its settings; except those without permission."""
        found: dict[str, dict[str, str | None]] = {}
        resources = [ConfigResource(kind, name) for name in names]
        if not resources:
            return found
        for resource, answer in self._admin.describe_configs(resources, request_timeout=CONTACT_SECONDS).items():
            try:
                found[resource.name] = {key: entry.value for key, entry in answer.result().items()}
            except KafkaException:
                continue
        return found

    def _lags(self, statuses: Iterable[TopologyStatus]) -> Lags:
        lags: dict[tuple[str, Place], GroupLag] = {}
        for status in statuses:
            lags |= lags_of(status.manifest, (*status.topics, *self._status.sources(status.manifest)))
        return lags

    def _held(self, manifest: Manifest) -> tuple[OpenMessage, ...]:
        """The open messages at committed offsets of sources that have failed often, or are some of very many."""
        return OpenMessages(self._kafka).of(self._status.sources(manifest))

    def _strangers(self, topics: Iterable[str], manifest: Manifest) -> dict[str, int]:
        """See `TopologyFacts.strangers`."""
        groups = unknown_topics(topics, manifest)
        members = self._status.members(groups.values())
        return {topic: count for topic, group in groups.items() if (count := members[group])}

    def _descriptions(self, status: TopologyStatus) -> dict[Place, bytes]:
        """The records that describe changelogs; see `TopologyFacts.abouts`."""
        name, found = status.manifest.topology, dict[Place, bytes]()
        states = [bolt.name for bolt in status.manifest.bolts if bolt.state is not None]
        topics = {topic.name: topic for topic in status.topics}
        wanted = {
            (state_topic(name, bolt), each.partition): each.begin
            for bolt in states
            for each in topics[state_topic(name, bolt)].partitions
        }
        if not wanted:
            return found
        self._report("reading changelogs …")
        inboxes = [topics[tuples_topic(name, bolt)] for bolt in states]
        used = {
            (state_topic(name, bolt), each.partition)
            for bolt, inbox in zip(states, inboxes, strict=True)
            for each in inbox.partitions
            if each.committed
        }
        with LogReader(self._kafka) as reader:
            reader.assign(wanted)
            deadline = time.monotonic() + _PEEK_SECONDS
            # It is the first record of a partition, and stays there unless it is written again.
            while (left := wanted.keys() - found.keys()) and time.monotonic() < deadline:
                for message in reader.poll(_POLL_SECONDS, ignoring=(*REFUSED, *GONE)):
                    if message.key() == ABOUT_KEY:
                        found[place_of(message)] = message.value() or b""
                        reader.pause(place_of(message))
                if left <= reader.ended.keys():
                    break
            return {**dict.fromkeys(used & reader.ended.keys(), b""), **found}

    def _source_ids(self, abouts: Iterable[bytes]) -> dict[str, str]:
        """The ids of the source topics of changelogs; see `TopologyFacts.source_ids`."""
        topics: set[str] = set()
        for about in abouts:
            with suppress(WireError):  # `check_states` reports it
                topics.update(*About.from_json(about).sources.values())
        described = self._status.catalogue.described(topics) if topics else {}
        return {name: str(each.topic_id) for name, each in described.items() if not isinstance(each, KafkaError)}

    def _watch(self, statuses: Iterable[TopologyStatus], before_s: float, watch_s: float) -> tuple[float, float] | None:
        """Reads what is appended to ack logs for a while, and compares the clocks.

        A record beyond their ends at the first look was appended after `before_s`, and before it was read.
        """
        self._report(f"watching for {watch_s:g} s …")
        deadline = time.monotonic() + watch_s
        ends = {
            (topic.name, one.partition): one.end
            for status in statuses
            for topic in status.topics
            if topic.name == acks_topic(status.manifest.topology)
            for one in topic.partitions
        }
        if not ends:
            threading.Event().wait(watch_s)
            return None
        bounds: list[tuple[float, float]] = []
        with LogReader(self._kafka) as reader:
            reader.assign(ends)
            while (left := deadline - time.monotonic()) > 0:
                for message in reader.poll(min(_POLL_SECONDS, left), ignoring=(*REFUSED, *GONE)):
                    kind, at_ms = message.timestamp()
                    if kind == TIMESTAMP_LOG_APPEND_TIME:
                        bounds.append((at_ms / 1000 - time.time(), at_ms / 1000 - before_s))
        if not bounds:
            return None
        return max(least for least, _ in bounds), min(most for _, most in bounds)


def _belongs(name: str, manifest: Manifest) -> bool:
    """Whether a topic or a group is of a topology."""
    return name == TOPOLOGIES_TOPIC or name.startswith(f"{manifest.topology}.")
