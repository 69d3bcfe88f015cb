"""Checks an `AggregateBolt` and its state, and adds the spout that reads the results of its closed windows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from spout_sdk.api.needs import needs_of
from spout_sdk.api.row_members import shown_type
from spout_sdk.api.row_types import RowType
from spout_sdk.arguments import as_topology_error, check_choice
from spout_sdk.errors import InvalidMessageError, TopologyError
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.records import Record
from spout_sdk.state.spec import StateSpec
from spout_sdk.windows.aggregate_bolt import AggregateBolt, EmitOn
from spout_sdk.windows.aggregates import Aggregate
from spout_sdk.windows.specs import WindowSpec
from spout_sdk.windows.window_values import WindowValues, input_types
from tuple_tree.components import WINDOW_START, BoltManifest, SpoutManifest, StateManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.names import check_name, results_topic
from tuple_tree.streams import DEFAULT_STREAM, StreamDeclaration, declare

_INTEGERS: Final = ("int", "long")
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}
_HINT: Final = "tumbling(seconds=…), sliding(seconds=…, every=…) or session(gap=…)"


class ResultsSpout(KafkaSpout):
    """Reads the results of the closed windows of a bolt."""

    def __init__(self, topology: str, bolt: str, stream: StreamDeclaration) -> None:
        super().__init__(results_topic(topology, bolt), streams=(stream,), translate=_translate(stream))


def _translate(stream: StreamDeclaration) -> Callable[[Record], tuple[Any, ...]]:
    names = stream.field_names

    def translate(record: Record) -> tuple[Any, ...]:
        try:
            value = json.loads(record.value() or b"")
            return tuple(value[name] for name in names)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidMessageError(f"it is not a result with the fields {', '.join(names)}: {error!r}") from error

    return translate


def results_spouts(
    topology: str,
    bolts: Iterable[tuple[BoltManifest, Sequence[Subscription]]],
    made: Mapping[str, Any],
    timeout_ms: int,
    max_pending: int,
) -> dict[str, tuple[SpoutManifest, ResultsSpout]]:
    """Bolt → the spout that reads the results of its closed windows, if a bolt subscribes to them.

    Args:
        made: name of a component → its instance or class.
        timeout_ms: message timeout of the spouts, in milliseconds.
        max_pending: largest number of open trees of a task of the spouts.

    Raises:
        TopologyError: if another component has the name of a spout.
    """
    bolts = list(bolts)
    subscribed = {each.source for _, received in bolts for each in received if each.stream == DEFAULT_STREAM}
    found = {}
    for bolt, _ in bolts:
        of = made[bolt.name]
        if bolt.name not in subscribed or not needs_of(of).windows or of.emit_on != "close":
            continue
        if (name := f"{bolt.name}-results") in made:
            raise TopologyError(
                f"component {name!r} has the name of the spout that reads the results of bolt {bolt.name!r}: give the "
                "component another name"
            )
        with as_topology_error():
            check_name("component", name)
        (stream,) = (each for each in bolt.streams if each.name == DEFAULT_STREAM)
        spout = SpoutManifest(
            name=name, tasks=bolt.tasks, streams=(stream,), timeout_ms=timeout_ms, max_pending=max_pending
        )
        found[bolt.name] = spout, ResultsSpout(topology, bolt.name, stream)
    return found


def check_aggregate_bolt(name: str, bolt: AggregateBolt, declared: Sequence[StreamDeclaration]) -> None:
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
    if DEFAULT_STREAM not in streams and bolt.needs.results:
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
        _check_event_time(manifest, bolt, made.window)
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
    if made.needs.results and values.result_types is not None:
        fields = [*((field.name, field.type) for field in state.key), ("start", "long"), ("end", "long")]
        results = [*fields, *values.result_types.items()]
        if DEFAULT_STREAM in made.row_types:
            _check_row(made.row_types[DEFAULT_STREAM], dict(results))
        elif type(made).result is AggregateBolt.result:
            _check_result(bolt, results)
    return StateManifest(**{**dict(state), "key": (*state.key, WINDOW_START), "windows": made.emit_on})


def _check_row(row_type: RowType[Any], made: Mapping[str, Any]) -> None:
    """Checks the members of the rows of a step; raises `TopologyError`."""
    for name, wanted in row_type.stream.field_types.items():
        if made[name] is None:  # the rows of `collect`, which have no type
            continue
        given = declare({name: made[name]}).field_types[name]
        if not _takes(wanted, given):
            has, gets = (" or ".join(map(str, each if isinstance(each, list) else [each])) for each in (wanted, given))
            raise TopologyError(
                f"field {name!r} of {shown_type(row_type.type)} is {has}, and the window has {gets}: write "
                f"{name}: {_in_python(given)}"
            )


def _in_python(type_: Any) -> str:
    """An Avro type as its users write it."""
    if isinstance(type_, list):
        return " | ".join([*(_in_python(each) for each in type_ if each != "null"), "None"])
    if isinstance(type_, Mapping) and type_["type"] == "array":
        return f"list[{_in_python(type_['items'])}]"
    return {"string": "str", "int": "int", "long": "int", "double": "float", "boolean": "bool"}.get(
        str(type_), str(type_)
    )


def _check_result(bolt: BoltManifest, made: Sequence[tuple[str, Any]]) -> None:
    (stream,) = (stream for stream in bolt.streams if stream.name == DEFAULT_STREAM)
    declared = [(field.name, field.type) for field in stream.fields]
    if len(declared) == len(made) and all(
        _takes(wanted, given) for (_, wanted), (_, given) in zip(declared, made, strict=True)
    ):
        return
    shown, wanted = (", ".join(f"{name}: {type_}" for name, type_ in fields) for fields in (declared, made))
    raise TopologyError(
        f"bolt {bolt.name!r} has the results {wanted}, and declares the stream {shown}: declare these fields in this "
        "order, or define result()"
    )


def _check_event_time(manifest: Manifest, bolt: BoltManifest, spec: WindowSpec) -> None:
    """Checks the timestamp field and the stream of late tuples; raises `TopologyError`."""
    late: dict[str, Any] = {}
    if spec.late_stream is not None:
        streams = {stream.name: {field.name: field.type for field in stream.fields} for stream in bolt.streams}
        if spec.late_stream not in streams:
            raise TopologyError(
                f"bolt {bolt.name!r} with {spec} sends late tuples to stream {spec.late_stream!r}, which it does not "
                f"declare: add declare({{…}}, name={spec.late_stream!r}) to its streams, with fields of its inputs"
            )
        late = streams[spec.late_stream]
    for subscription in bolt.subscriptions:
        stream = manifest.stream(subscription.source, subscription.stream)
        where = f"stream {subscription.stream!r} of {subscription.source!r}"
        types: dict[str, Any] = {field.name: field.type for field in stream.fields}
        if missing := [field for field in late if field not in types]:
            raise TopologyError(
                f"bolt {bolt.name!r} sends late tuples to stream {spec.late_stream!r} with field {missing[0]!r}, which "
                f"{where} does not have: declare fields that all its inputs have"
            )
        for field, wanted in late.items():
            if not _takes(wanted, types[field]):
                raise TopologyError(
                    f"bolt {bolt.name!r} sends late tuples to stream {spec.late_stream!r}, whose field {field!r} is of "
                    f"type {wanted}, and {where} has {field}: {types[field]}: declare the type of its inputs"
                )
        if isinstance(spec.timestamp, str) and types.get(spec.timestamp) not in _INTEGERS:
            raise TopologyError(
                f"bolt {bolt.name!r} takes the time from field {spec.timestamp!r}, and {where} has "
                f"{', '.join(f'{name}: {type_}' for name, type_ in types.items())}: it must have that field, with "
                "milliseconds since the epoch, an int; or use with_timestamp_extractor()"
            )


def _takes(wanted: Any, given: Any) -> bool:
    """Whether a field of the Avro type `wanted` takes every value of the type `given`."""
    wanted, given = (each if isinstance(each, list) else [each] for each in (wanted, given))
    return all(branch in wanted or any(wider in wanted for wider in _WIDER.get(str(branch), ())) for branch in given)
