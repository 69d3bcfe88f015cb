"""Checks of arguments. Each raises a `TopologyError` with the name of the argument, its value and what it must be."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from spout_sdk.errors import TopologyError
from tuple_tree.errors import TupleTreeError


def check_count(name: str, count: Any, least: int = 1) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise TopologyError(f"{name} is {count!r}: it must be a whole number of at least {least}")
    return count


def check_seconds(name: str, seconds: Any, least: float = 0.001) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not least <= seconds < float("inf"):
        raise TopologyError(f"{name} is {seconds!r}: it must be a finite number of seconds, at least {least:g}")
    return seconds


def check_choice(name: str, choice: Any, allowed: Any) -> None:
    """Checks that `choice` is one of the values of `allowed`, a `Literal`."""
    if choice not in get_args(allowed):
        raise TopologyError(f"{name} is {choice!r}: it must be one of {', '.join(get_args(allowed))}")


@contextmanager
def as_topology_error(before: str = "") -> Iterator[None]:
    """Turns a `TupleTreeError`, as of an invalid name, into a `TopologyError` whose text begins with `before`."""
    try:
        yield
    except TupleTreeError as error:
        raise TopologyError(f"{before}{error}") from error
