"""Checks a component by itself: its class, its streams, its source or function, and its outcomes."""

from typing import Any, Final

from spout_sdk.api.components import AnyBolt, AnySpout
from spout_sdk.api.needs import needs_of
from spout_sdk.api.signatures import check_signatures
from spout_sdk.arguments import as_topology_error, check_choice
from spout_sdk.arrow import ArrowBolt
from spout_sdk.errors import TopologyError
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.operators.async_bolt import AsyncBolt
from spout_sdk.operators.basic_bolt import BasicBolt
from spout_sdk.operators.batch_bolt import BatchBolt
from spout_sdk.operators.bolt import Bolt
from spout_sdk.operators.kafka_bolt import KafkaBolt
from spout_sdk.spouts.spout import Spout
from spout_sdk.state.bolt import StatefulBolt
from spout_sdk.steps.bolt import StepBolt
from spout_sdk.windows.aggregate_bolt import AggregateBolt
from spout_sdk.windows.bolt import WindowedBolt
from tuple_tree.components import OutcomesCodec, OutcomesManifest
from tuple_tree.errors import describe
from tuple_tree.manifest import Guarantee
from tuple_tree.names import check_topic
from tuple_tree.positions import MAX_SPOUTS
from tuple_tree.streams import StreamDeclaration, Streams, as_streams

SPOUTS: Final = (Spout, KafkaSpout)
BOLTS: Final = (
    *(Bolt, BasicBolt, BatchBolt, ArrowBolt, AsyncBolt),
    *(KafkaBolt, StatefulBolt, AggregateBolt, WindowedBolt),
)


def check_component(
    name: str, factory: Any, kinds: tuple[type, ...], external: bool, streams: Streams | None
) -> tuple[tuple[StreamDeclaration, ...], Any]:
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
    if not issubclass(cls, (*kinds, StepBolt)):
        *others, last = (kind.__name__ for kind in kinds)
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise TopologyError(f"component {name!r} makes a {cls.__name__}, which is not a {wanted}: derive it from one")
    if missing := ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))):
        raise TopologyError(f"component {name!r} makes a {cls.__name__}, which does not define {missing}: define it")
    check_signatures(f"component {name!r}", cls if made is None else made)
    needs = needs_of(cls)
    for method, instead in needs.never_called.items():
        if hasattr(cls, method):
            raise TopologyError(
                f"component {name!r}: {cls.__name__}.{method} is never called, because {needs.kind} has no such "
                f"method: {instead}"
            )
    if made is None:
        # Constructor arguments may set the topics, streams and windows of these classes.
        made = _made(name, factory) if needs.instance else cls
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


def _checked_streams(name: str, streams: Any) -> tuple[StreamDeclaration, ...]:
    several = as_streams(streams)
    for stream in several:
        if not isinstance(stream, StreamDeclaration):
            raise TopologyError(
                f"streams of {name!r} hold a {type(stream).__name__}: make them with declare, "
                'such as streams = [declare({"word": str})]'
            )
    return several


def check_outcomes(
    spout: str, made: Any, given: str | None, codec: OutcomesCodec, guarantee: Guarantee, *, external: bool
) -> OutcomesManifest | None:
    """The topic and codec of a spout's outcomes, as given to `set_spout` or to the `KafkaSpout`; None without outcomes.

    `made` is the spout, or the source of an external spout. Raises `TopologyError` if it cannot write outcomes.
    """
    reads = not external and needs_of(made).positions
    if given is None and reads:
        given, codec = made.outcomes, made.outcomes_codec
    if given is None:
        return None
    with as_topology_error(f"spout {spout!r} cannot write outcomes to {given!r}: "):
        check_topic(given)
    check_choice("outcomes_codec", codec, OutcomesCodec)
    if reads:
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


def check_positions(number: int) -> None:
    """Rejects a `KafkaSpout` without a number for its roots; `number` is its number among the spouts, from 1."""
    if number > MAX_SPOUTS:
        raise TopologyError(
            f"a KafkaSpout is spout number {number} of its topology, and positional roots have room for {MAX_SPOUTS}: "
            "declare it earlier, or split the topology"
        )


def check_source(name: str, source: Any, streams: tuple[StreamDeclaration, ...]) -> None:
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
