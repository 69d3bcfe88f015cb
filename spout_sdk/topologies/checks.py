"""Checks of the builder: streams, groupings, tick intervals, guarantees, external components, windows."""

import logging
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from kafka_clients.client_settings import SESSION_MS
from spout_sdk.api.components import ArrowBolt, BasicBolt, BatchBolt, Bolt, Spout
from spout_sdk.arguments import as_topology_error
from spout_sdk.bolts.async_bolt import AsyncBolt
from spout_sdk.bolts.kafka_bolt import KafkaBolt
from spout_sdk.errors import TopologyError
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.windows.bolt import WindowedBolt
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.manifest import BoltManifest, Guarantee, Manifest, SpoutManifest
from tuple_tree.names import check_topic
from tuple_tree.positions import MAX_SPOUTS
from tuple_tree.streams import Stream

logger = logging.getLogger("spout_sdk.windows")

_GROUPABLE: Final = frozenset({"string", "bytes", "int", "long", "boolean", "null", "enum", "fixed"})
_LONGEST_TICK_MS: Final = 1_000
_INTEGERS: Final = ("int", "long")


def default_tick_ms(spouts: Sequence[SpoutManifest]) -> int:
    """A tick of at most a second whose multiples meet the smallest message timeout, to within rounding."""
    smallest = min(spout.timeout_ms for spout in spouts)
    return ceil(smallest / ceil(smallest / _LONGEST_TICK_MS))


def check_component(
    name: str, factory: Any, kinds: tuple[type, ...], external: bool, streams: Sequence[Stream] | None
) -> tuple[tuple[Stream, ...], Any]:
    """The streams, and the class or instance that declares them; None of an external component."""
    if external:
        return _checked_streams(name, tuple(streams or ())), None
    if not callable(factory):
        raise TopologyError(
            f"component {name!r} is given a {type(factory).__name__}: pass its class, or a callable without arguments, "
            "because each task makes an instance of its own; add external=True if something else runs it, such as Spark"
        )
    if streams is not None:
        raise TopologyError(f"component {name!r} is given streams: declare them in its class, as `streams`")
    # What a function makes is known only by calling it, as Storm makes components at submission.
    cls = _class_of(factory)
    made: Any = _made(name, factory) if cls is None else None
    cls = cls or type(made)
    if not issubclass(cls, kinds):
        *others, last = (kind.__name__ for kind in kinds)
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise TopologyError(f"component {name!r} makes a {cls.__name__}, which is no {wanted}: derive it from one")
    if missing := ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))):
        raise TopologyError(f"component {name!r} makes a {cls.__name__}, which does not define {missing}: define it")
    if made is None:
        # Topics, streams and windows of these may be arguments.
        made = _made(name, factory) if issubclass(cls, KafkaSpout | KafkaBolt | WindowedBolt) else cls
    return _checked_streams(name, tuple(made.streams)), made


def _class_of(factory: Any) -> type | None:
    """The class that a factory is, or of which it is a `functools.partial`; None for another callable."""
    while hasattr(factory, "func"):
        factory = factory.func
    return factory if isinstance(factory, type) else None


def _made(name: str, factory: Any) -> Any:
    try:
        return factory()
    except TopologyError:
        raise
    except Exception as error:  # any exception of a user's component
        raise TopologyError(
            f"component {name!r} cannot be made to see what it declares: {type(error).__name__}: {error}; what "
            "it needs of the place where it runs belongs in prepare(), of a spout in open()"
        ) from error


def _checked_streams(name: str, streams: tuple[Any, ...]) -> tuple[Stream, ...]:
    for stream in streams:
        if not isinstance(stream, Stream):
            raise TopologyError(
                f"streams of {name!r} hold a {type(stream).__name__}: make them with declare, "
                'such as streams = [declare({"word": str})]'
            )
    return streams


def check_ticks(bolt: str, made: Any, tick_interval: float | None) -> None:
    """Rejects a tick interval for bolts that take no tick tuples or set their own interval."""
    made = made if isinstance(made, type) else type(made)
    why = ""
    if issubclass(made, WindowedBolt) and tick_interval is not None:
        why = "is a WindowedBolt and given tick_interval: leave it out, its window sets the interval"
    if issubclass(made, AsyncBolt) and tick_interval is not None:
        why = "is an AsyncBolt, which has no tick tuples: leave tick_interval out"
    interval = getattr(made, "tick_interval", None) if tick_interval is None else tick_interval
    if issubclass(made, BatchBolt | ArrowBolt) and interval is not None:
        why = "is called with batches only, as a BatchBolt and an ArrowBolt are: leave tick_interval out, or use a Bolt"
    if why:
        raise TopologyError(f"bolt {bolt!r} {why}")


def _is_groupable(type_: Any) -> bool:
    if isinstance(type_, (list, tuple)):
        return all(map(_is_groupable, type_))
    if isinstance(type_, Mapping):
        return "logicalType" not in type_ and _is_groupable(type_["type"])
    return type_ in _GROUPABLE


def check_groupable(manifest: Manifest, bolt: BoltManifest) -> None:
    """Rejects groupings by fields whose values do not have one form in every language."""
    for subscription in bolt.subscriptions:
        for field in manifest.stream(subscription.source, subscription.stream).fields:
            if field.name in subscription.fields and not _is_groupable(field.type):
                raise TopologyError(
                    f"bolt {bolt.name!r} groups {subscription.source!r} by {field.name!r}, whose type is {field.type}: "
                    "group by text, bytes, an integer, a boolean, or one of these or null"
                )


# For a broker that checks for hanging transactions every few seconds, and for a process to start.
_MARGIN_MS: Final = 7_000
# The shortest message timeout with `exactly_once`.
SHORTEST_TIMEOUT_MS: Final = SESSION_MS + TRANSACTION_MS + _MARGIN_MS


def check_guarantee(manifest: Manifest) -> None:
    """Rejects an `exactly_once` topology with short message timeouts, or with an external bolt that is not the last."""
    if manifest.guarantee != "exactly_once":
        return
    for spout in manifest.spouts:
        if spout.timeout_ms < SHORTEST_TIMEOUT_MS:
            raise TopologyError(
                f"the message timeout of spout {spout.name!r} is {spout.timeout_ms / 1000:g} s: with exactly_once it "
                f"must be at least {SHORTEST_TIMEOUT_MS / 1000:g} s. When a bolt's process dies, it takes its group up "
                f"to {SESSION_MS / 1000:g} s to notice, and its transaction up to {TRANSACTION_MS / 1000:g} s to time "
                "out; a tree that fails meanwhile is replayed, and its outputs are there twice"
            )
    for bolt in manifest.bolts:
        receivers = [each.name for each in manifest.bolts if any(s.source == bolt.name for s in each.subscriptions)]
        if bolt.external and receivers:
            raise TopologyError(
                f"bolt {bolt.name!r} does not run in this SDK, and what Spark writes again after a failure is there "
                f"twice: with exactly_once it cannot emit to {', '.join(receivers)}. Make it the last one, or build "
                'the topology with guarantee="at_least_once"'
            )


def check_kafka_spout(spout: KafkaSpout, number: int, guarantee: Guarantee) -> None:
    """Rejects a `KafkaSpout`, the spout with this number from 1 on, that cannot run in a topology."""
    if number > MAX_SPOUTS:
        raise TopologyError(
            f"a KafkaSpout is spout number {number} of its topology, and positional roots have room for {MAX_SPOUTS}: "
            "declare it earlier, or split the topology"
        )
    if spout.settings.mode == "at_least_once" and guarantee == "at_most_once":
        raise TopologyError(
            "a KafkaSpout with mode at_least_once needs a topology that follows trees: give the topology another "
            "guarantee than at_most_once, or leave mode out"
        )


def check_source(name: str, source: Any, streams: tuple[Stream, ...]) -> None:
    """Checks what an external spout was declared with: a topic, or a function that is never called here."""
    if not isinstance(source, str):
        check_function("spout", name, source, "the name of a topic, or a function, source(spark) in Spark")
    else:
        with as_topology_error(f"spout {name!r} reads no topic: "):
            check_topic(source)
    if not streams:
        raise TopologyError(
            f"spout {name!r} is external, and its streams are not declared: add streams=[declare(...)] to set_spout"
        )
    if isinstance(source, str) and len(streams) > 1:
        raise TopologyError(
            f"spout {name!r} reads topic {source!r} and declares {len(streams)} streams: a topic becomes one stream, "
            "so declare one"
        )


def check_function(kind: str, name: str, given: Any, wanted: str) -> None:
    if isinstance(given, type) and issubclass(given, (Spout, Bolt, BasicBolt)):
        raise TopologyError(
            f"{kind} {name!r} is external and given the class {given.__name__}, which nothing but this SDK runs: take "
            f"external=True away, or pass {wanted}"
        )
    if not callable(given):
        raise TopologyError(f"{kind} {name!r} is external and given a {type(given).__name__}: pass {wanted}")


def check_windows(manifest: Manifest, made: Mapping[str, Any]) -> bool:
    """Checks the windows of every bolt against the spouts whose tuples reach it; raises `TopologyError`.

    `made` has an instance of each bolt with windows. Returns whether some of them ack what is emitted for a tuple
    before they ack the tuple (ADR 26).
    """
    acks_ahead = False
    for bolt in manifest.bolts:
        spec = _spec(bolt.name, made[bolt.name])
        if spec is None:
            continue
        acks_ahead |= manifest.guarantee == "exactly_once" and not spec.is_tumbling
        if spec.timestamp is not None:
            _check_event_time(manifest, bolt, spec)
        elif manifest.guarantee == "exactly_once" and spec.seconds is not None and not spec.is_tumbling:
            raise TopologyError(
                f"bolt {bolt.name!r} with {spec} goes by when its task executes a tuple, which is another time after a "
                "restart, so that tuples would be in other windows again: with exactly_once, take the time from the "
                "tuples, with_timestamp_field(), or use tumbling windows or windows of a count"
            )
        if manifest.acking:
            spouts = manifest.spouts_upstream(bolt.name)
            for spout in spouts:
                _check_timeout(bolt.name, spec, spout)
            _warn_if_never_full(manifest, bolt.name, spec, spouts)
    return acks_ahead


def _spec(name: str, bolt: Any) -> WindowSpec | None:
    """The windows of a bolt; None if it is no `WindowedBolt`."""
    if not isinstance(bolt, WindowedBolt):
        return None
    spec = getattr(bolt, "window", None)
    if not isinstance(spec, WindowSpec):
        raise TopologyError(
            f"bolt {name!r} is a WindowedBolt without windows: declare them in its class, "
            "such as window = tumbling(count=100)"
        )
    return spec


def _check_event_time(manifest: Manifest, bolt: BoltManifest, spec: WindowSpec) -> None:
    late: tuple[str, ...] = ()
    if spec.late_stream is not None:
        streams = {stream.name: stream.field_names for stream in bolt.streams}
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
        if isinstance(spec.timestamp, str) and types.get(spec.timestamp) not in _INTEGERS:
            raise TopologyError(
                f"bolt {bolt.name!r} takes the time from field {spec.timestamp!r}, and {where} has "
                f"{', '.join(f'{name}: {type_}' for name, type_ in types.items())}: it must have that field, with "
                "milliseconds since the epoch, an int; or use with_timestamp_extractor()"
            )


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
    """Warns of a window by count that is larger than what spouts may have open, if only spouts feed the bolt.

    Then each open tree has one tuple for a task. It is no error, because untracked tuples are not counted as open.
    """
    fed_by = {subscription.source for subscription in getattr(manifest.component(bolt), "subscriptions", ())}
    if spec.count is None or spec.flush_after is not None or fed_by != {spout.name for spout in spouts}:
        return
    room = sum(spout.tasks * spout.max_pending for spout in spouts)
    # By the clock, a window lets a tuple go when one more comes than it holds.
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
