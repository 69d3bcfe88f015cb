"""A topology as built: its manifest, the code behind each component, and the options of bolts."""

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from spout_sdk.api.components import AnyBolt, AnySpout
from spout_sdk.api.context import HookFactory
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.errors import TopologyError
from tuple_tree.manifest import Manifest
from tuple_tree.payloads import MAX_ROWS
from tuple_tree.routing import CustomGroupings

_PACKAGES: Final = Path(__file__).parents[2]
_NOT_USERS: Final = (
    "<frozen ",
    os.path.dirname(importlib.__file__),
    *(str(_PACKAGES / name) + os.sep for name in ("spout_sdk", "tuple_tree", "kafka_clients")),
)
_LIBRARIES: Final = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})

OnException = Literal["fail", "retry", "crash", "dead_letter"]
"""The fate of a tuple whose `execute` raised.

- `fail`: it is failed with the exception's type and text, so its spout replays it.
- `retry`: its task executes it again, when the bolt's `RetryPolicy` says, and keeps its trees alive meanwhile.
- `crash`: the process stops with the exception, and the tuple is read again by the next.
- `dead_letter`: its record goes to the dead letters with the exception, and the tuple is acked once that is delivered:
  its trees continue without it.
"""

OnExhausted = Literal["fail", "dead_letter"]
"""The fate of a tuple whose retries are exhausted; see `OnException`."""

OnConsecutiveFailures = Literal["pause", "stop"]
"""The reaction of a task to `max_consecutive_failures`.

- `pause`: it executes nothing for a second, tries one call, and pauses for longer after each that raises.
- `stop`: it stops the component permanently.
"""

MOST_FAILURES: Final = 10  # in a row, after which a bolt pauses unless `max_consecutive_failures` is given


STOP_TIMEOUT: Final = 5.0
"""Seconds for which a stop waits for what a bolt has begun, unless an `AsyncBolt` has another `stop_timeout`."""


@dataclass(frozen=True, slots=True)
class BoltOptions:
    """Options of `set_bolt`; a `tick_interval` of None is that of the bolt's class."""

    on_exception: OnException = "fail"
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_exhausted: OnExhausted = "fail"
    max_consecutive_failures: int | None = None
    on_consecutive_failures: OnConsecutiveFailures = "pause"
    tick_interval: float | None = None

    @property
    def most_failures(self) -> int | None:
        """Tuples in a row whose `execute` raised, after which `on_consecutive_failures` applies; None for no limit."""
        if self.max_consecutive_failures is None:
            return MOST_FAILURES if self.on_exception in ("fail", "retry") else None
        return self.max_consecutive_failures or None


Factory = Callable[[], AnySpout | AnyBolt]
"""Makes the instance of one task: a class, or anything that is called without arguments."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology that can be run; `TopologyBuilder.build` makes it.

    Attributes:
        manifest: what it is, without code.
        factories: component name → what makes the instance of a task; of an external component, what it was declared
            with.
        options: of the bolts for which any were given.
        groupings: the custom ones.
        hooks: what makes the hooks that every task has.
        kafka_sources: `KafkaSpout` → the topics that it reads.
        kafka_targets: `KafkaBolt` → the topic that it writes to, unless a function of the tuple names it.
        pack_tuples: how many tuples a record carries at most.
        acks_ahead: whether a bolt sends the entries of children before that of their input.
        even_shuffles: emitting component, stream and receiving bolt of shuffle groupings that do not follow the load.
        stop_timeout: the longest of its bolts, in seconds: a stop of their processes takes that long.
        state_guarantees: bolt with a state → in words, how often a message changes it.
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
                "submit, or take external=True away"
            )
        factory: Factory = self.factories[component]
        return factory


def load_topology(reference: str) -> Topology:
    """Imports a topology.

    Args:
        reference: `module:attribute`; the attribute is a `Topology`, or a function without arguments that returns one.

    Raises:
        TopologyError: if the reference leads nowhere, or to something else.
    """
    module_name, separator, attribute = reference.partition(":")
    if not (module_name and separator and attribute):
        raise TopologyError(
            f"{reference!r} is no reference: write MODULE:TOPOLOGY, such as examples.word_count:topology"
        )
    try:
        named: Any = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        raise TopologyError(_why_not_imported(error, module_name, reference)) from error
    module = named
    for part in attribute.split("."):
        try:
            named = getattr(named, part)
        except AttributeError:
            held = ", ".join(name for name, value in vars(module).items() if isinstance(value, Topology))
            raise TopologyError(
                f"module {module_name!r} has no {attribute!r}: name the variable that holds the topology; "
                f"topologies there: {held or 'none'}"
            ) from None
    if not isinstance(named, Topology) and callable(named):
        try:
            named = named()
        except Exception as error:  # a user's function may raise anything
            where = _line_of(error) or "; name a Topology, or a function without arguments that returns one"
            raise TopologyError(f"{reference!r} raised {type(error).__name__}: {error}{where}") from error
    if not isinstance(named, Topology):
        raise TopologyError(
            f"{reference!r} is a {type(named).__name__}, not a Topology: name what TopologyBuilder.build() returned"
        )
    return named


def _why_not_imported(error: Exception, module: str, reference: str) -> str:
    text = f"cannot import {module!r} of {reference!r}: {type(error).__name__}: {error}"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and module.endswith(".py"):
        return f"{text}; write {module.removesuffix('.py')}, without .py"
    if missing is not None and (module == missing or module.startswith(f"{missing}.")):
        return f"{text}; is the name right, and is its directory on the Python path?"
    where = "" if isinstance(error, SyntaxError) else _line_of(error)  # whose text has the line
    if missing is None:
        return f"{text}{where}"
    return f"{text}{where}; install it where acker runs: {sys.executable} -m pip install {missing.split('.')[0]}"


def _line_of(error: Exception) -> str:
    """The user's line that led to an error, in brackets; empty if none did.

    It is the last that is of no library and not ours, or, where the user's code is installed as a library, not ours.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_NOT_USERS)]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
