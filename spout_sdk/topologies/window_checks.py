"""Checks the time and the late tuples of windows against the streams that a bolt receives."""

from collections.abc import Mapping
from typing import Any, Final

from spout_sdk.errors import TopologyError
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.components import BoltManifest
from tuple_tree.manifest import Manifest

_INTEGERS: Final = ("int", "long")
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}


def check_event_time(manifest: Manifest, bolt: BoltManifest, spec: WindowSpec) -> None:
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
            if not takes(wanted, types[field]):
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


def takes(wanted: Any, given: Any) -> bool:
    """Whether a field of the Avro type `wanted` takes every value of the type `given`."""
    wanted, given = (each if isinstance(each, list) else [each] for each in (wanted, given))
    return all(branch in wanted or any(wider in wanted for wider in _WIDER.get(str(branch), ())) for branch in given)
