"""What is emitted, as deliveries: one for each recipient of each row, with an edge of its own."""

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import MapType

from spark_jobs.anchors import ROOTS_TYPE, child_headers
from spark_jobs.ids import edge_of, seed_of, unsigned_mod
from spark_jobs.outputs import Outputs
from spark_jobs.payloads import FIELD, StreamSchema, encoded, problem_of
from spark_jobs.routing import fields_task, grouping_key
from spark_jobs.tracking import FAIL, STREAM, TRACKING
from tuple_tree.manifest import Subscription
from tuple_tree.names import tuples_topic

ID: Final = "_id"
"""The column of the identity that the edges of a row are made from."""

_DELIVERY_TYPE: Final = "struct<topic: string, partition: int, key: binary, edge: bigint>"

Routes = Sequence[tuple[str, int, Subscription]]


def emitted(result: DataFrame, outputs: Outputs, *, numbered: bool, carried: bool = False) -> DataFrame:
    """The deliveries of `transform`'s result.

    Args:
        result: checked.
        outputs: of the bolt.
        numbered: whether rows with equal inputs and equal content are numbered, to have an edge each. Which of them
            gets which number does not matter, because they are equal: so the edges depend on the data alone.
        carried: whether each row is an input, and the only one of it; then `val` is there too. Only if there is one
            delivery to a row.

    Returns:
        `partition`, `key`, `value`, `edge` of each delivery; its `root`, or `several` of them, or neither; `topic` and
        `source`, unless they are the same for all; and a row with `fail` for each row that is marked as failed or
        cannot be encoded. `val` is the XOR of `edge` and that of the input, null unless there is one `root`.
    """
    if outputs.is_leaf:
        return _evaluated(result)
    roots = F.col(TRACKING)["roots"]
    kinds = {field.name: field.dataType for schema, _ in outputs.streams for field in schema.fields}
    rows = result.select(
        F.col(TRACKING)["id"].alias(ID),
        F.when(F.size(roots) == 1, F.get(roots, F.lit(0))).alias("root"),
        F.when(F.size(roots) > 1, roots).alias("several"),
        _stream(result, outputs).alias("_stream"),
        *[F.col(f"`{name}`").cast(kind).alias(FIELD + name) for name, kind in kinds.items()],
        (F.col(FAIL) if FAIL in result.columns else F.lit(None).cast("string")).alias("_said"),
        *([F.col(TRACKING)["edge"].alias("_came")] if carried else []),
    )
    problem = _by_stream(outputs, lambda schema, _: problem_of(_fields(schema), schema), F.lit("_stream is unknown"))
    rows = rows.withColumn("fail", F.coalesce("_said", problem))
    payload = _by_stream(outputs, lambda schema, _: encoded(_fields(schema), schema), F.lit(None).cast("binary"))
    rows = rows.withColumn("value", F.when(F.col("fail").isNull(), payload))
    if numbered:
        rows = rows.withColumn(ID, F.xxhash64(ID, "_stream", "value"))
        equal = Window.partitionBy(ID).orderBy(F.lit(0))
        rows = rows.withColumn(ID, F.xxhash64(ID, F.row_number().over(equal)))
    only = outputs.only_route
    if only is not None:
        partition, key, edge = _destination(*only)
        val = [F.col("_came").bitwiseXOR(edge).alias("val")] if carried else []
        return rows.select(
            partition.alias("partition"), key.alias("key"), "value", "root", "several", edge.alias("edge"), "fail", *val
        )
    to = F.when(
        F.col("fail").isNull(),
        _by_stream(outputs, lambda schema, routes: deliveries_of(outputs, schema, routes), _nowhere()),
    ).otherwise(F.array(F.lit(None).cast(_DELIVERY_TYPE)))
    source = F.concat(F.lit(outputs.source_of("")), F.col("_stream"))
    return rows.select("value", source.alias("source"), "root", "several", "fail", F.explode(to).alias("to")).select(
        "to.topic", "to.partition", "to.key", "value", "source", "root", "several", "to.edge", "fail"
    )


def tuple_records(deliveries: DataFrame, outputs: Outputs) -> DataFrame:
    """The deliveries, those without a `fail`, as records of the inboxes."""
    topic, source = F.col("topic"), F.col("source")
    if outputs.only_route is not None:
        schema, (bolt, _, _) = outputs.only_route
        topic = F.lit(tuples_topic(outputs.manifest.topology, bolt))
        source = F.lit(outputs.source_of(schema.stream.name))
    headers = child_headers(F.col("root"), F.col("several"), F.col("edge"), source)
    return deliveries.where("fail is null").select(
        topic.alias("topic"), "partition", "key", "value", headers.alias("headers")
    )


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
    headers = child_headers(F.col("root"), F.lit(None).cast(ROOTS_TYPE), F.col("edge"), source)
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


def _evaluated(result: DataFrame) -> DataFrame:
    """Nobody receives the rows, but a user's function may be there for what it does besides.

    So all columns are computed, and of those rows that hash to zero, which is next to none, an edge of zero is kept.
    """
    columns = [F.col(f"`{field.name}`") for field in result.schema if not isinstance(field.dataType, MapType)]
    fail = F.col(FAIL) if FAIL in result.columns else F.lit(None).cast("string")
    kept = result.where(F.xxhash64(*columns).eqNullSafe(F.lit(0).cast("bigint")) | fail.isNotNull())
    nothing = {"topic": "string", "source": "string", "partition": "int", "key": "binary", "value": "binary"}
    return kept.select(
        *[F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()],
        F.lit(None).cast("bigint").alias("root"),
        F.col(TRACKING)["roots"].cast(ROOTS_TYPE).alias("several"),
        F.lit(0).cast("bigint").alias("edge"),
        fail.alias("fail"),
    )


def _stream(result: DataFrame, outputs: Outputs) -> Column:
    if STREAM in result.columns and len(outputs.streams) > 1:
        return F.coalesce(F.col(STREAM), F.lit(""))
    return F.lit(outputs.streams[0][0].stream.name)


def _by_stream(outputs: Outputs, make: Callable[[StreamSchema, Routes], Column], otherwise: Column) -> Column:
    made = [(schema.stream.name, make(schema, routes)) for schema, routes in outputs.streams]
    if len(made) == 1:
        return made[0][1]
    chosen = otherwise
    for name, column in reversed(made):
        chosen = F.when(F.col("_stream") == name, column).otherwise(chosen)
    return chosen


def _fields(schema: StreamSchema) -> list[Column]:
    return [F.col(FIELD + name) for name in schema.names]


def _nowhere() -> Column:
    return F.array().cast(f"array<{_DELIVERY_TYPE}>")
