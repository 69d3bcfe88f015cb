"""How a task emits: codec, groupings and open packs of each stream, and the base of the collectors that use them."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.context import EmitInfo, TaskHook, TaskId
from spout_sdk.api.topology import Topology
from spout_sdk.api.tuples import Tuple
from spout_sdk.emitting.dead_letters import DeadLetters
from spout_sdk.emitting.packer import OpenPack, Packer
from spout_sdk.emitting.task import Task
from spout_sdk.errors import DeliveryError, EmitError, is_refused
from spout_sdk.records import Headers
from spout_sdk.statistics.stats import Counters
from tuple_tree.anchors import SOURCE_HEADER, Edges
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import PayloadCodec, payload_codec
from tuple_tree.routing import Choose, ChooseOne, ChooseRows, KeyOf, chooser
from tuple_tree.streams import Stream

logger = get_logger("spout_sdk.bolts.collectors")


@dataclass(slots=True, eq=False)
class Route:
    """The open packs of a stream for one subscriber, one for each of its tasks, and how one of them is picked."""

    packs: Sequence[OpenPack]
    bolt: InitVar[str]
    choose: Choose
    choose_one: ChooseOne | None  # the same, if it always picks one task
    choose_rows: ChooseRows
    key_of: KeyOf | None  # of records of one tuple, by its grouping fields
    ids: tuple[TaskId, ...] = field(init=False)
    alone: tuple[tuple[TaskId], ...] = field(init=False)  # the results of most emits

    def __post_init__(self, bolt: str) -> None:
        self.ids = tuple(TaskId(bolt, task) for task in range(len(self.packs)))
        self.alone = tuple((task,) for task in self.ids)


Delivery = tuple[Route, bytes | None, tuple[int, ...]]  # of one tuple: a route, the record's key, and the tasks


class EmitPlan:
    """How a task emits to one of its streams: a route for each subscription."""

    __slots__ = ("_component", "_width", "codec", "is_row", "only_route", "routes", "stream")

    def __init__(self, component: str, stream: Stream, codec: PayloadCodec, routes: Sequence[Route]) -> None:
        self._component = component
        self.stream = stream
        self.codec = codec
        self._width = len(stream.fields)
        self.routes = tuple(routes)
        # Where there is no other, and it always leads to one task of a stream of packs.
        only = self.routes[0] if len(self.routes) == 1 and codec.max_rows > 1 else None
        self.only_route = only if only is not None and only.choose_one is not None else None
        self.is_row = codec.is_row  # whether the codec takes values as they are

    def row(self, values: Sequence[Any]) -> Any:
        """The values as the stream's codec takes them; raises `EmitError` if they do not fit."""
        if values.__class__ is tuple and self.is_row(values):
            return values
        if values.__class__ is not tuple and values.__class__ is not list:
            raise self.error(f"values must be a tuple or a list, not {type(values).__name__}: write ({values!r},)")
        if len(values) != self._width:
            raise self.error(f"{len(values)} values for {self._width} fields: pass one value for each field")
        try:
            return self.codec.row(values)
        except Exception as error:  # fastavro raises TypeError, ValueError, OverflowError, AttributeError and more
            types = ", ".join(f"{field.name}: {field.type}" for field in self.stream.fields)
            raise self.error(
                f"{_shown(values)} does not fit codec {self.stream.codec} ({type(error).__name__}: {error}): "
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
        """The deliveries of a tuple; raises `EmitError` if the values cannot be grouped by, or the stream is direct.

        All are picked before anything is sent, so that an emit that raises has emitted nothing.
        """
        try:
            return [
                (route, None if route.key_of is None else route.key_of(values), route.choose(values))
                for route in self.routes
            ]
        except (TypeError, ValueError) as error:
            raise self.ungrouped(values, error) from error

    def delivery(self, task: TaskId) -> list[Delivery]:
        """The delivery of a direct emit; raises `EmitError` if the stream is not direct, or the task no subscriber."""
        if not self.stream.direct:
            raise self.error("it is not direct: use emit, or declare the stream with direct=True")
        for route in self.routes:
            if task in route.ids:
                return [(route, None, (task[1],))]
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
        return EmitError(self._component, self.stream.name, self.stream.field_names, detail)


def _shown(values: Sequence[Any]) -> str:
    shown = repr(values)
    return shown if len(shown) <= 200 else shown[:200] + "…"


def emit_plans(topology: Topology, component: str, next_id: Callable[[], int]) -> dict[str, EmitPlan]:
    """The plans of a task, by stream; `next_id` returns random integers, for where shuffles begin."""
    plans = {}
    for stream in topology.manifest.component(component).streams:
        codec, source = payload_codec(stream), (SOURCE_HEADER, f"{component}/{stream.name}".encode())
        routes = []
        for bolt in topology.manifest.bolts:
            topic = tuples_topic(topology.name, bolt.name)
            for subscription in bolt.subscriptions:
                if (subscription.source, subscription.stream) == (component, stream.name):
                    packs = [OpenPack(topic, task, codec, source, topology.pack_tuples) for task in range(bolt.tasks)]
                    custom = topology.groupings.get((component, stream.name, bolt.name))
                    grouping = chooser(subscription, bolt.tasks, stream.field_names, next_id(), custom)
                    if codec.max_rows > 1:
                        grouping = grouping._replace(key_of=None)
                    routes.append(Route(packs, bolt.name, *grouping))
        plans[stream.name] = EmitPlan(component, stream, codec, routes)
    return plans


class Emitter:
    """Base of the collectors: a task's streams, and what it reports."""

    def __init__(self, task: Task) -> None:
        environment = task.environment
        self.task = task
        self.plans: dict[str, EmitPlan] = emit_plans(task.topology, task.context.component, task.next_id)
        self.dead_letters = DeadLetters(task)
        self.packer = Packer(environment.sink, environment.counters, self._undelivered)
        self._context = task.context
        self._component = task.context.component
        self._hooks = task.context.hooks
        self._counters = environment.counters
        self._clock = environment.clock
        self._next_id = task.next_id
        self._acks = task.acks
        self._is_tracked = task.topology.manifest.acking
        self._sink = environment.sink
        task.acks.send_children = self.packer.flush
        self._added = self.packer.added

    @property
    def metrics(self) -> Counters:
        """Live counters of the tasks of this process; read-only."""
        return self._counters

    def report_error(self, error: BaseException) -> None:
        """Reports an error after which the task continues: it is logged, counted and shown in the stats."""
        self._counters.count_error(error)
        what = (self._component, self._context.task, type(error).__name__, error)
        logger.error("%s/%d reports an error: %s: %s", *what, exc_info=error)

    def run_hooks(self, call: Callable[[TaskHook], None]) -> None:
        """Called by the SDK: calls each hook of the task; what one raises is reported, as it comes after the fact."""
        for hook in self._hooks:
            try:
                call(hook)
            except Exception as error:  # noqa: BLE001 - any exception of a user's hook
                self.report_error(error)

    def plan(self, stream: str) -> EmitPlan:
        """Called by the SDK: how it emits to a stream; raises `EmitError` if there is none of that name."""
        if (plan := self.plans.get(stream)) is None:
            declared = ", ".join(self.plans) or "none"
            raise EmitError(self._component, stream, (), f"it declares {declared}; add the stream to its `streams`")
        return plan

    def _deliver(
        self,
        deliveries: Sequence[Delivery],
        row: Any,
        values: Sequence[Any],
        stream: str,
        next_edges: Callable[[], Edges],
        trace_context: Headers,
        *,
        message_id: Any = None,
        anchors: Sequence[Tuple] = (),
        root: int | None = None,
    ) -> tuple[TaskId, ...]:
        """Adds a tuple to a pack of each task that receives it; `next_edges` makes the edges of one delivery."""
        self._counters.emitted += 1
        add, sent = self.packer.add, []
        for route, key, tasks in deliveries:
            for task in tasks:
                add(route.packs[task], row, next_edges(), key, trace_context)
                sent.append(route.ids[task])
        targets = tuple(sent)
        if self._hooks:
            info = EmitInfo(values, stream, targets, message_id, anchors, root)
            self.run_hooks(lambda hook: hook.emit(info))
        return targets

    def _undelivered(self, roots: Sequence[int], tuples: int, error: Any, message: Any) -> None:
        """Tuples were not delivered: their trees cannot complete, so they fail now and not by time-out."""
        counters = self._counters
        counters.undelivered += tuples
        if not len(roots):
            topic = "" if message is None else f" for {message.topic()}[{message.partition()}]"
            text = "%d untracked tuples%s were not delivered and are lost: %s (%d tuples so far)"
            what = (tuples, topic, error, counters.undelivered)
            logger.warning(text, *what)
            return
        cause = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        text = f"a tuple of {self._component} was not delivered: {cause}"
        for root in dict.fromkeys(map(int, roots)):
            self._acks.fail(root, text)
        if message is not None and is_refused(error):
            # Each replay would end like this one.
            sent = f"a tuple of {self._component}"
            self._acks.failure = DeliveryError(sent, message.topic(), message.partition(), error)
