"""The components of a topology that run in Spark, and the code that the topology was given for them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from pyspark.sql import Column, DataFrame, SparkSession

from kafka_clients.access import component_role
from spark_jobs.errors import ComponentRefusedError, first_line
from tuple_tree.components import BoltManifest, Component, SpoutManifest
from tuple_tree.errors import InvalidNameError
from tuple_tree.manifest import Manifest
from tuple_tree.names import check_topic
from tuple_tree.streams import SourceCodec
from tuple_tree.topics import topic_specs

DEFAULT_RETRY_LIMIT: Final = 10

_Kind = TypeVar("_Kind", SpoutManifest, BoltManifest)


class HasManifest(Protocol):
    """A topology as `TopologyBuilder.build` returns it."""

    @property
    def manifest(self) -> Manifest: ...


@runtime_checkable
class HasCode(HasManifest, Protocol):
    """The same, with the code of its components by name."""

    @property
    def factories(self) -> Mapping[str, Any]: ...


def component_of(topology: Manifest | HasManifest, name: str, kind: type[_Kind]) -> tuple[Manifest, _Kind]:
    """The manifest of a topology, and a component of it that has to be a spout or a bolt."""
    manifest = topology if isinstance(topology, Manifest) else topology.manifest
    component = _component(manifest, name)
    if not isinstance(component, kind):
        is_spout = isinstance(component, SpoutManifest)
        has, wanted = ("spout", "bolt") if is_spout else ("bolt", "spout")
        raise ComponentRefusedError(f"{name!r} is a {has} of topology {manifest.topology!r}: name a {wanted}")
    return manifest, component


def _component(manifest: Manifest, name: str) -> Component:
    try:
        return manifest.component(name)
    except ValueError as error:
        raise ComponentRefusedError(f"{error}; name one of these") from None


def topics_of(manifest: Manifest, component: Component) -> dict[str, int]:
    """The topics that a component needs, besides the source of a spout, and their numbers of partitions."""
    partitions = {spec.name: spec.partitions for spec in topic_specs(manifest)}
    needed = component_role(manifest, component.name).needed_topics
    return {name: partitions[name] for name in needed if name in partitions}


@dataclass(frozen=True, slots=True)
class Source:
    """The messages of a spout, and their settings.

        def orders(spark):
            from pyspark.sql import functions as F
            from spark_jobs import Source

            return Source("orders", fields={"order": F.col("key").cast("string")}, retry_limit=3)

        builder.set_spout("orders", orders, external=True, streams=[declare({"order": str})])

    The function imports what it needs by itself, so that processes of the SDK import the topology without PySpark.

    Attributes:
        messages: a topic, or a streaming DataFrame.
        fields: a column for each field of the stream, made of Kafka's `key`, `value`, `topic`, `partition`, `offset`,
            `timestamp` and `headers`; by default `codec` says how a message is decoded. Must be functions of the
            message; only for a topic.
        codec: the format of the messages, `json` or `avro`. By default a single field of text or bytes is the value as
            it is, and anything else is JSON, or Avro if that is the codec of the stream. Only for a topic.
        retry_limit: attempts after the first one, below 64.
        starting_offsets: `earliest` or `latest`, where nothing is committed yet.
        options: further options of Spark's Kafka source, such as `minPartitions`.
    """

    messages: str | DataFrame
    fields: Mapping[str, Column] | None = None
    retry_limit: int = DEFAULT_RETRY_LIMIT
    starting_offsets: str = "earliest"
    options: Mapping[str, str] | None = None
    codec: SourceCodec | None = None


SourceFunction = Callable[[SparkSession], str | DataFrame | Source]
"""Called once on the driver, before the spout starts."""


def declared(topology: HasCode, name: str) -> tuple[Component, Any]:
    """A component that Spark runs, and its code.

    The code is `transform` or the sink of a bolt, a topic or a `SourceFunction` of a spout.
    """
    component = _component(topology.manifest, name)
    if not component.external:
        raise ComponentRefusedError(f"{name!r} is run by acker run: add it with external=True to run it in Spark")
    code = topology.factories[name]
    if not isinstance(code, str):
        check_function(component, code)
    return component, code


def check_function(component: Component, function: Any) -> None:
    """Checks how a function can be called.

    A spout's with the session, a bolt's with its rows; where the bolt has no streams, with the rows and a batch id.
    """
    kind, arguments = ("spout", "spark") if isinstance(component, SpoutManifest) else ("bolt", "rows")
    which = f"{kind} {component.name!r}"
    if isinstance(component, BoltManifest):
        which += " with streams" if component.streams else " without streams"
        arguments = "rows" if component.streams else "rows, batch_id"
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except TypeError as error:
        raise ComponentRefusedError(
            f"the function of {which} cannot be called as function({arguments}): {error}; give it these arguments"
        ) from error
    except ValueError:
        pass  # some that are written in C have no signature


def source_of(spark: SparkSession, name: str, given: str | SourceFunction) -> Source:
    """Returns the source of a spout: the topic that the topology was given for it, or what its function returns."""
    try:
        made: Any = given if isinstance(given, str) else given(spark)
    except Exception as error:
        raise ComponentRefusedError(
            f"the source of spout {name!r} raised {type(error).__name__}: {first_line(error)}; correct the function"
        ) from error
    source = made if isinstance(made, Source) else Source(made)
    messages: Any = source.messages
    if isinstance(messages, str):
        try:
            check_topic(messages)
        except InvalidNameError as error:
            raise ComponentRefusedError(f"spout {name!r} reads no topic: {error}") from error
    elif not isinstance(messages, DataFrame):
        kind = f"{'Source of a ' if isinstance(made, Source) else ''}{type(messages).__name__}"
        raise ComponentRefusedError(
            f"the source of spout {name!r} returns a {kind}: have it return the name of a topic, a streaming "
            "DataFrame, or a spark_jobs.Source of one of these"
        )
    return source
