"""What a spout emits."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs.payloads import StreamSchema, schema_of
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
