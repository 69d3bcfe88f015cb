"""Checks windows against the streams that they receive, and the message timeouts of the spouts upstream."""

from collections.abc import Mapping
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import TopologyError
from spout_sdk.windows.bolt import WindowedBolt
from spout_sdk.windows.fold import longest_progress
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.commit_metadata import LARGEST_METADATA, read_metadata
from tuple_tree.components import BoltManifest, SpoutManifest
from tuple_tree.manifest import Manifest

logger = get_logger("spout_sdk.windows")

_INTEGERS: Final = ("int", "long")
_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}


def check_windows(manifest: Manifest, made: Mapping[str, Any]) -> bool:
    """Checks the windows of every bolt against the spouts upstream; raises `TopologyError`.

    `made` has an instance of each bolt with windows. Returns whether some bolts ack the tuples that are emitted for a
    tuple before they ack that tuple (ADR 26).
    """
    acks_ahead = False
    for bolt in manifest.bolts:
        spec = _spec(bolt.name, made[bolt.name])
        if spec is None:
            continue
        if not manifest.acking:
            raise TopologyError(
                f"bolt {bolt.name!r} with {spec} holds tuples whose offsets are committed before, with at_most_once: "
                "each restart of a process, and each task that moves, would lose what its windows hold. Build the "
                'topology with guarantee="at_least_once" or "exactly_once"'
            )
        acks_ahead |= manifest.guarantee == "exactly_once" and not spec.is_tumbling
        if manifest.guarantee == "exactly_once":
            _check_metadata(bolt, spec)
        if spec.timestamp is not None:
            check_event_time(manifest, bolt, spec)
        elif manifest.guarantee == "exactly_once" and spec.seconds is not None and not spec.is_tumbling:
            raise TopologyError(
                f"bolt {bolt.name!r} with {spec} uses the time when its task executes a tuple, which differs after a "
                "restart, so that tuples would be in other windows: with exactly_once, take the time from the "
                "tuples, with_timestamp_field(), or use tumbling windows or windows of a count"
            )
        spouts = manifest.spouts_upstream(bolt.name)
        for spout in spouts:
            _check_timeout(bolt.name, spec, spout)
        _warn_if_never_full(manifest, bolt.name, spec, spouts)
    return acks_ahead


def _spec(name: str, bolt: Any) -> WindowSpec | None:
    if not isinstance(bolt, WindowedBolt):
        return None
    spec = getattr(bolt, "window", None)
    if not isinstance(spec, WindowSpec):
        raise TopologyError(
            f"bolt {name!r} is a WindowedBolt without windows: declare them in its class, "
            "such as window = tumbling(count=100)"
        )
    if spec.gap is not None or spec.grace or spec.idle_after is not None:
        raise TopologyError(
            f"bolt {name!r} with {spec} is a WindowedBolt: session(), with_grace() and with_idle_sources() are for an "
            "AggregateBolt"
        )
    return spec


def _check_metadata(bolt: BoltManifest, spec: WindowSpec) -> None:
    """Rejects windows whose state may not fit into the metadata of a committed offset."""
    sources = [(each.source, each.stream) for each in bolt.subscriptions]
    size = len(read_metadata(2**63 - 1, longest_progress(spec, sources)).encode())
    if size > LARGEST_METADATA:
        raise TopologyError(
            f"bolt {bolt.name!r} with {spec} receives {len(sources)} streams: with exactly_once the metadata of its "
            f"commits may have {size:,} bytes, and Kafka takes {LARGEST_METADATA:,} (OFFSET_METADATA_TOO_LARGE). Merge "
            "streams in a bolt before it, shorten the names of their components and streams, or use at_least_once"
        )


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


def _check_timeout(bolt: str, spec: WindowSpec, spout: SpoutManifest) -> None:
    hold = spec.longest_hold
    timeout = spout.timeout_ms / 1000
    if hold is not None and hold >= timeout:
        lag = "" if spec.timestamp is None else ", its lag"
        raise TopologyError(
            f"bolt {bolt!r} with {spec} holds a tuple for up to {hold:g} seconds (its length{lag}, and what a window "
            f"may close late), but tuples of spout {spout.name!r} reach it, which time out after {timeout:g} seconds: "
            f"shorten the window, or set a message_timeout above {hold:g} seconds"
        )


def _warn_if_never_full(manifest: Manifest, bolt: str, spec: WindowSpec, spouts: list[SpoutManifest]) -> None:
    """Warns of a window by count that is larger than the number of trees that spouts may have open.

    It checks only bolts that receive tuples only from spouts, because then each open tree has one tuple for the bolt.
    It is not an error, because untracked tuples are not limited.
    """
    fed_by = {subscription.source for subscription in getattr(manifest.component(bolt), "subscriptions", ())}
    if spec.count is None or spec.flush_after is not None or fed_by != {spout.name for spout in spouts}:
        return
    room = sum(spout.tasks * spout.max_pending for spout in spouts)
    # A window by count that slides by time acks a tuple only when one more comes than it holds.
    needed = spec.count + 1 if spec.every_count is None else spec.count
    if needed > room:
        logger.warning(
            "bolt %r with %s waits for %d tuples, but its spouts may have only %d open: unless they emit untracked "
            "tuples it waits until some have timed out; make the window smaller, raise max_spout_pending%s",
            bolt,
            spec,
            needed,
            room,
            ", or set flush_after" if spec.is_tumbling else "",
        )
