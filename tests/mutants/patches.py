"""Replaces functions, methods and properties of the product, and registers the mutants that do."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

MISTAKEN: Final = 90
"""Exit code of a process whose mutant raises: the mutant is out of date, and no test has found it."""

_HERE: Final = str(Path(__file__).parent)
_STDERR: Final = os.dup(2)  # before pytest captures it
_PRODUCT: Final = ("tuple_tree", "kafka_clients", "acker_worker", "spout_sdk", "spark_jobs", "tests")


class Patches:
    """Replaces attributes; raises `AttributeError` for one that does not exist."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def wrap(self, owner: Any, name: str) -> Callable[[Callable[..., Any]], object]:
        """Replaces a function of a module, wherever it is imported, or a method or property of a class.

        The decorated function gets the original first, then what that is called with.
        """
        original = getattr(owner, name)
        is_property = isinstance(original, property)
        if is_property:
            original = original.fget

        def replace(mutated: Callable[..., Any]) -> None:
            @wraps(original)
            def call(*arguments: Any, **named: Any) -> Any:
                try:
                    return mutated(original, *arguments, **named)
                except Exception as error:
                    exit_if_mutant_raised(error)
                    raise

            self._monkeypatch.setattr(owner, name, property(call) if is_property else call)
            if isinstance(owner, ModuleType):
                self._replace_imported(original, call)

        return replace

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replaces any attribute."""
        self._monkeypatch.setattr(owner, name, value)

    def _replace_imported(self, original: Any, replacement: Any) -> None:
        for module in list(sys.modules.values()):
            if module is not None and module.__name__.startswith(_PRODUCT):
                for name in [name for name, value in vars(module).items() if value is original]:
                    self._monkeypatch.setattr(module, name, replacement)


def exit_if_mutant_raised(error: BaseException) -> None:
    """Ends the process if a mutant itself has raised an exception: a test that fails by it has found nothing."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_HERE):
        place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        os.write(_STDERR, f"the mutant is out of date: {place}: {type(error).__name__}: {error}\n".encode())
        os._exit(MISTAKEN)


Apply = Callable[[Patches], object]


@dataclass(frozen=True)
class Mutant:
    """A deliberate mistake.

    Attributes:
        name: the place in the product, and what is wrong.
        test: the id of a plain test that fails then.
        apply: makes the mistake.
    """

    name: str
    test: str
    apply: Apply


MUTANTS: Final[dict[str, Mutant]] = {}
"""All that are registered, by name."""


def register(faults: Mapping[str, Mapping[str, Apply]]) -> None:
    """Registers mutants: test → name → what makes the mistake."""
    for test, of_test in faults.items():
        MUTANTS.update({name: Mutant(name, test, apply) for name, apply in of_test.items()})


def mutant(place: str, test: str) -> Callable[[Apply], object]:
    """Registers a mutant, whose function has the name of its mistake."""
    return lambda apply: register({test: {f"{place}: {apply.__name__.replace('_', ' ')}": apply}})


def replaces(owner: Any, name: str) -> Callable[[Callable[..., Any]], Apply]:
    """The mutant that replaces an attribute by the decorated function: see `Patches.wrap`."""

    def decorate(mutated: Callable[..., Any]) -> Apply:
        def apply(patches: Patches) -> None:
            patches.wrap(owner, name)(mutated)

        apply.__name__ = mutated.__name__
        return apply

    return decorate


def wrapped(owner: Any, name: str, mutated: Callable[..., Any]) -> Apply:
    return replaces(owner, name)(mutated)


def fixed(owner: Any, name: str, value: Any = None) -> Apply:
    """The mutant in which a method or property does nothing, and returns a value."""
    return wrapped(owner, name, lambda *_, **__: value)
