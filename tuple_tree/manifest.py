"""The manifest: what a topology is, as a record of `acker.topologies` for ackers, Spark jobs and tools; its topics.

It names no code: only components, tasks, streams and groupings, so any language can read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuple_tree.errors import ManifestError
from tuple_tree.names import (
    TOPOLOGIES_TOPIC,
    acks_topic,
    check_name,
    dead_letters_topic,
    notices_topic,
    stats_topic,
    tuples_topic,
)
from tuple_tree.streams import Stream, explain

DEFAULT_ACK_PARTITIONS: Final = 8
_RESETS_A_TIMEOUT: Final = 3
_SHORTEST_RESET_SECONDS: Final = 0.01
DEFAULT_TIMEOUT_MS: Final = 30_000
DEFAULT_TICK_MS: Final = 1_000
TREE_AGE_TIMEOUTS: Final = 10  # the largest tree age, in message timeouts, unless set
MAX_TREE_AGE_TICKS: Final = 2**18 - 2  # the largest tree age that a ledger can hold, in ticks
RESERVED_COMPONENTS: Final = frozenset({"acker"})  # component names whose consumer group would be the ackers'
Grouping = Literal["shuffle", "local_or_shuffle", "none", "fields", "partial_key", "global", "all", "direct", "custom"]
"""How the receiving task is picked. `local_or_shuffle` and `none` are a `shuffle`: every tuple passes through its
recipient's topic, so no task is nearer than another. `custom` is code of the component that emits."""

KEYED: Final = ("fields", "partial_key")  # groupings by fields; the record's key holds them
SHUFFLES: Final = ("shuffle", "local_or_shuffle", "none")  # groupings for which any task will do
NEED_CODE: Final = ("custom", "direct", "partial_key")
"""Groupings that only code of the emitting component can follow: its own, or what it remembers of its emits."""

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]
"""Guarantee of a topology: no tracking; tracking and replays; tracking, and bolts that consume, produce,
ack and commit in one Kafka transaction."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subscription(_Frozen):
    """That a bolt receives a stream of a component.

    Attributes:
        source: the component that emits.
        stream: one of its streams.
        grouping: how the receiving task is picked.
        fields: what a fields or partial key grouping groups by.
    """

    source: str
    stream: str
    grouping: Grouping
    fields: tuple[str, ...] = ()


class SpoutManifest(_Frozen):
    """A spout: where tuples enter.

    Attributes:
        timeout_ms: how long its trees may make no progress, in milliseconds.
        max_pending: how many trees a task may have open.
    """

    kind: Literal["spout"] = "spout"
    name: str
    tasks: int = Field(default=1, ge=1)
    streams: tuple[Stream, ...] = ()
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1)
    max_pending: int = Field(default=10_000, ge=1)
    external: bool = False


class BoltManifest(_Frozen):
    """A bolt: what receives tuples, and may emit others."""

    kind: Literal["bolt"] = "bolt"
    name: str
    tasks: int = Field(default=1, ge=1)
    streams: tuple[Stream, ...] = ()
    subscriptions: tuple[Subscription, ...]
    external: bool = False


Component = SpoutManifest | BoltManifest


class Manifest(_Frozen):
    """A topology.

    Attributes:
        topology: its name, the first part of all its topics.
        guarantee: what it promises; with `at_most_once` there are no inits, no acks and no ackers.
        ack_partitions: P of `root mod P`; never changed while the topology lives.
        tick_ms: width of a ledger bucket in milliseconds; a timeout is kept to within one.
        max_tree_age_ms: no tree stays open longer.
        components: in the order in which they were declared.
    """

    version: Literal[1] = 1
    topology: str
    guarantee: Guarantee = "at_least_once"
    ack_partitions: int = Field(default=DEFAULT_ACK_PARTITIONS, ge=1)
    tick_ms: int = Field(default=DEFAULT_TICK_MS, ge=1)
    max_tree_age_ms: int = Field(ge=1)
    components: tuple[Annotated[Component, Field(discriminator="kind")], ...]

    @model_validator(mode="after")
    def _check(self) -> "Manifest":
        check_name("topology", self.topology)
        names = [component.name for component in self.components]
        for name in names:
            check_name("component", name)
            if name in RESERVED_COMPONENTS:
                raise ValueError(f"component name {name!r} is taken by the ackers' consumer group: choose another")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two components are named {twice[0]!r}: names must be unique within a topology")
        for component in self.components:
            streams = [stream.name for stream in component.streams]
            for stream in streams:
                if streams.count(stream) > 1:
                    raise ValueError(f"component {component.name!r} has two streams {stream!r}: give one another name")
        if self.max_tree_age_ms > MAX_TREE_AGE_TICKS * self.tick_ms:
            raise ValueError(
                f"the largest tree age, {self.max_tree_age_ms} ms, is more than {MAX_TREE_AGE_TICKS:,} ticks of "
                f"{self.tick_ms} ms: make the tick longer"
            )
        for bolt in self.bolts:
            for subscription in bolt.subscriptions:
                self._check_subscription(bolt.name, subscription)
        for spout in self.spouts:
            if spout.timeout_ms > self.max_tree_age_ms:
                raise ValueError(
                    f"the message timeout of spout {spout.name!r}, {spout.timeout_ms} ms, exceeds the largest tree "
                    f"age, {self.max_tree_age_ms} ms: raise max_tree_age"
                )
        return self

    def _check_subscription(self, bolt: str, subscription: Subscription) -> None:
        stream = self.stream(subscription.source, subscription.stream)
        if subscription.grouping in KEYED and not subscription.fields:
            raise ValueError(f"bolt {bolt!r} groups {subscription.source!r} by fields, but names none")
        if stream.direct != (subscription.grouping == "direct"):
            is_so, wanted = ("direct", "a direct grouping") if stream.direct else ("not direct", "another grouping")
            raise ValueError(
                f"bolt {bolt!r} has a {subscription.grouping} grouping of stream {stream.name!r} of "
                f"{subscription.source!r}, which is {is_so}: use {wanted}, or declare it with "
                f"direct={not stream.direct}"
            )
        if subscription.grouping in NEED_CODE and self.component(subscription.source).external:
            raise ValueError(
                f"bolt {bolt!r} has a {subscription.grouping} grouping of {subscription.source!r}, which is external: "
                "only components of the SDK can follow it, so use a fields or shuffle grouping"
            )
        missing = [name for name in subscription.fields if name not in stream.field_names]
        if missing:
            raise ValueError(
                f"bolt {bolt!r} groups by field {missing[0]!r}, which stream {stream.name!r} of "
                f"{subscription.source!r} does not have: it has {', '.join(stream.field_names)}"
            )

    @property
    def reset_seconds(self) -> float:
        """How often the clocks of trees whose tuples are held are restarted: a third of the least message timeout."""
        least_ms = min((spout.timeout_ms for spout in self.spouts), default=DEFAULT_TIMEOUT_MS)
        return max(_SHORTEST_RESET_SECONDS, least_ms / 1000 / _RESETS_A_TIMEOUT)

    @property
    def acking(self) -> bool:
        return self.guarantee != "at_most_once"

    @property
    def spouts(self) -> tuple[SpoutManifest, ...]:
        """The spouts, in order; the index is that of positional root ids."""
        return tuple(component for component in self.components if isinstance(component, SpoutManifest))

    @property
    def bolts(self) -> tuple[BoltManifest, ...]:
        return tuple(component for component in self.components if isinstance(component, BoltManifest))

    def spouts_upstream(self, bolt: str) -> list[SpoutManifest]:
        """The spouts whose trees can reach a bolt."""
        seen = {bolt}
        ahead = [bolt]
        while ahead:
            sources = {each.source for each in getattr(self.component(ahead.pop()), "subscriptions", ())}
            ahead += sources - seen
            seen |= sources
        return [spout for spout in self.spouts if spout.name in seen]

    def shuffled_to(self, name: str) -> list[BoltManifest]:
        """The bolts with several tasks, run by the SDK, to which a component emits by a shuffle grouping."""
        return [
            bolt
            for bolt in self.bolts
            if bolt.tasks > 1
            and not bolt.external
            and any(each.source == name and each.grouping in SHUFFLES for each in bolt.subscriptions)
        ]

    def component(self, name: str) -> Component:
        """The component of that name. Raises `ValueError` if there is none, naming the known ones."""
        for component in self.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.components)
        raise ValueError(f"topology {self.topology!r} has no component {name!r}: it has {known}")

    def stream(self, component: str, stream: str) -> Stream:
        """A stream of a component.

        Raises `ValueError` if the component or the stream is unknown, naming the known ones.
        """
        streams = self.component(component).streams
        for candidate in streams:
            if candidate.name == stream:
                return candidate
        declared = ", ".join(candidate.name for candidate in streams) or "none"
        raise ValueError(f"component {component!r} has no stream {stream!r}: it declares {declared}")

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()

    @classmethod
    def from_json(cls, value: bytes) -> "Manifest":
        """Reads a record of `acker.topologies`. Raises `ManifestError` if it is not a manifest of this version."""
        try:
            return cls.model_validate_json(value)
        except ValidationError as error:
            raise ManifestError(f"{explain(error)}; publish the topology again with this version") from error

    @classmethod
    def of(cls, **settings: Any) -> "Manifest":
        """Builds a manifest from keyword arguments.

        Raises `ManifestError` if they do not describe a topology; the message says what to change.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            raise ManifestError(explain(error)) from error


_HOUR_MS: Final = 3_600_000
_SHORT_RETENTION_MS: Final = 24 * _HOUR_MS
_BROKER_TIME: Final = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
_STATS_CONFIG: Final = {
    **_BROKER_TIME,
    "retention.ms": str(2 * _HOUR_MS),
    # What is in the last segment stays, however old it is.
    "segment.ms": str(_HOUR_MS // 2),
}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)  # given at creation
    required: dict[str, str] = field(default_factory=dict)  # checked at every start: wrong ones lead to wrong results
    optional: bool = False  # whether a topology does its work without it as well


def short_retention(manifest: Manifest, config: Mapping[str, str | None]) -> str | None:
    """A warning about an ack log whose retention is shorter than trees may live; None if it is not.

    A user may want it for a while, to save a disk, so it is no reason not to start: such trees time out, and are
    replayed.
    """
    least, topic = least_retention_ms(manifest), acks_topic(manifest.topology)
    # By size it may be any time, so none is promised.
    for key, wanted, limit in (("retention.ms", least, least), ("retention.bytes", -1, float("inf"))):
        value = config.get(key)
        if value is not None and 0 <= int(value) < limit:
            return (
                f"topic {topic} has {key}={value}, but trees may live for {manifest.max_tree_age_ms} ms: those whose "
                f"beginning is deleted time out when a worker takes over. Change it: kafka-configs --alter "
                f"--entity-type topics --entity-name {topic} --add-config {key}={wanted}"
            )
    return None


def least_retention_ms(manifest: Manifest) -> int:
    # As long as a tree may live, as long again for the time in which no worker runs, and some to spare.
    return 3 * manifest.max_tree_age_ms


def topic_specs(manifest: Manifest) -> list[TopicSpec]:
    """All topics of a topology, `acker.topologies` included."""
    topology = manifest.topology
    delete = {"cleanup.policy": "delete"}
    short = {**delete, "retention.ms": str(_SHORT_RETENTION_MS)}
    specs = [TopicSpec(TOPOLOGIES_TOPIC, 1, {"cleanup.policy": "compact"}, {"cleanup.policy": "compact"})]
    if manifest.acking:
        retention = max(_SHORT_RETENTION_MS, least_retention_ms(manifest))
        config = {**_BROKER_TIME, "retention.ms": str(retention)}
        specs.append(TopicSpec(acks_topic(topology), manifest.ack_partitions, config, _BROKER_TIME))
    # With `at_most_once` it has no records: the group of a spout shares its partitions as tasks.
    specs += [TopicSpec(notices_topic(topology, spout.name), spout.tasks, short, delete) for spout in manifest.spouts]
    specs += [TopicSpec(tuples_topic(topology, bolt.name), bolt.tasks, delete, delete) for bolt in manifest.bolts]
    specs.append(TopicSpec(dead_letters_topic(topology), 1, delete, delete))
    specs.append(TopicSpec(stats_topic(topology), 1, _STATS_CONFIG, _BROKER_TIME, optional=True))
    return specs
