"""How a task emits to its streams: which packs a tuple is added to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from spout_sdk.api.context import TaskContext, TaskId
from spout_sdk.api.topology import Topology
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.errors import EmitError
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.errors import describe, shown
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import LocalCodec, ObjectCodec, PayloadCodec, payload_codec
from tuple_tree.routing import Choose, ChooseRows, KeyOf, chooser
from tuple_tree.shuffle import SetShares
from tuple_tree.streams import StreamDeclaration

Targets = tuple[OpenPack, ...]
"""The open packs of the receivers of a tuple."""


class Route(NamedTuple):
    """The open packs of a stream for one subscriber, one for each of its tasks, and how the receivers are chosen."""

    packs: tuple[OpenPack, ...]
    tasks: tuple[TaskId, ...]
    choose: Choose
    choose_rows: ChooseRows
    set_shares: SetShares | None  # of a shuffle that follows the load of the tasks
    is_by_values: bool = False  # whether the task depends on the values, which may be invalid for the grouping


class EmitPlan:
    """How a task emits to one of its streams.

    Attributes:
        choose: returns the `Targets` of values; raises `TypeError` or `ValueError` if a grouping cannot use them.
        is_row: whether the codec takes values as they are.
        holds_objects: whether its packs hold objects of the stream's row type, instead of values.
        only: a tuple with the one open pack, if a single task receives all tuples; otherwise None.
    """

    __slots__ = ("_component", "_width", "choose", "codec", "holds_objects", "is_row", "only", "routes", "stream")

    def __init__(
        self, component: str, stream: StreamDeclaration, codec: PayloadCodec | LocalCodec, routes: Sequence[Route]
    ) -> None:
        self._component = component
        self.stream = stream
        self.codec = codec
        self._width = len(stream.fields)
        self.routes = tuple(routes)
        self.is_row, self.holds_objects = codec.is_row, isinstance(codec, ObjectCodec)
        packs = [pack for route in routes for pack in route.packs]
        is_only = len(packs) == 1 and not stream.direct and not routes[0].is_by_values
        self.only: tuple[OpenPack] | None = (packs[0],) if is_only else None
        self.choose: Callable[[Sequence[Any]], Targets] = routes[0].choose if len(routes) == 1 else self._choose_all

    def row(self, values: Sequence[Any]) -> Any:
        """The values in the form that the stream's codec takes; raises `EmitError` if they do not fit."""
        if values.__class__ is list:
            values = tuple(values)
        if values.__class__ is tuple and self.is_row(values):
            return values
        if values.__class__ is not tuple:
            raise self.error(f"values must be a tuple or a list, not {type(values).__name__}: {self._remedy(values)}")
        if len(values) != self._width:
            raise self.error(f"{len(values)} values for {self._width} fields: pass one value for each field")
        try:
            return self.codec.row(values)
        except Exception as error:  # fastavro raises TypeError, ValueError, OverflowError, AttributeError and more
            types = ", ".join(f"{field.name}: {field.type}" for field in self.stream.fields)
            raise self.error(
                f"{shown(values)} does not fit codec {self.stream.codec} ({describe(error)}): "
                f"pass what the stream declares, {types}"
            ) from error

    def direct(self, task: TaskId) -> Targets:
        """The target of a direct emit; raises `EmitError` if the stream is not direct or not for this task."""
        if not self.stream.direct:
            raise self.error("it is not direct: use emit, or declare the stream with direct=True")
        for route in self.routes:
            if task in route.tasks:
                return (route.packs[route.tasks.index(TaskId(*task))],)
        known = ", ".join(f"{route.tasks[0]} to {route.tasks[-1]}" for route in self.routes) or "none"
        raise self.error(f"{task!r} does not receive it: its subscribers' tasks are {known}")

    def set_shares(self, bolt: str, shares: Sequence[float]) -> None:
        """Sets the shares of a bolt's tasks in shuffle groupings that follow the load."""
        for route in self.routes:
            if route.set_shares is not None and route.tasks[0].component == bolt:
                route.set_shares(shares)

    def ungrouped(self, values: Sequence[Any], error: Exception) -> EmitError:
        """The error of values that a grouping has refused."""
        if isinstance(error, TypeError):  # its text is complete
            return self.error(str(error))
        return self.error(
            f"{shown(values)} cannot be grouped by ({describe(error)}): pass values that its "
            "subscribers can be chosen by"
        )

    def error(self, detail: str) -> EmitError:
        return EmitError(self._component, self.stream.name, self.stream.field_names, detail)

    def _remedy(self, values: Any) -> str:
        """The right way to emit something that is no tuple."""
        if isinstance(values, Mapping):
            members = ", ".join(f"values[{name!r}]" for name in self.stream.field_names)
            return f"write ({members}{',' * (self._width == 1)}), the values in the order of the fields"
        if self._width == 1:
            return f"write ({shown(values)},)"
        return f"pass one value for each field, as in ({', '.join(self.stream.field_names)})"

    def _choose_all(self, values: Sequence[Any]) -> Targets:
        return sum((route.choose(values) for route in self.routes), ())


def emit_plans(
    topology: Topology, context: TaskContext, next_id: Callable[[], int], counters: Counters
) -> dict[str, EmitPlan]:
    """The plans of a task, by stream; `next_id` returns random integers, at which shuffles begin."""
    plans, component = {}, context.component
    for stream in topology.manifest.component(component).streams:
        receivers_of = [
            (bolt, each)
            for bolt in topology.manifest.bolts
            for each in bolt.subscriptions
            if (each.source, each.stream) == (component, stream.name)
        ]
        # A stream that no bolt receives through Kafka is not encoded.
        is_local = bool(receivers_of) and all(bolt.is_chained for bolt, _ in receivers_of)
        codec: PayloadCodec | LocalCodec = LocalCodec(stream) if is_local else payload_codec(stream)
        if is_local and (of_type := topology.row_types.get((component, stream.name))) is not None:
            codec = ObjectCodec(stream, of_type.values, of_type.row)
        source = (SOURCE_HEADER, f"{component}/{stream.name}".encode())
        routes = []
        for bolt, subscription in receivers_of:
            topic = tuples_topic(topology.name, bolt.name)
            # A chained bolt has the task number of its source.
            numbers = (context.task,) if bolt.is_chained else range(bolt.tasks)
            is_identified = topology.manifest.is_identified(bolt.name)
            # Tasks that receive copies of a tuple emit different tuples for them, so the paths of copies have the task.
            has_copies = subscription.grouping in ("all", "custom")
            packs = tuple(
                OpenPack(
                    *(topic, task, codec, source, topology.pack_tuples, counters),
                    is_identified=is_identified,
                    copy=task if has_copies else 0,
                )
                for task in numbers
            )
            ids = tuple(TaskId(bolt.name, task) for task in numbers)
            custom = topology.groupings.get((component, stream.name, bolt.name))

            def receivers(tasks: Sequence[int], packs: Targets = packs) -> Targets:
                return tuple(packs[task] for task in tasks)

            begin = next_id()
            made = chooser(subscription, len(numbers), stream.field_names, begin, custom, receivers)
            has_key = made.key_of is not None and codec.max_rows == 1
            choose = _with_key(made.choose, made.key_of) if has_key else made.choose  # type: ignore[arg-type]
            is_even = (component, stream.name, bolt.name) in topology.even_shuffles
            set_shares = None if is_even else made.set_shares
            is_by_values = has_key or subscription.grouping in ("fields", "partial_key", "custom")
            routes.append(Route(packs, ids, choose, made.choose_rows, set_shares, is_by_values))
        plans[stream.name] = EmitPlan(component, stream, codec, routes)
    return plans


def _with_key(choose: Choose, key_of: KeyOf) -> Choose:
    """Like `choose`, but gives the record's key to the packs of the receivers; for codecs with one tuple per record."""

    def choose_with_key(values: Sequence[Any]) -> Targets:
        key = key_of(values)
        packs: Targets = choose(values)
        for pack in packs:
            pack.keys[pack.size] = key
        return packs

    return choose_with_key
