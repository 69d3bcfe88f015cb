"""Checks bolts with a state, and describes the guarantee of each state."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spout_sdk.api.needs import needs_of
from spout_sdk.errors import TopologyError
from spout_sdk.state.spec import StateSpec, spec_of
from spout_sdk.topologies.window_manifests import window_spec, windowed
from tuple_tree.components import BoltManifest, StateManifest
from tuple_tree.manifest import Manifest
from tuple_tree.names import results_topic
from tuple_tree.state_guarantees import NOT_REPLAYED, ONCE, counted_again, exceptions, external_reasons
from tuple_tree.state_records import ValueCodec
from tuple_tree.streams import DEFAULT_STREAM, Field, not_in_json

_INTEGERS: Final = ("int", "long")


def with_states(manifest: Manifest, made: Mapping[str, Any]) -> Manifest:
    """The manifest with the states of bolts; raises `TopologyError` if one is invalid."""
    stateful = [bolt for bolt in manifest.bolts if needs_of(made[bolt.name]).state]
    states = {bolt.name: _state(manifest, bolt, made[bolt.name]) for bolt in stateful}
    components = [
        each.model_copy(update={"state": states[each.name]}) if each.name in states else each
        for each in manifest.components
    ]
    return manifest.model_copy(update={"components": tuple(components)})


def state_guarantees(manifest: Manifest, made: Mapping[str, Any]) -> dict[str, str]:
    """Bolt → a description of what its state guarantees for replayed messages."""
    return {bolt.name: _guarantee(manifest, bolt, made) for bolt in manifest.bolts if bolt.state is not None}


def _spec(manifest: Manifest, declarer: BoltManifest, bolt: Any) -> StateSpec:
    name = declarer.name
    if needs_of(bolt).windows:
        return window_spec(manifest, declarer, bolt)
    declared = getattr(bolt, "state", None)
    if declared is None:
        raise TopologyError(
            f'bolt {name!r} has no state: declare the fields of a value in its class, such as state = {{"count": int}}'
        )
    try:
        return spec_of(declared)
    except (TypeError, ValueError) as error:
        raise TopologyError(f"bolt {name!r} has an invalid state: {error}") from error


def _state(manifest: Manifest, bolt: BoltManifest, made: Any) -> StateManifest:
    spec = _spec(manifest, bolt, made)
    keys: list[tuple[str, tuple[Field, ...]]] = []
    for each in bolt.subscriptions:
        if each.grouping not in ("fields", "global"):
            raise TopologyError(
                f"bolt {bolt.name!r} has a state, and the grouping of {each.source!r} is {each.grouping}: its key is "
                "that of a fields grouping, so use fields_grouping(); or global_grouping() for one key"
            )
        if each.grouping == "global" and bolt.tasks > 1:
            raise TopologyError(
                f"bolt {bolt.name!r} has a state with one key, because the grouping of {each.source!r} is global, and "
                f"tasks={bolt.tasks}: leave tasks out, or use fields_grouping()"
            )
        types = {field.name: field for field in manifest.stream(each.source, each.stream).fields}
        keys.append((each.source, tuple(types[name] for name in each.fields)))
    source, key = keys[0]
    for field in key:
        if isinstance(field.type, list | tuple) and "null" in field.type:
            raise TopologyError(
                f"bolt {bolt.name!r} has a state, and its key {field.name!r} of {source!r} may be null: null and the "
                f"empty text would be one key; declare {field.name!r} without null"
            )
    for other, fields in keys[1:]:
        if list(map(_kind, fields)) != list(map(_kind, key)):
            raise TopologyError(
                f"bolt {bolt.name!r} has a state, and its keys differ: {_shown(key)} of {source!r}, and "
                f"{_shown(fields)} of {other!r}; group all its inputs by fields of the same types, in the same order"
            )
    if spec.value.codec == "json":
        for field in spec.value.fields:
            if missing := not_in_json(field.type):
                raise TopologyError(
                    f"the state of bolt {bolt.name!r} has field {field.name!r} of type {missing}, which JSON lacks: "
                    'declare it with keyed_state({…}, codec="avro")'
                )
    expire = None if spec.expire_after is None else max(1, round(1000 * spec.expire_after))
    state = StateManifest(value=spec.value, is_single=spec.is_single, key=key, expire_after_ms=expire)
    if not needs_of(made).windows:
        _check_initial(bolt.name, state, getattr(made, "initial", None))
        return state
    results = [stream for stream in bolt.streams if stream.name == DEFAULT_STREAM and made.emit_on == "close"]
    for stream in results:
        for field in stream.fields:
            if missing := not_in_json(field.type):
                raise TopologyError(
                    f"the results of bolt {bolt.name!r} have field {field.name!r} of type {missing}, which JSON, the "
                    f"codec of topic {results_topic(manifest.topology, bolt.name)}, lacks: use text or a number"
                )
    return windowed(manifest, bolt, made, state)


def _check_initial(bolt: str, state: StateManifest, initial: Any) -> None:
    if initial is None:
        return
    try:
        ValueCodec.of(state).encode(initial)
    except TypeError as error:
        raise TopologyError(f"bolt {bolt!r} has an initial value that does not fit its state: {error}") from error


def _kind(field: Field) -> str:
    """The type of a field of a key; integers of any width are encoded alike."""
    return "long" if field.type in _INTEGERS else str(field.type)


def _shown(fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in fields)


def _guarantee(manifest: Manifest, bolt: BoltManifest, made: Mapping[str, Any]) -> str:
    if not manifest.acking:
        return NOT_REPLAYED
    reasons, free = external_reasons(manifest, bolt.name), []
    for each in manifest.upstream(bolt.name):
        needs = needs_of(made.get(each.name))
        if each.external:
            continue
        if each.kind == "spout" and not needs.positions:
            reasons.append(f"spout {each.name!r} is not a KafkaSpout, and its messages have no position")
        elif needs.anchors_several:
            free.append(repr(each.name))
    if reasons:
        return counted_again(reasons)
    several = [f"tuples that {', '.join(free)} anchors to several inputs are counted again if replayed"] if free else []
    return "; ".join([ONCE, *several, *exceptions(manifest, bolt.name)])
