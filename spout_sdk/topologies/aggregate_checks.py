"""Checks an `AggregateBolt` and its state, and adds the spout that reads the results of its closed windows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spout_sdk.arguments import as_topology_error, check_choice
from spout_sdk.errors import InvalidMessageError, TopologyError
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.records import Record
from spout_sdk.state.spec import StateSpec
from spout_sdk.topologies.window_checks import check_event_time, takes
from spout_sdk.windows.aggregate_bolt import AggregateBolt, EmitOn
from spout_sdk.windows.aggregates import Aggregate
from spout_sdk.windows.specs import WindowSpec
from spout_sdk.windows.window_values import WindowValues, input_types
from tuple_tree.components import WINDOW_START, BoltManifest, SpoutManifest, StateManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.names import check_name, results_topic
from tuple_tree.streams import DEFAULT_STREAM, Field, Stream

_HINT: Final = "tumbling(seconds=…), sliding(seconds=…, every=…) or session(gap=…)"


class ResultsSpout(KafkaSpout):
    """Reads the results of the closed windows of a bolt."""

    def __init__(self, topology: str, bolt: str, stream: Stream) -> None:
        super().__init__(results_topic(topology, bolt), streams=(stream,), translate=_translate(stream))


def _translate(stream: Stream) -> Callable[[Record], tuple[Any, ...]]:
    names = stream.field_names

    def translate(record: Record) -> tuple[Any, ...]:
        try:
            value = json.loads(record.value() or b"")
            return tuple(value[name] for name in names)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidMessageError(f"it is not a result with the fields {', '.join(names)}: {error!r}") from error

    return translate


@dataclass(frozen=True, slots=True)
class ResultsSpouts:
    """The spouts that read the results of closed windows, for bolts that subscribe to results.

    Attributes:
        made: name of a spout → its instance.
        spouts: the manifests of the spouts.
        names: bolt → the name of the spout that reads its results.
    """

    made: Mapping[str, ResultsSpout]
    spouts: tuple[SpoutManifest, ...]
    names: Mapping[str, str]

    @classmethod
    def of(
        cls,
        topology: str,
        bolts: Iterable[tuple[BoltManifest, Sequence[Subscription]]],
        made: Mapping[str, Any],
        timeout_ms: int,
        max_pending: int,
    ) -> "ResultsSpouts":
        """Creates the spouts; raises `TopologyError` if another component has the name of one.

        Args:
            topology: the name of the topology.
            bolts: the bolts, each with its declared subscriptions.
            made: name of a component → its instance or class.
            timeout_ms: message timeout of the spouts, in milliseconds.
            max_pending: largest number of open trees of a task of the spouts.
        """
        bolts = list(bolts)
        subscribed = {each.source for _, received in bolts for each in received if each.stream == DEFAULT_STREAM}
        spouts, names, results = [], {}, {}
        for bolt, _ in bolts:
            instance = made[bolt.name]
            if not isinstance(instance, AggregateBolt) or instance.emit_on != "close" or bolt.name not in subscribed:
                continue
            names[bolt.name] = name = f"{bolt.name}-results"
            if name in made:
                raise TopologyError(
                    f"component {name!r} has the name of the spout that reads the results of bolt {bolt.name!r}: give "
                    "the component another name"
                )
            (stream,) = (each for each in bolt.streams if each.name == DEFAULT_STREAM)
            with as_topology_error():
                check_name("component", name)
                results[name] = ResultsSpout(topology, bolt.name, stream)
            spout = SpoutManifest(
                name=name, tasks=bolt.tasks, streams=(stream,), timeout_ms=timeout_ms, max_pending=max_pending
            )
            spouts.append(spout)
        return cls(results, tuple(spouts), names)

    def source(self, component: str, stream: str) -> str:
        """The component that emits a stream: the spout for results of closed windows, otherwise `component`."""
        return self.names.get(component, component) if stream == DEFAULT_STREAM else component

    def subscriptions(self, declared: Sequence[Subscription]) -> tuple[Subscription, ...]:
        """The subscriptions of a bolt, in which the spouts of results replace the bolts with windows."""
        return tuple(each.model_copy(update={"source": self.source(each.source, each.stream)}) for each in declared)

    def key(self, key: tuple[str, str, str]) -> tuple[str, str, str]:
        """The key of a grouping, which is emitting component, stream and receiving bolt, with the replaced source."""
        source, stream, bolt = key
        return self.source(source, stream), stream, bolt


def check_aggregate_bolt(name: str, bolt: AggregateBolt, declared: Sequence[Stream]) -> None:
    """Checks an `AggregateBolt` before the streams that it receives are known; raises `TopologyError`."""
    with as_topology_error(f"bolt {name!r}: "):
        check_choice("emit_on of an AggregateBolt", bolt.emit_on, EmitOn)
    spec = getattr(bolt, "window", None)
    if not isinstance(spec, WindowSpec):
        raise TopologyError(f"bolt {name!r} is an AggregateBolt without windows: declare window = {_HINT} in its class")
    problem = ""
    if spec.count is None and spec.timestamp is None:
        problem = (
            "has no time: add with_timestamp_field(…), or with_timestamp_extractor(lambda tuple_: tuple_.timestamp_ms) "
            "for the time of the records"
        )
    elif spec.count is not None and spec.timestamp is not None:
        problem = "counts tuples: leave the timestamp out"
    elif spec.count is not None and bolt.emit_on == "change":
        problem = 'closes with its last tuple, whose replay would find no window: use emit_on="close"'
    elif bolt.emit_on == "change" and any(each.kind == "collect" for each in _aggregates(bolt)):
        problem = 'collects tuples, whose result is emitted when a window closes: use emit_on="close"'
    if problem:
        raise TopologyError(f"bolt {name!r} with {spec} {problem}")
    has_update = type(bolt).update is not AggregateBolt.update
    if bool(bolt.aggregates) == has_update or bool(bolt.aggregates) == (bolt.state is not None):
        raise TopologyError(
            f"bolt {name!r} is an AggregateBolt: declare aggregates, such as {{'count': count()}}; or a state, and "
            "define update()"
        )
    if spec.gap is not None and has_update and type(bolt).merge is AggregateBolt.merge:
        raise TopologyError(
            f"bolt {name!r} has sessions, and a tuple may join two of them: define merge(), which returns the value of "
            "the joined session"
        )
    streams = {stream.name: stream for stream in declared}
    if DEFAULT_STREAM in streams and streams[DEFAULT_STREAM].direct:
        raise TopologyError(f"bolt {name!r} sends results to the stream {DEFAULT_STREAM!r}: declare it without direct")
    if DEFAULT_STREAM not in streams and bolt.needs_results:
        raise TopologyError(
            f"bolt {name!r} is an AggregateBolt without a stream {DEFAULT_STREAM!r} for its results: add "
            "streams = (declare({…}),) with the fields of the key, start, end and the aggregates"
        )
    if spec.late_stream == DEFAULT_STREAM:
        raise TopologyError(f"bolt {name!r} sends late tuples to its results: give the late stream another name")


def _aggregates(bolt: AggregateBolt) -> list[Aggregate]:
    return [each for each in bolt.aggregates.values() if isinstance(each, Aggregate)]


def window_spec(manifest: Manifest, bolt: BoltManifest, made: AggregateBolt) -> StateSpec:
    """The spec of the values of a bolt's windows; checks the streams that it receives. Raises `TopologyError`."""
    if made.window.count is None:
        check_event_time(manifest, bolt, made.window)
    try:
        values = WindowValues(made, bolt.name, input_types(manifest, bolt.name))
    except (TopologyError, TypeError, ValueError) as error:
        raise TopologyError(f"bolt {bolt.name!r}: {error}") from error
    if made.window.gap is not None and values.aggregates is not None and not values.aggregates.can_merge:
        raise TopologyError(
            f"bolt {bolt.name!r} has sessions and a fold, whose values cannot be merged: use a state, update() and "
            "merge()"
        )
    return values.spec


def windowed(manifest: Manifest, bolt: BoltManifest, made: AggregateBolt, state: StateManifest) -> StateManifest:
    """The state with the window start in its key. Raises `TopologyError` if the results do not fit their stream."""
    if WINDOW_START.name in {field.name for field in state.key}:
        raise TopologyError(f"bolt {bolt.name!r} is grouped by {WINDOW_START.name!r}, a name of the SDK: rename it")
    values = WindowValues(made, bolt.name, input_types(manifest, bolt.name))
    if made.needs_results and type(made).result is AggregateBolt.result and values.result_types is not None:
        _check_result(bolt, state.key, values.result_types)
    return StateManifest(**{**dict(state), "key": (*state.key, WINDOW_START), "windows": made.emit_on})


def check_sources(manifest: Manifest, made: Mapping[str, Any]) -> None:
    """Checks that the spouts upstream of windows commit done messages; raises `TopologyError`."""
    for bolt in manifest.bolts:
        if not isinstance(made.get(bolt.name), AggregateBolt):
            continue
        if not manifest.acking:
            raise TopologyError(
                f"bolt {bolt.name!r} is an AggregateBolt, whose windows close when messages are done, which is not "
                'known with at_most_once: build the topology with guarantee="at_least_once" or "exactly_once"'
            )


def _check_result(bolt: BoltManifest, key: tuple[Field, ...], results: Mapping[str, Any]) -> None:
    (stream,) = (stream for stream in bolt.streams if stream.name == DEFAULT_STREAM)
    made = [*((field.name, field.type) for field in key), ("start", "long"), ("end", "long"), *results.items()]
    declared = [(field.name, field.type) for field in stream.fields]
    if len(declared) == len(made) and all(
        takes(wanted, given) for (_, wanted), (_, given) in zip(declared, made, strict=True)
    ):
        return
    shown, wanted = (", ".join(f"{name}: {type_}" for name, type_ in fields) for fields in (declared, made))
    raise TopologyError(
        f"bolt {bolt.name!r} has the results {wanted}, and declares the stream {shown}: declare these fields in this "
        "order, or define result()"
    )
