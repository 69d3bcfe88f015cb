"""A topology as built: its manifest, and the code behind each component."""

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spout_sdk.api.components import AnyBolt, Spout
from spout_sdk.api.hooks import HookFactory
from spout_sdk.emitting.emit_plans import Groupings
from spout_sdk.errors import TopologyError
from spout_sdk.topologies.options import BoltOptions
from tuple_tree.manifest import Manifest
from tuple_tree.packs import MAX_ROWS

Factory = Callable[[], Spout | AnyBolt]
"""Makes the instance of one task: a class, or anything that is called without arguments."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology that can be run; `TopologyBuilder.build` makes it.

    Attributes:
        manifest: what it is, without code.
        factories: component name → what makes the instance of a task; for an external component, what it was declared
            with, which is for whatever runs it.
        options: of the bolts for which any were given.
        groupings: the custom ones.
        hooks: what makes the hooks that every task has.
        kafka_sources: `KafkaSpout` → the topics that it reads.
        pack_tuples: how many tuples a record carries at most.
        acks_ahead: whether a bolt sends the entries of children before that of their input.
    """

    manifest: Manifest
    factories: Mapping[str, Any]
    options: Mapping[str, BoltOptions] = field(default_factory=dict)
    groupings: Groupings = field(default_factory=dict)
    hooks: tuple[HookFactory, ...] = ()
    kafka_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pack_tuples: int = MAX_ROWS
    acks_ahead: bool = False

    @property
    def name(self) -> str:
        """The topology's name, the first part of its topics."""
        return self.manifest.topology

    @property
    def sources(self) -> dict[str, str | tuple[str, ...] | None]:
        """What spouts read, as far as the topology says so.

        Of an external spout the topic, or None where a function decides; of a `KafkaSpout` its topics.
        """
        found: dict[str, str | tuple[str, ...] | None] = {}
        for spout in self.manifest.spouts:
            given = self.factories[spout.name]
            if spout.external:
                found[spout.name] = given if isinstance(given, str) else None
            elif spout.name in self.kafka_sources:
                found[spout.name] = self.kafka_sources[spout.name]
        return found

    def factory(self, component: str) -> Factory:
        """What makes the instance of a task of this component.

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
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        raise TopologyError(_why_not_imported(error, module_name, reference)) from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise TopologyError(
                f"module {module_name!r} has no {attribute!r}: name the variable that holds the topology"
            ) from None
    if not isinstance(found, Topology) and callable(found):
        found = found()
    if not isinstance(found, Topology):
        raise TopologyError(
            f"{reference!r} is a {type(found).__name__}, not a Topology: name what TopologyBuilder.build() returned"
        )
    return found


def _why_not_imported(error: Exception, module: str, reference: str) -> str:
    said = f"cannot import {module!r} of {reference!r}: {type(error).__name__}: {error}"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and (module == missing or module.startswith(f"{missing}.")):
        return f"{said}; is the name right, and is its directory on the Python path?"
    # The last line that is neither the import system's nor ours.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen ")]
    is_known = len(frames) > 2 and not isinstance(error, SyntaxError)  # which says it itself
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if is_known else ""
    remedy = (
        ""
        if missing is None
        else f"; install it where acker runs: {sys.executable} -m pip install {missing.split('.')[0]}"
    )
    return f"{said}{where}{remedy}"
