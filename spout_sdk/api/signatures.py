"""Checks that the methods that a component overrides accept the arguments of the SDK."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

from spout_sdk.errors import TopologyError

_PACKAGES: Final = ("spout_sdk.", "tuple_tree.")
_ONE: Final = object()


def check_signatures(owner: str, made: Any) -> None:
    """Raises `TopologyError` for a method that cannot be called as the SDK calls it.

    Args:
        owner: the component, hook or grouping, for the error.
        made: a class, or an instance, whose attributes may override methods as well.
    """
    cls = made if isinstance(made, type) else type(made)
    own = {} if made is cls else getattr(made, "__dict__", {})
    for name, called in _called_by_the_sdk(cls):
        given = own[name] if name in own else inspect.getattr_static(cls, name)
        if given is not called and (flaw := _signature_error(given, called, has_self=name not in own)):
            raise TopologyError(f"{owner}: {cls.__name__}.{name} {flaw}: write {_written(called)}")


def _called_by_the_sdk(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods that a class inherits from the SDK's classes: for each name the first in the class's MRO."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith(_PACKAGES):
            continue
        for name, method in vars(base).items():
            if not name.startswith("_") and inspect.isfunction(method) and name not in seen:
                seen.add(name)
                yield name, method


def _signature_error(given: Any, called: Callable[..., Any], *, has_self: bool) -> str:
    """Why a method cannot override one of the SDK; empty if it can, or if its signature is unknown."""
    if isinstance(given, staticmethod):
        given, has_self = given.__func__, False
    elif isinstance(given, classmethod):
        given = given.__func__
    if not callable(given):
        return "" if hasattr(given, "__get__") else f"is a {type(given).__name__}, not a method"
    function = inspect.unwrap(given)
    is_function = inspect.isfunction(function)
    if inspect.iscoroutinefunction(called):
        if is_function and not inspect.iscoroutinefunction(function):
            return "is not a coroutine, and the SDK awaits it"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "is async, and the SDK does not await it, so it would never run"
    elif inspect.isgeneratorfunction(function) and called.__annotations__.get("return") in (None, "None"):
        return "has a yield, so calling it would not run it"
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # it is not written in Python
        return ""
    count = len(inspect.signature(called).parameters) - (not has_self)
    try:
        signature.bind(*[_ONE] * count)
    except TypeError as error:
        shown = ", ".join(map(str, (part.replace(annotation=part.empty) for part in signature.parameters.values())))
        passed = ", ".join([*inspect.signature(called).parameters][1:])
        return f"takes ({shown}), and is called as {called.__name__}({passed}) ({error})"
    return ""


def _written(called: Callable[..., Any]) -> str:
    parts = ", ".join(inspect.signature(called).parameters)
    return f"{'async ' if inspect.iscoroutinefunction(called) else ''}def {called.__name__}({parts})"
