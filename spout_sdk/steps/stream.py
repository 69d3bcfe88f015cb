"""`Stream`: the rows that a component emits, with their type; its methods add steps to a topology."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, overload

from typing_extensions import Unpack

from spout_sdk.api.row_types import RowType
from spout_sdk.errors import TopologyError
from spout_sdk.steps.bolt import StepBolt, step_bolt
from spout_sdk.steps.function import filter_function, function_name, step_function
from spout_sdk.steps.join_bolt import IntervalJoin, TableJoin, TableJoinAsOf
from spout_sdk.steps.join_function import Side, join_function, times_of
from spout_sdk.steps.options import FailureOptions, StepOptions
from spout_sdk.steps.state_bolt import StateStepBolt
from spout_sdk.steps.topic_bolt import TopicBolt
from spout_sdk.steps.upstream import Upstream
from spout_sdk.steps.window_bolt import WindowStepBolt
from spout_sdk.windows.aggregate_bolt import EmitOn
from spout_sdk.windows.aggregates import Aggregate
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.streams import DEFAULT_STREAM

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_NAME: Final = 70  # of the name of a topic in that of a step
T = TypeVar("T")
P = ParamSpec("P")
U = TypeVar("U")
R = TypeVar("R")
S = TypeVar("S")


class Stream(Upstream[T]):
    """Rows of one type, in the tasks of the component that emits them.

    A step that is added runs in the same tasks, without a hop through Kafka, unless `shuffle`, `key_by` or another
    number of tasks asks for one. `TopologyBuilder.spout` returns the first stream; `shop.stream("items")` finds the
    stream of a component by name.
    """

    # The first that fits counts. Behind the row, a function may have a context and resources.
    @overload
    def step(
        self,
        function: Callable[Concatenate[pa.RecordBatch, P], pa.RecordBatch],
        *,
        returns: type[R],
        **options: Unpack[StepOptions],
    ) -> Stream[R]: ...
    @overload
    def step(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[T, P], None], *, returns: None = None, **options: Unpack[StepOptions]
    ) -> None: ...
    @overload
    def step(
        self,
        function: Callable[Concatenate[Sequence[T], P], None],
        *,
        returns: None = None,
        **options: Unpack[StepOptions],
    ) -> None: ...
    @overload
    def step(
        self,
        function: Callable[Concatenate[Sequence[T], P], Sequence[R | None]],
        *,
        returns: None = None,
        **options: Unpack[StepOptions],
    ) -> Stream[R]: ...
    @overload
    def step(  # type: ignore[overload-overlap]
        self,
        function: Callable[Concatenate[T, P], Awaitable[None]],
        *,
        returns: None = None,
        **options: Unpack[StepOptions],
    ) -> None: ...
    @overload
    def step(
        self,
        function: Callable[Concatenate[T, P], AsyncIterator[R]],
        *,
        returns: None = None,
        **options: Unpack[StepOptions],
    ) -> Stream[R]: ...
    @overload
    def step(
        self,
        function: Callable[Concatenate[T, P], Awaitable[R | None]],
        *,
        returns: None = None,
        **options: Unpack[StepOptions],
    ) -> Stream[R]: ...
    @overload
    def step(
        self,
        function: Callable[Concatenate[T, P], Iterator[R]],
        *,
        returns: None = None,
        **options: Unpack[StepOptions],
    ) -> Stream[R]: ...
    @overload
    def step(
        self, function: Callable[Concatenate[T, P], R | None], *, returns: None = None, **options: Unpack[StepOptions]
    ) -> Stream[R]: ...
    def step(
        self,
        function: Callable[..., Any],
        *,
        returns: Any = None,
        name: str | None = None,
        tasks: int | None = None,
        concurrency: int | None = None,
        time_limit: float | None = None,
        stop_timeout: float | None = None,
        ordered_by: str | tuple[str, ...] | None = None,
        **options: Unpack[FailureOptions],
    ) -> Stream[Any] | None:
        """Calls a function with each row; what it returns says what it is.

        - a row: one row;
        - None: no row; the row that it got is done;
        - an iterator, as a function with `yield` returns: any number of rows;
        - an awaitable, as an `async def` returns: calls run at the same time.

        A row is done when all rows that were made of it are done. If the function raises, its row fails, and the
        message is replayed; raise `FailTupleError` or `RetryTupleError`, or give `on_exception` or `retry`, for
        something else. A second parameter of type `StepContext` gets information about the row, and a parameter of
        the type of a `TopologyBuilder.resource` gets what the task has opened.

        A function with a parameter `rows: Sequence[Order]` is called with several rows, up to 500, and returns a list
        with a row or None for each of them, in their order, or None. If it raises, all of these rows fail. So it is
        with a parameter of type `pyarrow.RecordBatch`, which has a column for each field: the function returns a record
        batch with as many rows, or None.

        Args:
            function: with annotations for its row and its result.
            name: of the step; by default the function's name.
            tasks: number of tasks; by default those of the source, or 1 behind `key_by`, `shuffle` and `merge`.
            concurrency: of an `async def`: how many rows a task works on at a time, 100 by default.
            time_limit: of an `async def`: seconds for one row.
            stop_timeout: of an `async def`: as of `AsyncBolt`.
            ordered_by: of an `async def`: fields; rows with equal values in them are worked on one after another.
            options: as of `set_bolt`: `retry`, `on_exception`, `on_exhausted`, `max_consecutive_failures` and
                `on_consecutive_failures`.

        Returns:
            The rows that it returns; None if it returns none.

        Raises:
            TopologyError: if the annotations do not say what the function takes and returns, or an option is invalid.
        """
        made = step_function(name or function_name(function), function, self.builder.resources, returns)
        given = {
            "concurrency": concurrency,
            "time_limit": time_limit,
            "stop_timeout": stop_timeout,
            "ordered_by": ordered_by,
        }
        of_async = {option: value for option, value in given.items() if value is not None}
        if of_async and not made.is_async:
            raise TopologyError(
                f"step {made.name!r} has {', '.join(of_async)}=, and is no coroutine: write async def, or leave it out"
            )
        self._add(name or made.name, step_bolt(made, of_async), tasks, **options)
        return None if made.gives is None else Stream(self.builder, (name or made.name,), made.gives)

    def filter(
        self,
        function: Callable[[T], object],
        *,
        name: str | None = None,
        tasks: int | None = None,
        **options: Unpack[FailureOptions],
    ) -> Stream[T]:
        """Drops the rows for which a function, such as a lambda, returns nothing true; they are done.

        Args:
            name: of the step; by default the function's name, or `filter` for a lambda.
            tasks: number of tasks; by default as of `step`.
            options: as of `step`.
        """
        of = function_name(function)
        name = name or (self.builder.free_name("filter") if of == "<lambda>" else of)
        row_type = self._known_type("filter")
        self._add(name, StepBolt(filter_function(name, function, row_type)), tasks, **options)
        return Stream(self.builder, (name,), row_type)

    def key_by(self, *fields: str) -> KeyedStream[T]:
        """Rows with equal values in these fields go to the same task of the next step.

        Args:
            fields: members of the rows with text, bytes, integers or booleans.
        """
        if not fields:
            raise TypeError('key_by() takes at least one field: write key_by("order")')
        return KeyedStream(self.builder, self._components, self._row_type, "fields", fields)

    def shuffle(self) -> Stream[T]:
        """The next step gets the rows through Kafka, spread over its tasks by their load."""
        return Stream(self.builder, self._components, self._row_type, "shuffle")

    def merge(self, *others: Stream[T]) -> Stream[T]:
        """The rows of this stream and of others with the same type; call `key_by` of the result, if it is needed."""
        if any(isinstance(each, KeyedStream) for each in (self, *others)):
            raise TopologyError("merge() comes before key_by(): write one.merge(other).key_by(…)")
        components = (*self._components, *(name for each in others for name in each._components))
        return Stream(self.builder, components, self._row_type, "shuffle")

    def to(
        self,
        topic: str,
        *,
        key: str | Callable[[T], str | bytes | None] | None = None,
        codec: Literal["json", "avro"] = "json",
        name: str | None = None,
        tasks: int | None = None,
    ) -> None:
        """Writes each row as a record of a topic of yours, which exists; the row is done when it is delivered.

        Args:
            topic: its name.
            key: the member that becomes the key of the record, text or bytes, or a function of the row.
            codec: `json`, or `avro` for the bare body of a record of the members. Text and bytes are written as they
                are.
            name: of the step; by default `to-` and the topic.
            tasks: number of tasks; by default as of `step`.
        """
        bolt = TopicBolt(topic, self._known_type("to"), key, codec)
        default = "to-" + re.sub(r"[^A-Za-z0-9_-]", "-", topic)[:_LONGEST_NAME]
        self._add(name or self.builder.free_name(default), bolt, tasks)


class KeyedStream(Stream[T]):
    """Rows of one type, by key: a step gets all rows of a key in one task, and may have a state for each key."""

    def state(
        self,
        update: Callable[[S, T], S],
        *,
        initial: S,
        name: str | None = None,
        tasks: int = 1,
        expire_after: float | None = None,
        **options: Unpack[FailureOptions],
    ) -> Stream[tuple[T, S]]:
        """Keeps a value for each key, which each row changes once, however often its message is replayed.

        Args:
            update: returns the new value, from the value and a row. Its annotation says the type of the value.
            initial: the value of a key without one.
            name: of the step; by default the function's name.
            tasks: number of tasks.
            expire_after: seconds after its last change until a key is deleted; None to keep keys.
            options: as of `step`.

        Returns:
            Each row with the value of its key after it.
        """
        bolt = StateStepBolt(self._known_type("state"), update, initial, expire_after)
        name = name or function_name(update)
        self._add(name, bolt, tasks, **options)
        return Stream(self.builder, (name,), bolt.row_types[DEFAULT_STREAM])

    def join(
        self,
        other: KeyedStream[U],
        function: Callable[[T, U | None], R | None],
        *,
        as_of: str | tuple[str, str] | None = None,
        versions: int = 100,
        expire_after: float | None = None,
        name: str | None = None,
        tasks: int = 1,
        **options: Unpack[FailureOptions],
    ) -> Stream[R]:
        """Joins each row with the latest row of another stream that has the same key, as with a table.

        The latest row of the other stream is the state of its key. A row of this stream changes nothing; the function
        may raise `FailTupleError`, so that the spout replays its message.

        Args:
            other: the table; its rows call no function.
            function: takes a row of this stream and one of the other, None if it has none of this key yet; returns a
                row or None.
            as_of: a member with a time, an int or float: of the rows of the other the latest one up to the time of the
                row of this stream is taken. A member of both, or a tuple of a member of each.
            versions: with `as_of`: how many rows of the other are kept for each key, the latest.
            expire_after: seconds after its last change until a key of the table is deleted; None to keep keys.
            name: of the step; by default the function's name.
            tasks: number of tasks.
            options: as of `step`.

        Returns:
            The rows that the function returns.
        """
        name = name or function_name(function)
        sides = self._sides(other, "join")
        made, left = join_function(name, function, *sides, has_gaps=True), len(self._components)
        bolt = TableJoin(made, left, expire_after)
        if as_of is not None:
            times = times_of(f"join {name!r}", as_of, *sides)
            bolt = TableJoinAsOf(made, left, expire_after, times, versions)
        self._add(name, bolt, tasks, other, **options)
        return Stream(self.builder, (name,), made.gives)

    def join_within(
        self,
        other: KeyedStream[U],
        function: Callable[[T, U], R | None],
        *,
        seconds: float,
        at: str | tuple[str, str],
        keep: float = 3_600.0,
        name: str | None = None,
        tasks: int = 1,
        **options: Unpack[FailureOptions],
    ) -> Stream[R]:
        """Joins each row with the rows of another stream that have the same key, and nearly the same time.

        The rows of both are kept in a state. The function is called with a pair when its second row comes, whichever
        that is; when that row is replayed, it is called again.

        Args:
            other: the other stream.
            function: takes a row of this stream and one of the other; returns a row, or None for no row.
            seconds: by which the times may differ at most, either way.
            at: the member with the time in milliseconds, an int: of both, or a tuple of a member of each.
            keep: seconds for which rows are kept beyond that: longer than it may take until a message that fails is
                replayed, and than the topology may stop. A key is deleted when it has not changed for this time.
            name: of the step; by default the function's name.
            tasks: number of tasks.
            options: as of `step`.

        Returns:
            The rows that the function returns.
        """
        name = name or function_name(function)
        sides = self._sides(other, "join_within")
        made = join_function(name, function, *sides, has_gaps=False)
        times = times_of(f"join {name!r}", at, *sides)
        bolt = IntervalJoin(made, len(self._components), times, seconds, keep)
        self._add(name, bolt, tasks, other, **options)
        return Stream(self.builder, (name,), made.gives)

    def _sides(self, other: KeyedStream[Any], method: str) -> tuple[Side, Side]:
        if not isinstance(other, KeyedStream):
            raise TopologyError(f"{method}() takes a stream with a key: write {method}(other.key_by(…), function)")
        if shared := {*self._components} & {*other._components}:
            raise TopologyError(
                f"{method}() of {shared.pop()!r} with itself: its rows would be those of both sides. Add a step before "
                "one side, with a name of its own"
            )
        return Side(self.name, self._known_type(method)), Side(other.name, other._known_type(method))

    def window(self, spec: WindowSpec) -> WindowedStream[T]:
        """Windows of the rows of each key.

        Args:
            spec: made with `tumbling`, `sliding` or `session`.
        """
        return WindowedStream(self, spec)


class WindowedStream(Generic[T]):
    """Windows of the rows of each key."""

    def __init__(self, keyed: KeyedStream[T], spec: WindowSpec) -> None:
        self._keyed, self._spec = keyed, spec

    def aggregate(
        self,
        row_type: type[R],
        /,
        *,
        name: str | None = None,
        tasks: int = 1,
        emit_on: EmitOn = "close",
        **aggregates: Aggregate,
    ) -> Stream[R]:
        """Aggregates the rows of each window: one row for each key and window.

        Args:
            row_type: of the results: a class with the fields of the key, `start` and `end` of the window in
                milliseconds, and a member for each aggregate.
            name: of the step; by default the name of the class.
            tasks: number of tasks.
            emit_on: see `EmitOn`.
            aggregates: made with `count`, `total` and others, by the name of the member.
        """
        keyed, gives = self._keyed, RowType(row_type)
        bolt = WindowStepBolt(keyed._known_type("window"), gives, keyed._fields, self._spec, emit_on, aggregates)
        name = name or row_type.__name__
        keyed._add(name, bolt, tasks)
        return Stream(keyed.builder, (name,), gives)
