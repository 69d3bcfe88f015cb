"""What a topology declares for Spark: its external components, and the code that each was given."""

import inspect
from collections.abc import Mapping
from typing import Any, Protocol

from spark_jobs.bolt import HasManifest, component_of
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.micro_batch import is_sink
from tuple_tree.manifest import Component, SpoutManifest


class HasCode(HasManifest, Protocol):
    """A topology as `TopologyBuilder.build` returns it."""

    @property
    def factories(self) -> Mapping[str, Any]:
        """Component name → what it was declared with."""
        ...


def declared(topology: HasCode, name: str) -> tuple[Component, Any]:
    """A component that is to be run in Spark.

    Args:
        topology: as built.
        name: of the component.

    Returns:
        What the manifest says of it, and its code: `transform` or a sink of a bolt, a topic or a function of a spout.

    Raises:
        ComponentRefusedError: if there is no such component, or something else runs it.
    """
    component = component_of(topology.manifest, name)
    if not component.external:
        raise ComponentRefusedError(f"{name!r} is run by acker run: add it with external=True to run it in Spark")
    code = topology.factories[name]
    if not isinstance(code, str):
        _check_argument(component, code)
    return component, code


def _check_argument(component: Component, code: Any) -> None:
    is_spout = isinstance(component, SpoutManifest)
    if not is_spout and is_sink(code):
        return
    kind, argument = ("spout", "the Spark session") if is_spout else ("bolt", "its rows")
    try:
        inspect.signature(code).bind(None)
    except TypeError as error:
        raise ComponentRefusedError(
            f"the function of {kind} {component.name!r} cannot be called with {argument} alone: {error}; give it one "
            "argument"
        ) from error
    except ValueError:
        # Some that are written in C do not tell.
        return
