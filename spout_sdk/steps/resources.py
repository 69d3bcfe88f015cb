"""Resources of steps, such as a client or a model: a task opens them before its first row and closes them at last."""

import collections.abc
import contextlib
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spout_sdk.api.row_members import shown_type
from spout_sdk.errors import TopologyError

_SYNC: Final = (
    *(collections.abc.Iterator, collections.abc.Generator, collections.abc.Iterable),
    contextlib.AbstractContextManager,
)
_ASYNC: Final = (
    *(collections.abc.AsyncIterator, collections.abc.AsyncGenerator, collections.abc.AsyncIterable),
    contextlib.AbstractAsyncContextManager,
)
_EXAMPLE: Final = "write def open_client() -> Iterator[Client], with a yield"


@dataclass(frozen=True, slots=True)
class Resource:
    """A function that opens a resource of a task, as a context manager.

    Attributes:
        type: of the resource: a step with a parameter of this type gets it.
        name: of the function.
        open: returns the context manager.
        is_async: whether it is an asynchronous context manager.
    """

    type: Any
    name: str
    open: Callable[[], Any]
    is_async: bool


def resource(function: Callable[[], Any], known: Mapping[Any, Resource]) -> Resource:
    """The resource that a function opens: a generator with one `yield`, or one that returns a context manager.

    Args:
        known: type → resource.

    Raises:
        TopologyError: if its annotation says no type, or the type of a known resource.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        returned = typing.get_type_hints(inspect.unwrap(function)).get("return")
    except Exception as error:  # anything that the text of an annotation raises
        raise TopologyError(f"resource {name!r}: its annotations cannot be read ({error}): import the types") from error
    origin, arguments = typing.get_origin(returned), typing.get_args(returned)
    if origin not in (*_SYNC, *_ASYNC) or not arguments:
        raise TopologyError(f"resource {name!r} does not say what it opens: {_EXAMPLE}")
    if any(each.default is each.empty for each in inspect.signature(function).parameters.values()):
        raise TopologyError(
            f"resource {name!r} has parameters, and is called without arguments: fill them with partial"
        )
    type_ = arguments[0]
    if type_ in known:
        raise TopologyError(
            f"resources {known[type_].name!r} and {name!r} have the type {shown_type(type_)}: a step gets a resource "
            "by its type, so derive a class for one of them"
        )
    if inspect.isgeneratorfunction(function):
        return Resource(type_, name, contextlib.contextmanager(function), is_async=False)
    if inspect.isasyncgenfunction(function):
        return Resource(type_, name, contextlib.asynccontextmanager(function), is_async=True)
    return Resource(type_, name, function, is_async=origin in _ASYNC)


class OpenResources:
    """The open resources of a task, by the parameters of its step.

    Args:
        needed: parameter → resource.
    """

    def __init__(self, needed: Mapping[str, Resource]) -> None:
        self._needed = needed
        self._stack, self._async_stack = contextlib.ExitStack(), contextlib.AsyncExitStack()

    def open(self) -> dict[str, Any]:
        """Opens them in their order; if one raises, closes the open ones."""
        with contextlib.ExitStack() as stack:
            opened = {name: stack.enter_context(each.open()) for name, each in self._needed.items()}
            self._stack = stack.pop_all()
        return opened

    def close(self) -> None:
        """Closes them, the last first."""
        self._stack.close()

    async def open_async(self) -> dict[str, Any]:
        """As `open`, in the event loop; asynchronous ones as well."""
        async with contextlib.AsyncExitStack() as stack:
            opened = {}
            for name, each in self._needed.items():
                manager = each.open()
                opened[name] = await (stack.enter_async_context(manager) if each.is_async else _entered(stack, manager))
            self._async_stack = stack.pop_all()
        return opened

    async def close_async(self) -> None:
        """As `close`."""
        await self._async_stack.aclose()


async def _entered(stack: contextlib.AsyncExitStack, manager: Any) -> Any:
    return stack.enter_context(manager)


def needed_resources(
    where: str, parameters: Mapping[str, Any], known: Mapping[Any, Resource], *, is_async: bool = False
) -> dict[str, Resource]:
    """The resources of the parameters of a step.

    Args:
        where: the step, for errors.
        parameters: name → type.
        known: type → resource.

    Raises:
        TopologyError: if one is not known, or is asynchronous and the step is not.
    """
    needed = {}
    for name, type_ in parameters.items():
        if type_ not in known:
            raise TopologyError(
                f"{where}: parameter {name!r} gets no value, because a step is called with one row: give it a default, "
                f"fill it with functools.partial, or add what opens a {shown_type(type_)} with "
                f"TopologyBuilder.resource() before the step; write context: StepContext to get information about the "
                "row"
            )
        if known[type_].is_async and not is_async:
            raise TopologyError(
                f"{where}: {known[type_].name!r} opens its parameter {name!r} in an event loop: write async def"
            )
        needed[name] = known[type_]
    return needed
