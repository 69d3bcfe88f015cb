"""What a spout emits, and whether a DataFrame is that."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_jobs.errors import TransformRefusedError
from spark_jobs.payloads import StreamSchema, fits, schema_of
from spark_jobs.routing import routes_of
from tuple_tree.manifest import Manifest, Subscription


@dataclass(frozen=True, slots=True)
class Outputs:
    """The streams of a component, with who receives them.

    Attributes:
        manifest: of the topology.
        component: who emits.
        streams: schema and recipients (bolt, its tasks, its subscription) of each stream.
    """

    manifest: Manifest
    component: str
    streams: tuple[tuple[StreamSchema, tuple[tuple[str, int, Subscription], ...]], ...]

    def source_of(self, stream: str) -> str:
        """What the `source` header of a stream's tuples says."""
        return f"{self.component}/{stream}"


def outputs_of(spark: SparkSession, manifest: Manifest, component: str) -> Outputs:
    """What a component emits."""
    streams = [
        (schema_of(spark, stream), tuple(routes_of(manifest, component, stream.name)))
        for stream in manifest.component(component).streams
    ]
    return Outputs(manifest, component, tuple(streams))


def check_fields(schema: StructType, streams: Sequence[StreamSchema], where: str) -> None:
    """Checks that a DataFrame has the fields of some streams.

    Raises:
        TransformRefusedError: if it has not.
    """
    for stream in streams:
        for field in stream.fields:
            told = f"field {field.name!r} of stream {stream.stream.name!r}"
            if schema.names.count(field.name) != 1:
                has = "twice" if field.name in schema.names else "not at all"
                raise TransformRefusedError(
                    f"{where} returns {_listed(schema)}, and {told} {has}: name one column {field.name!r}"
                )
            given = schema[field.name].dataType
            if not fits(given, field.dataType):
                raise TransformRefusedError(
                    f"{where} returns {told} as {given.simpleString()}: the topology declares "
                    f"{field.dataType.simpleString()}, so cast it"
                )


def _listed(schema: StructType) -> str:
    return "columns " + ", ".join(schema.names) if schema.names else "no columns"
