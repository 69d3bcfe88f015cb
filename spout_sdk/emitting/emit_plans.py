"""Emit plans: codec, groupings and open packs of a stream, computed before the first tuple."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spout_sdk.api.context import TaskId
from spout_sdk.emitting.groupings import Choice, Choose, ChooseOne, CustomFactory, choose_for, choose_one_for
from spout_sdk.emitting.packer import OpenPack
from spout_sdk.errors import EmitError
from spout_sdk.topologies.topology import Topology
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.manifest import Subscription
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import PayloadCodec, payload_codec
from tuple_tree.streams import Stream


class Route:
    """The open packs of a stream for one subscriber, one for each of its tasks, and how one of them is picked."""

    __slots__ = ("alone", "choose", "choose_one", "ids", "packs")

    def __init__(self, packs: Sequence[OpenPack], bolt: str, choose: Choose, choose_one: ChooseOne | None) -> None:
        self.packs = packs
        self.ids = tuple(TaskId(bolt, task) for task in range(len(packs)))
        self.alone = tuple((task,) for task in self.ids)  # the results of most emits
        self.choose = choose
        self.choose_one = choose_one  # the same, if it always picks one task


Delivery = tuple[Route, Choice]  # a route, with the key and the tasks of one tuple


class EmitPlan:
    """How a task emits to one of its streams: a route for each subscription."""

    __slots__ = ("_codec", "_component", "_stream", "_width", "is_row", "only_route", "routes")

    def __init__(self, component: str, stream: Stream, codec: PayloadCodec, routes: Sequence[Route]) -> None:
        self._component = component
        self._stream = stream
        self._codec = codec
        self._width = len(stream.fields)
        self.routes = tuple(routes)
        # Where there is no other, and it always leads to one task of a stream of packs.
        only = self.routes[0] if len(self.routes) == 1 and codec.max_rows > 1 else None
        self.only_route = only if only is not None and only.choose_one is not None else None
        self.is_row = codec.is_row  # whether the codec takes values as they are

    def row(self, values: Sequence[Any]) -> Any:
        """The values as the stream's codec takes them; raises `EmitError` if they do not fit."""
        if values.__class__ is not tuple and values.__class__ is not list:
            raise self.error(f"values must be a tuple or a list, not {type(values).__name__}: write ({values!r},)")
        if len(values) != self._width:
            raise self.error(f"{len(values)} values for {self._width} fields: pass one value for each field")
        try:
            return self._codec.row(values)
        except Exception as error:  # fastavro raises TypeError, ValueError, OverflowError, AttributeError and more
            types = ", ".join(f"{field.name}: {field.type}" for field in self._stream.fields)
            raise self.error(
                f"{_shown(values)} does not fit codec {self._stream.codec} ({type(error).__name__}: {error}): "
                f"pass what the stream declares, {types}"
            ) from error

    def routed(self, values: Sequence[Any]) -> tuple[Any, int]:
        """`row`, and the one task of the `only_route`; raises `EmitError` if the values cannot be grouped by either."""
        row = values if values.__class__ is tuple and self.is_row(values) else self.row(values)
        try:
            return row, self.only_route.choose_one(values)  # type: ignore[union-attr, misc]  # an only route has it
        except (TypeError, ValueError) as error:
            raise self.ungrouped(values, error) from error

    def deliveries(self, values: Sequence[Any]) -> list[Delivery]:
        """Who receives a tuple; raises `EmitError` if the values cannot be grouped by, or the stream is direct.

        All are picked before anything is sent, so that an emit that raises has emitted nothing.
        """
        try:
            return [(route, route.choose(values)) for route in self.routes]
        except (TypeError, ValueError) as error:
            raise self.ungrouped(values, error) from error

    def delivery(self, task: TaskId) -> list[Delivery]:
        """The delivery of a direct emit; raises `EmitError` if the stream is not direct, or the task no subscriber."""
        if not self._stream.direct:
            raise self.error("it is not direct: use emit, or declare the stream with direct=True")
        for route in self.routes:
            if task in route.ids:
                return [(route, (None, (task[1],)))]
        known = ", ".join(f"{route.ids[0]} to {route.ids[-1]}" for route in self.routes) or "none"
        raise self.error(f"{task!r} does not receive it: its subscribers' tasks are {known}")

    def ungrouped(self, values: Sequence[Any], error: Exception) -> EmitError:
        if isinstance(error, TypeError):  # whose text says all
            return self.error(str(error))
        return self.error(
            f"{_shown(values)} cannot be grouped by ({type(error).__name__}: {error}): pass values that its "
            "subscribers can be chosen by"
        )

    def error(self, detail: str) -> EmitError:
        return EmitError(self._component, self._stream.name, self._stream.field_names, detail)


def _shown(values: Sequence[Any]) -> str:
    shown = repr(values)
    return shown if len(shown) <= 200 else shown[:200] + "…"


def emit_plans(topology: Topology, component: str, next_id: Callable[[], int]) -> dict[str, EmitPlan]:
    """The plans of a task, by stream; `next_id` returns random integers, for where shuffles begin."""
    plans = {}
    for stream in topology.manifest.component(component).streams:
        codec = payload_codec(stream)
        routes = []
        for subscription, bolt, packs, custom in open_packs(topology, component, stream, codec):
            grouping = (subscription, len(packs), stream.field_names, next_id())
            routes.append(Route(packs, bolt, choose_for(*grouping, custom), choose_one_for(*grouping)))
        plans[stream.name] = EmitPlan(component, stream, codec, routes)
    return plans


def open_packs(
    topology: Topology, component: str, stream: Stream, codec: PayloadCodec
) -> Iterator[tuple[Subscription, str, list[OpenPack], CustomFactory | None]]:
    """The subscriptions to a stream: with the bolt, a pack for each of its tasks, and what makes a custom grouping."""
    source = (SOURCE_HEADER, f"{component}/{stream.name}".encode())
    for bolt in topology.manifest.bolts:
        topic = tuples_topic(topology.name, bolt.name)
        for subscription in bolt.subscriptions:
            if (subscription.source, subscription.stream) == (component, stream.name):
                packs = [OpenPack(topic, task, codec, source, topology.pack_tuples) for task in range(bolt.tasks)]
                yield subscription, bolt.name, packs, topology.groupings.get((component, stream.name, bolt.name))


def unknown_stream(component: str, stream: str, plans: dict[str, Any]) -> EmitError:
    declared = ", ".join(plans) or "none"
    return EmitError(component, stream, (), f"it declares {declared}; add the stream to its `streams`")
