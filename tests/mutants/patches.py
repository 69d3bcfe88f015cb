"""Replaces functions, methods and properties of the product, and registers the mutants that do."""

import os
import sys
from collections.abc import Callable
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
        """Replaces a function of a module, wherever it is imported, or a method of a class.

        The decorated function gets the original first, then what that is called with.
        """
        original = getattr(owner, name)

        def replace(mutated: Callable[..., Any]) -> None:
            @wraps(original)
            def call(*arguments: Any, **named: Any) -> Any:
                return _called(mutated, original, *arguments, **named)

            self._monkeypatch.setattr(owner, name, call)
            if isinstance(owner, ModuleType):
                self._replace_imported(original, call)

        return replace

    def wrap_property(self, owner: type, name: str) -> Callable[[Callable[..., Any]], object]:
        """As `wrap`, of a property."""
        original = getattr(owner, name).fget

        def replace(mutated: Callable[..., Any]) -> None:
            self._monkeypatch.setattr(owner, name, property(lambda self: _called(mutated, original, self)))

        return replace

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replaces any attribute."""
        self._monkeypatch.setattr(owner, name, value)

    def _replace_imported(self, original: Any, replacement: Any) -> None:
        for module in list(sys.modules.values()):
            if module is not None and module.__name__.startswith(_PRODUCT):
                for name in [name for name, value in vars(module).items() if value is original]:
                    self._monkeypatch.setattr(module, name, replacement)


def _called(mutated: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return mutated(*arguments, **named)
    except Exception as error:
        exit_if_mutant_raised(error)
        raise


def exit_if_mutant_raised(error: BaseException) -> None:
    """Ends the process if a mutant itself has raised an exception: a test that fails by it has found nothing."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_HERE):
        place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        os.write(_STDERR, f"the mutant is out of date: {place}: {type(error).__name__}: {error}\n".encode())
        os._exit(MISTAKEN)


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
    apply: Callable[[Patches], object]


MUTANTS: Final[dict[str, Mutant]] = {}
"""All that are registered, by name."""


def mutant(place: str, test: str) -> Callable[[Callable[[Patches], object]], object]:
    """Registers a mutant, whose function has the name of its mistake."""

    def register(apply: Callable[[Patches], object]) -> None:
        name = f"{place}: {apply.__name__.replace('_', ' ')}"
        MUTANTS[name] = Mutant(name, test, apply)

    return register
