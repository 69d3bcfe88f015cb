"""Checks components, streams, groupings, tick intervals, guarantees, and external components."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from kafka_clients.client_settings import SESSION_MS
from spout_sdk.api.components import AnyBolt, AnySpout, ArrowBolt, BatchBolt
from spout_sdk.api.signatures import check_signatures
from spout_sdk.arguments import as_topology_error, check_choice
from spout_sdk.bolts.async_bolt import AsyncBolt
from spout_sdk.bolts.kafka_bolt import KafkaBolt
from spout_sdk.errors import TopologyError
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.state.bolt import AnyStatefulBolt
from spout_sdk.windows.bolt import WindowedBolt
from tuple_tree.components import BoltManifest, OutcomesCodec, OutcomesManifest, SpoutManifest
from tuple_tree.errors import describe
from tuple_tree.manifest import Guarantee, Manifest
from tuple_tree.names import check_topic
from tuple_tree.positions import MAX_SPOUTS
from tuple_tree.streams import Stream, Streams, as_streams

_DECLARED_BY_INSTANCES: Final = (KafkaSpout, KafkaBolt, AnyStatefulBolt)
_GROUPABLE: Final = frozenset({"string", "bytes", "int", "long", "boolean", "null", "enum", "fixed"})
_LONGEST_TICK_MS: Final = 1_000
# Methods that the SDK never calls: a class that defines one does not work as its author expects.
_NEVER_CALLED: Final[Mapping[type, Mapping[str, str]]] = {
    AsyncBolt: {name: f"write async def {name}_async" for name in ("prepare", "execute", "cleanup")},
    WindowedBolt: {"execute": "write def execute_window"},
    KafkaBolt: dict.fromkeys(
        ("prepare", "execute", "cleanup"),
        "pass functions of the tuple as topic=, key= or value=, or derive a Bolt that calls collector.write",
    ),
    KafkaSpout: {"next_tuple": "pass translate=, or derive a Spout"},
}


def default_tick_ms(spouts: Sequence[SpoutManifest]) -> int:
    """The largest tick of at most a second that divides the smallest message timeout, up to rounding."""
    smallest = min(spout.timeout_ms for spout in spouts)
    return ceil(smallest / ceil(smallest / _LONGEST_TICK_MS))


def check_component(
    name: str, factory: Any, kinds: tuple[type, ...], external: bool, streams: Streams | None
) -> tuple[tuple[Stream, ...], Any]:
    """Checks a component; returns its streams, and the class or instance that declares them, or None if external."""
    if external:
        return _checked_streams(name, streams or ()), None
    if not callable(factory):
        raise TopologyError(
            f"component {name!r} is given a {type(factory).__name__}: pass its class, or a callable without arguments, "
            "because each task creates its own instance; add external=True if another program runs it, such as Spark"
        )
    if streams is not None:
        raise TopologyError(f"component {name!r} is given streams: declare them in its class, as `streams`")
    # A function must be called to know the class of its result; Storm also creates components at submission.
    cls = _class_of(factory)
    made: Any = _made(name, factory) if cls is None else None
    cls = cls or type(made)
    if not issubclass(cls, kinds):
        *others, last = (kind.__name__ for kind in kinds)
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise TopologyError(f"component {name!r} makes a {cls.__name__}, which is not a {wanted}: derive it from one")
    if missing := ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))):
        raise TopologyError(f"component {name!r} makes a {cls.__name__}, which does not define {missing}: define it")
    check_signatures(f"component {name!r}", cls if made is None else made)
    for kind, methods in _NEVER_CALLED.items():
        for method, instead in methods.items() if issubclass(cls, kind) else ():
            if hasattr(cls, method):
                raise TopologyError(
                    f"component {name!r}: {cls.__name__}.{method} is never called, because no {kind.__name__} has that "
                    f"method: {instead}"
                )
    if made is None:
        # Constructor arguments may set the topics, streams and windows of these classes.
        made = _made(name, factory) if issubclass(cls, _DECLARED_BY_INSTANCES) else cls
    return _checked_streams(name, made.streams), made


def _class_of(factory: Any) -> type | None:
    """The class of a factory that is a class or a `functools.partial` of one; None for another callable."""
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
            f"component {name!r} cannot be created to read its declarations: {describe(error)}; move "
            "code that needs the machine where it runs to prepare(), or to open() of a spout"
        ) from error


def _checked_streams(name: str, streams: Any) -> tuple[Stream, ...]:
    several = as_streams(streams)
    for stream in several:
        if not isinstance(stream, Stream):
            raise TopologyError(
                f"streams of {name!r} hold a {type(stream).__name__}: make them with declare, "
                'such as streams = [declare({"word": str})]'
            )
    return several


def check_ticks(bolt: str, made: Any, tick_interval: float | None) -> None:
    """Rejects a tick interval for bolts that take no tick tuples or set their own interval."""
    made = made if isinstance(made, type) else type(made)
    why = ""
    if issubclass(made, AsyncBolt) and tick_interval is not None:
        why = "is an AsyncBolt, which has no tick tuples: leave tick_interval out"
    interval = getattr(made, "tick_interval", None) if tick_interval is None else tick_interval
    if issubclass(made, AnyStatefulBolt) and tick_interval is not None:
        why = "has a state, and no tick tuples: leave tick_interval out"
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
    """Rejects groupings by fields whose values are not encoded alike in every language."""
    for subscription in bolt.subscriptions:
        for field in manifest.stream(subscription.source, subscription.stream).fields:
            if field.name in subscription.fields and not _is_groupable(field.type):
                raise TopologyError(
                    f"bolt {bolt.name!r} groups {subscription.source!r} by {field.name!r}, whose type is {field.type}: "
                    "group by text, bytes, an integer, a boolean, or one of these or null"
                )


# Time for a broker, which checks for transaction timeouts every few seconds, and for a process to start.
_MARGIN_MS: Final = 7_000
# The shortest message timeout with `exactly_once`.
SHORTEST_TIMEOUT_MS: Final = SESSION_MS + TRANSACTION_MS + _MARGIN_MS


def check_outcomes(
    spout: str, made: Any, given: str | None, codec: OutcomesCodec, guarantee: Guarantee, *, external: bool
) -> OutcomesManifest | None:
    """The topic and codec of a spout's outcomes, as given to `set_spout` or to the `KafkaSpout`; None without outcomes.

    `made` is the spout, or the source of an external spout. Raises `TopologyError` if it cannot write outcomes.
    """
    if given is None and isinstance(made, KafkaSpout):
        given, codec = made.outcomes, made.outcomes_codec
    if given is None:
        return None
    with as_topology_error(f"spout {spout!r} cannot write outcomes to {given!r}: "):
        check_topic(given)
    check_choice("outcomes_codec", codec, OutcomesCodec)
    if isinstance(made, KafkaSpout):
        sources: tuple[str, ...] = made.topics
    elif external:
        # The Spark job checks the topics that a function reads.
        sources = (made,) if isinstance(made, str) else ()
    else:
        raise TopologyError(
            f"spout {spout!r} cannot write outcomes, because its messages are in no topic: write them from its ack and "
            "fail, or read a topic with a KafkaSpout or an external spout"
        )
    if given in sources:
        raise TopologyError(f"spout {spout!r} reads topic {given} and writes its outcomes to it: name another topic")
    if guarantee == "at_most_once":
        raise TopologyError(
            f"spout {spout!r} writes outcomes, and at_most_once follows no trees: leave outcomes out, or choose "
            "at_least_once or exactly_once"
        )
    return OutcomesManifest(topic=given, codec=codec)


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
                "out; a tree that fails meanwhile is replayed, and its outputs are duplicated"
            )
    for bolt in manifest.bolts:
        receivers = [each.name for each in manifest.bolts if any(s.source == bolt.name for s in each.subscriptions)]
        if bolt.external and receivers:
            raise TopologyError(
                f"bolt {bolt.name!r} does not run in this SDK, and Spark writes duplicates after a failure: with "
                f"exactly_once it cannot emit to {', '.join(receivers)}. Make it the last bolt, or build the topology "
                'with guarantee="at_least_once"'
            )


def check_kafka_spout(number: int) -> None:
    """Rejects a `KafkaSpout` without a number for its roots; `number` is its number among the spouts, from 1."""
    if number > MAX_SPOUTS:
        raise TopologyError(
            f"a KafkaSpout is spout number {number} of its topology, and positional roots have room for {MAX_SPOUTS}: "
            "declare it earlier, or split the topology"
        )


def check_source(name: str, source: Any, streams: tuple[Stream, ...]) -> None:
    """Checks the source of an external spout: a topic, or a function, which is not called."""
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
    if isinstance(given, type) and issubclass(given, AnySpout | AnyBolt):
        raise TopologyError(
            f"{kind} {name!r} is external and given the class {given.__name__}, which only this SDK can run: remove "
            f"external=True, or pass {wanted}"
        )
    if not callable(given):
        raise TopologyError(f"{kind} {name!r} is external and given a {type(given).__name__}: pass {wanted}")
