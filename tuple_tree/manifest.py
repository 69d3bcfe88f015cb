"""The manifest: what a topology is, as a record of `acker.topologies` for ackers, Spark jobs and tools.

It names no code: only components, tasks, streams and groupings, so any language can read it.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, model_validator

from tuple_tree.components import (
    DEFAULT_TIMEOUT_MS,
    KEYED,
    NEED_CODE,
    SHUFFLES,
    BoltManifest,
    Component,
    Frozen,
    SpoutManifest,
    Subscription,
    check_state,
)
from tuple_tree.errors import ManifestError
from tuple_tree.names import check_name
from tuple_tree.streams import StreamDeclaration, explain

DEFAULT_ACK_PARTITIONS: Final = 8
_RESETS_A_TIMEOUT: Final = 3
_SHORTEST_RESET_SECONDS: Final = 0.01
DEFAULT_TICK_MS: Final = 1_000
TREE_AGE_TIMEOUTS: Final = 10  # the largest tree age, in message timeouts, unless set
MAX_TREE_AGE_TICKS: Final = 2**18 - 2  # the largest tree age that a ledger can hold, in ticks
RESERVED_COMPONENTS: Final = frozenset({"acker"})  # component names whose consumer group would be the ackers'
Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]
"""Guarantee of a topology: no tracking; tracking and replays; tracking, and bolts that consume, produce,
ack and commit in one Kafka transaction."""


class Manifest(Frozen):
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
            if bolt.is_chained:
                self._check_chained(bolt)
            if bolt.state is not None:
                check_state(bolt, bolt.state)
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

    def _check_chained(self, bolt: BoltManifest) -> None:
        source = self.component(bolt.subscriptions[0].source)
        if len(bolt.subscriptions) > 1:
            raise ValueError(f"bolt {bolt.name!r} is chained, so it has one subscription: use another grouping")
        if bolt.external or source.external:
            raise ValueError(f"bolt {bolt.name!r} is chained to {source.name!r}, so the SDK has to run both")
        if bolt.tasks != source.tasks:
            raise ValueError(
                f"bolt {bolt.name!r} is chained to {source.name!r}, so it must have {source.tasks} tasks, not "
                f"{bolt.tasks}: leave tasks out"
            )

    def failed_in(self, by: str, message: str) -> tuple[str, str]:
        """The bolt that failed a tree, and its text; the name is empty where the notice has none.

        Args:
            by: the task that wrote the fail, `component/task`. The head of a chain writes those of its chained bolts,
                whose text begins with their own task.
        """
        begin, is_chained, text = message.partition(": ")
        inner = begin.partition("/")[0]
        if is_chained and any(bolt.name == inner and bolt.is_chained for bolt in self.bolts):
            return inner, text
        return by.partition("/")[0], message

    def head(self, component: str) -> Component:
        """The component in whose tasks a component runs: itself, or the head of its chain."""
        return self.component(self.chain(component)[0])

    def chain(self, component: str) -> tuple[str, ...]:
        """The components from the head of a chain to this component, in order."""
        found = [component]
        while isinstance(last := self.component(found[-1]), BoltManifest) and last.is_chained:
            found.append(last.subscriptions[0].source)
        return tuple(reversed(found))

    def chained_to(self, head: str) -> tuple[BoltManifest, ...]:
        """The bolts chained to a component, directly or through other bolts, each after its source."""
        found: list[BoltManifest] = []
        ahead = [head]
        for source in ahead:
            chained = [bolt for bolt in self.bolts if bolt.is_chained and bolt.subscriptions[0].source == source]
            found += chained
            ahead += [bolt.name for bolt in chained]
        return tuple(found)

    @property
    def heads(self) -> tuple[Component, ...]:
        """The components with their own tasks: all except chained bolts."""
        return tuple(each for each in self.components if not (isinstance(each, BoltManifest) and each.is_chained))

    @property
    def inboxes(self) -> tuple[BoltManifest, ...]:
        """The bolts that receive their tuples through Kafka."""
        return tuple(bolt for bolt in self.bolts if not bolt.is_chained)

    @property
    def has_chained_spouts(self) -> bool:
        """Whether a bolt is chained to a spout: trees that do not leave its tasks need no acker."""
        return any(self.chained_to(spout.name) for spout in self.spouts)

    @property
    def reset_seconds(self) -> float:
        """How often the clocks of trees whose tuples are held are restarted: a third of the least message timeout."""
        least_ms = min((spout.timeout_ms for spout in self.spouts), default=DEFAULT_TIMEOUT_MS)
        return max(_SHORTEST_RESET_SECONDS, least_ms / 1000 / _RESETS_A_TIMEOUT)

    @property
    def acking(self) -> bool:
        return self.guarantee != "at_most_once"

    def guarantee_of(self, component: str) -> Guarantee:
        """The guarantee that a component works with: a bolt with a state works in transactions in any topology."""
        return "exactly_once" if getattr(self.component(component), "state", None) is not None else self.guarantee

    @property
    def has_transactions(self) -> bool:
        return self.guarantee == "exactly_once" or any(bolt.state is not None for bolt in self.bolts)

    @property
    def spouts(self) -> tuple[SpoutManifest, ...]:
        """The spouts, in order; the index is that of positional root ids."""
        return tuple(component for component in self.components if isinstance(component, SpoutManifest))

    @property
    def outcome_topics(self) -> dict[str, str]:
        """Spout → the topic to which it writes the outcomes of its messages, of spouts that do."""
        return {each.name: each.outcomes.topic for each in self.spouts if each.outcomes is not None}

    @property
    def bolts(self) -> tuple[BoltManifest, ...]:
        return tuple(component for component in self.components if isinstance(component, BoltManifest))

    def upstream(self, bolt: str) -> list[Component]:
        """The components whose tuples, or children of these, can reach a bolt."""
        seen: set[str] = set()
        ahead = [bolt]
        while ahead:
            sources = {each.source for each in getattr(self.component(ahead.pop()), "subscriptions", ())}
            ahead += sources - seen
            seen |= sources
        return [each for each in self.components if each.name in seen]

    def spouts_upstream(self, bolt: str) -> list[SpoutManifest]:
        """The spouts whose trees can reach a bolt."""
        return [each for each in self.upstream(bolt) if isinstance(each, SpoutManifest)]

    @property
    def answered_spouts(self) -> tuple[SpoutManifest, ...]:
        """The spouts whose messages bolts answer: their trees can reach a bolt that does."""
        names = {spout.name for bolt in self.bolts if bolt.answers for spout in self.spouts_upstream(bolt.name)}
        return tuple(spout for spout in self.spouts if spout.name in names)

    def is_identified(self, component: str) -> bool:
        """Whether a component needs the identities of its inputs.

        It has a state, or a stream that leads to a bolt with one. External components do not pass identities on, and
        without tracking nothing is replayed.
        """
        return component in self._identified

    @property
    def _identified(self) -> set[str]:
        found: set[str] = set()
        needs = [bolt.name for bolt in self.bolts if bolt.state is not None]
        ahead = needs if self.acking else []
        while ahead:
            component = self.component(ahead.pop())
            if component.name not in found and not component.external:
                found.add(component.name)
                ahead += [each.source for each in getattr(component, "subscriptions", ())]
        return found

    def shuffled_to(self, name: str) -> list[BoltManifest]:
        """The bolts with several tasks, run by the SDK, to which a component emits by a shuffle grouping."""
        return [
            bolt
            for bolt in self.bolts
            if bolt.tasks > 1
            and not (bolt.external or bolt.is_chained)
            and any(each.source == name and each.grouping in SHUFFLES for each in bolt.subscriptions)
        ]

    def component(self, name: str) -> Component:
        """The component of that name. Raises `ValueError` if there is none, naming the known ones."""
        for component in self.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.components)
        raise ValueError(f"topology {self.topology!r} has no component {name!r}: it has {known}")

    def spout(self, name: str) -> SpoutManifest:
        """The spout of that name. Raises `ValueError` if there is none."""
        component = self.component(name)
        if not isinstance(component, SpoutManifest):
            raise ValueError(f"component {name!r} of topology {self.topology!r} is not a spout")
        return component

    def stream(self, component: str, stream: str) -> StreamDeclaration:
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
