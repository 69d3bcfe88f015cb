"""What a spout emits, as deliveries: one for each recipient of each row, with an edge of its own."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.anchors import root_headers
from spark_jobs.ids import edge_of, seed_of, unsigned_mod
from spark_jobs.outputs import Outputs
from spark_jobs.payloads import FIELD, StreamSchema
from spark_jobs.routing import fields_task, grouping_key
from tuple_tree.manifest import Subscription
from tuple_tree.names import tuples_topic

ID: Final = "_id"
"""The column of the identity that the edges of a row are made from."""

_DELIVERY_TYPE: Final = "struct<topic: string, partition: int, key: binary, edge: bigint>"

Routes = Sequence[tuple[str, int, Subscription]]


def deliveries_of(outputs: Outputs, schema: StreamSchema, routes: Routes) -> Column:
    """An array with topic, partition, key and edge for each recipient of a row.

    The row has `_id`, from which the edges are made, and the fields of the stream under the names `_field_…`.
    """
    if not routes:
        return _nowhere()
    found: list[Column] = []
    for bolt, tasks, subscription in routes:
        topic = F.lit(tuples_topic(outputs.manifest.topology, bolt)).alias("topic")
        partition, key, edge = _destination(schema, (bolt, tasks, subscription))
        if subscription.grouping == "all":
            seed = _seed(schema, bolt)
            found += [
                F.struct(topic, F.lit(n).alias("partition"), key.alias("key"), edge_of(F.col(ID), seed, F.lit(n)))
                for n in range(tasks)
            ]
        else:
            found.append(F.struct(topic, partition.alias("partition"), key.alias("key"), edge.alias("edge")))
    return F.array(*[delivery.cast(_DELIVERY_TYPE) for delivery in found])


def edges_of(to: Column) -> Column:
    """The XOR of the edges in an array made by `deliveries_of`."""
    return F.aggregate(to, F.lit(0).cast("bigint"), lambda total, delivery: total.bitwiseXOR(delivery["edge"]))


def records_of_roots(rows: DataFrame, outputs: Outputs, root: Column) -> DataFrame:
    """The records of a spout's tuples.

    Args:
        rows: with `value`, and `to`, made by `deliveries_of`.
        outputs: of the spout; one stream.
        root: of each row; not written if the topology does not track.
    """
    source = F.lit(outputs.source_of(outputs.streams[0][0].stream.name))
    tracked = root if outputs.manifest.acking else F.lit(None).cast("bigint")
    delivered = rows.select(tracked.alias("root"), "value", F.inline("to"))
    headers = root_headers(F.col("root"), F.col("edge"), source)
    return delivered.select("topic", "partition", "key", "value", headers.alias("headers"))


def _destination(schema: StreamSchema, route: tuple[str, int, Subscription]) -> tuple[Column, Column, Column]:
    """Partition, key and edge of a delivery to one task."""
    bolt, tasks, subscription = route
    edge = edge_of(F.col(ID), _seed(schema, bolt))
    key, partition = F.lit(None).cast("binary"), F.lit(0)
    if subscription.grouping in ("shuffle", "local_or_shuffle", "none"):
        partition = unsigned_mod(F.xxhash64(edge), tasks)
    elif subscription.grouping == "fields":
        key = grouping_key([F.col(FIELD + name) for name in subscription.fields])
        partition = fields_task(key, tasks)
    return partition.cast("int"), key, edge


def _seed(schema: StreamSchema, bolt: str) -> Column:
    return seed_of(bolt, schema.stream.name)


def _nowhere() -> Column:
    return F.array().cast(f"array<{_DELIVERY_TYPE}>")
