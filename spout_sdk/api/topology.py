"""A topology as built: its manifest, the code of each component, and the options of bolts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kafka_clients.topology_reference import ReferenceLoadError, load_reference
from spout_sdk.api.components import AnyBolt, AnySpout
from spout_sdk.api.context import HookFactory
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from tuple_tree.manifest import Manifest
from tuple_tree.packs import MAX_ROWS
from tuple_tree.routing import CustomGroupings

OnException = Literal["fail", "retry", "crash", "dead_letter"]
"""The handling of a tuple whose `execute` raised.

- `fail`: it is failed with the exception's type and text, so its spout replays it.
- `retry`: its task executes it again after the delay of the bolt's `RetryPolicy`, and keeps its trees alive meanwhile.
- `crash`: the process stops with the exception, and the next process reads the tuple again.
- `dead_letter`: its record goes to the dead letters with the exception, and the tuple is acked once the dead letter
  is delivered: its trees continue without it. Their messages end as dead letters when the trees are processed.
"""

OnExhausted = Literal["fail", "dead_letter"]
"""The handling of a tuple whose retries are exhausted; see `OnException`."""

OnConsecutiveFailures = Literal["pause", "stop"]
"""The reaction of a task to `max_consecutive_failures`.

- `pause`: it executes nothing for a second, tries one call, and pauses for longer after each call that raises.
- `stop`: it stops the component permanently.
"""

MOST_FAILURES: Final = 10  # in a row, after which a bolt pauses unless `max_consecutive_failures` is given


STOP_TIMEOUT: Final = 5.0
"""Seconds for which a stop waits for inputs that a bolt has begun; an `AsyncBolt` may set another `stop_timeout`."""


@dataclass(frozen=True, slots=True)
class BoltOptions:
    """Options of `set_bolt`; if `tick_interval` is None, the one of the bolt's class applies."""

    on_exception: OnException = "fail"
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_exhausted: OnExhausted = "fail"
    max_consecutive_failures: int | None = None
    on_consecutive_failures: OnConsecutiveFailures = "pause"
    tick_interval: float | None = None

    @property
    def most_failures(self) -> int | None:
        """Messages in a row whose tuples raised, after which `on_consecutive_failures` applies; None for no limit."""
        if self.max_consecutive_failures is None:
            return MOST_FAILURES if self.on_exception in ("fail", "retry") else None
        return self.max_consecutive_failures or None


Factory = Callable[[], AnySpout | AnyBolt]
"""Makes the instance of one task: a class, or a callable without arguments."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology that can be run; `TopologyBuilder.build` makes it.

    Attributes:
        manifest: its description, without code.
        factories: component name → the factory of its tasks' instances; for an external component, the argument that
            it was declared with.
        options: bolt name → its options, if any were given.
        groupings: the custom groupings.
        hooks: the factories of the hooks that every task has.
        kafka_sources: `KafkaSpout` → the topics that it reads.
        kafka_targets: `KafkaBolt` → the topic that it writes to, unless a function of the tuple names it.
        pack_tuples: the largest number of tuples in a record.
        acks_ahead: whether a bolt, which is external, sends the entries of children before the entry of their input.
        even_shuffles: emitting component, stream and receiving bolt of shuffle groupings that do not follow the load.
        stop_timeout: the longest stop timeout of its bolts, in seconds: their processes may take that long to stop.
        state_guarantees: bolt with a state → in words, how often a message changes it.
        settings: component → settings of its code by which its statistics are judged: `concurrency` of an `AsyncBolt`,
            `time_limit_ms` if it has one, `late_stream` (1) if windows have one, and `max_retries` of a bolt or a
            `KafkaSpout`.
        row_types: component and stream → the type of its rows, for streams that have one.
    """

    manifest: Manifest
    factories: Mapping[str, Any]
    options: Mapping[str, BoltOptions] = field(default_factory=dict)
    groupings: CustomGroupings = field(default_factory=dict)
    hooks: tuple[HookFactory, ...] = ()
    kafka_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kafka_targets: Mapping[str, str] = field(default_factory=dict)
    pack_tuples: int = MAX_ROWS
    acks_ahead: bool = False
    even_shuffles: frozenset[tuple[str, str, str]] = frozenset()
    stop_timeout: float = STOP_TIMEOUT
    state_guarantees: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    row_types: Mapping[tuple[str, str], RowType[Any]] = field(default_factory=dict)

    def longest_silence(self, spout: str) -> float:
        """Seconds for which no tree of a spout may end although all bolts work.

        A message timeout, and the time limits of the bolts that its trees reach.
        """
        (own,) = (each for each in self.manifest.spouts if each.name == spout)
        reached = (bolt.name for bolt in self.manifest.bolts if own in self.manifest.spouts_upstream(bolt.name))
        limits_ms = sum(self.settings.get(name, {}).get("time_limit_ms", 0) for name in reached)
        return (own.timeout_ms + limits_ms) / 1000

    @property
    def name(self) -> str:
        """The topology's name, the first part of its topics."""
        return self.manifest.topology

    @property
    def sources(self) -> dict[str, str | tuple[str, ...] | None]:
        """Sources of spouts: the topics of a `KafkaSpout`; the topic of an external spout, or None for a function."""
        sources: dict[str, str | tuple[str, ...] | None] = {}
        for spout in self.manifest.spouts:
            given = self.factories[spout.name]
            if spout.external:
                sources[spout.name] = given if isinstance(given, str) else None
            elif spout.name in self.kafka_sources:
                sources[spout.name] = self.kafka_sources[spout.name]
        return sources

    def factory(self, component: str) -> Factory:
        """The factory of the instances of this component's tasks.

        Raises:
            TopologyError: if there is no such component, or it is external.
        """
        if component not in self.factories:
            raise TopologyError(
                f"topology {self.name!r} has no component {component!r}: it has {', '.join(self.factories)}"
            )
        if self.manifest.component(component).external:
            raise TopologyError(
                f"component {component!r} is external, so it cannot be run here: run it in Spark with acker spark "
                "submit, or remove external=True"
            )
        factory: Factory = self.factories[component]
        return factory


def load_topology(reference: str) -> Topology:
    """Imports a topology.

    Args:
        reference: `module:attribute`; the attribute is a `TopologyBuilder`, a `Topology`, or a function without
            arguments that returns one.

    Raises:
        TopologyError: if the reference cannot be imported, or is not a topology.
    """
    try:
        return load_reference(reference, Topology)
    except ReferenceLoadError as error:
        raise TopologyError(str(error)) from error.__cause__
