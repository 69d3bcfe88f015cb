"""Imports a topology by its reference, `module:attribute`, with errors that name the user's line."""

import importlib
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any, Final, TypeVar

Loaded = TypeVar("Loaded")

_PACKAGES: Final = Path(__file__).parents[1]
_NOT_USERS: Final = (
    "<frozen ",
    os.path.dirname(importlib.__file__),
    *(str(_PACKAGES / name) + os.sep for name in ("spout_sdk", "spark_jobs", "tuple_tree", "kafka_clients")),
)
_LIBRARIES: Final = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


class ReferenceLoadError(Exception):
    """A reference leads nowhere, or to something else than a topology."""


def load_reference(reference: str, kind: type[Loaded]) -> Loaded:
    """Imports what a reference names, of a class or a runtime-checkable protocol.

    It may also be a function that returns one, or a builder, whose `build` does.

    Raises:
        ReferenceLoadError: if there is no such attribute, or importing or calling it raises.
    """
    module_name, separator, attribute = reference.partition(":")
    if not (module_name and separator and attribute):
        raise ReferenceLoadError(
            f"{reference!r} is not a reference: write MODULE:TOPOLOGY, such as examples.word_count:topology"
        )
    try:
        named: Any = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        raise ReferenceLoadError(_why_not_imported(error, module_name, reference)) from error
    module = named
    for part in attribute.split("."):
        try:
            named = getattr(named, part)
        except AttributeError:
            held = ", ".join(n for n, value in vars(module).items() if _is_topology(value, kind) or _build(value))
            raise ReferenceLoadError(
                f"module {module_name!r} has no {attribute!r}: name the variable that holds the topology; "
                f"topologies there: {held or 'none'}"
            ) from None
    for _ in range(2):  # a function may return a builder
        if _is_topology(named, kind) or not callable(make := _build(named) or named):
            break
        try:
            named = make()
        except Exception as error:  # a user's function may raise anything
            where = _line_of(error)
            if not (where or _build(named)):
                where = "; name a Topology, or a function without arguments that returns one"
            raise ReferenceLoadError(f"{reference!r} raised {type(error).__name__}: {error}{where}") from error
    if not _is_topology(named, kind):
        raise ReferenceLoadError(
            f"{reference!r} is a {type(named).__name__}, not a Topology: name a TopologyBuilder, or what its build() "
            "returned"
        )
    loaded: Loaded = named
    return loaded


def _is_topology(value: Any, kind: type[Any]) -> bool:
    # A class has the attributes of a protocol as well.
    return isinstance(value, kind) and not isinstance(value, type)


def _build(value: Any) -> Any:
    """The method of a builder, such as a `TopologyBuilder`; None of anything else."""
    return None if isinstance(value, type) else getattr(value, "build", None)


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
