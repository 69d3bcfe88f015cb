"""What a bolt emits: the rows of `transform`'s result as deliveries, one for each recipient, each with an edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import MapType, StructType

from spark_jobs.anchors import child_headers
from spark_jobs.errors import TransformRefusedError
from spark_jobs.ids import edge_of, seed_of, unsigned_mod
from spark_jobs.payloads import StreamSchema, encoded, fits, problem_of, schema_of
from spark_jobs.routing import fields_task, grouping_key, routes_of
from spark_jobs.tracking import FAIL, STREAM, TRACKING, TRACKING_TYPE
from tuple_tree.manifest import Manifest, Subscription
from tuple_tree.names import tuples_topic

_DELIVERY_TYPE: Final = "struct<topic: string, partition: int, key: binary, edge: bigint>"

# Nodes of a logical plan that make at most one row of each, so that a row is told by its inputs alone.
_ONE_FROM_ONE: Final = frozenset(
    {
        "Aggregate",
        "ArrowEvalPython",
        "BatchEvalPython",
        "Filter",
        "GlobalLimit",
        "InMemoryRelation",
        "LocalLimit",
        "LocalRelation",
        "LogicalRDD",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "Window",
    }
)


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

    @property
    def is_leaf(self) -> bool:
        """Whether nobody receives anything."""
        return not any(routes for _, routes in self.streams)


def outputs_of(spark: SparkSession, manifest: Manifest, component: str) -> Outputs:
    """What a component emits."""
    streams = [
        (schema_of(spark, stream), tuple(routes_of(manifest, component, stream.name)))
        for stream in manifest.component(component).streams
    ]
    return Outputs(manifest, component, tuple(streams))


def check_result(result: Any, outputs: Outputs) -> None:
    """Checks what `transform` returned.

    Raises:
        TransformRefusedError: if it is no DataFrame, or one that cannot be emitted; the message says what to change.
    """
    where = f"transform of {outputs.component!r}"
    if not isinstance(result, DataFrame):
        raise TransformRefusedError(f"{where} returns a {type(result).__name__}: return the DataFrame of rows to emit")
    schema = result.schema
    if TRACKING not in schema.names:
        raise TransformRefusedError(
            f"{where} returns {_listed(schema)}, without {TRACKING}: keep that column, and in an aggregation merge it, "
            f'with merge_tracking().alias("{TRACKING}")'
        )
    if schema[TRACKING].dataType.simpleString() != TRACKING_TYPE.replace(" ", ""):
        raise TransformRefusedError(
            f"{where} returns a {schema[TRACKING].dataType.simpleString()} as {TRACKING}: keep that column as it is, "
            "and aggregate it with nothing but merge_tracking()"
        )
    for marked in (FAIL, STREAM):
        if marked in schema.names and schema[marked].dataType.simpleString() != "string":
            raise TransformRefusedError(
                f"{where} returns {marked} as {schema[marked].dataType.simpleString()}: it must be text"
            )
    if len(outputs.streams) > 1 and STREAM not in schema.names:
        names = ", ".join(each.stream.name for each, _ in outputs.streams)
        raise TransformRefusedError(f"{where} has streams {names}: say in column {STREAM} which one a row goes to")
    check_fields(schema, [each for each, _ in outputs.streams], where)


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


def multiplies(result: DataFrame) -> bool:
    """Whether the plan might make several rows of one, so that rows with the same inputs must be told apart."""
    # PySpark has no other way to ask; the analysed and optimised plan is part of Spark's developer API.
    pending = [result._jdf.queryExecution().optimizedPlan()]
    while pending:
        node = pending.pop()
        if node.nodeName().split(" ")[0] not in _ONE_FROM_ONE:
            return True
        children = node.children()
        pending += [children.apply(number) for number in range(children.size())]
    return False


def emitted(result: DataFrame, outputs: Outputs, *, numbered: bool) -> DataFrame:
    """The deliveries of `transform`'s result.

    Args:
        result: checked.
        outputs: of the bolt.
        numbered: whether rows with equal inputs and equal content are numbered, to have an edge each. Which of them
            gets which number does not matter, because they are equal: so the edges depend on the data alone.

    Returns:
        `topic`, `partition`, `key`, `value`, `source`, `roots`, `edge` of each delivery; and a row with `fail`, and
        without a topic, for each row that is marked as failed or cannot be encoded.
    """
    if outputs.is_leaf:
        return _evaluated(result)
    rows = result.select(
        F.col(TRACKING)["id"].alias("id"),
        F.col(TRACKING)["roots"].alias("roots"),
        _stream(result, outputs).alias("stream"),
        *[F.col(f"`{name}`") for name in _field_names(outputs)],
        (F.col(FAIL) if FAIL in result.columns else F.lit(None).cast("string")).alias("said"),
    )
    rows = rows.withColumn("fail", F.coalesce("said", _by_stream(outputs, _problem, F.lit("_stream is unknown"))))
    payload = _by_stream(outputs, _payload, F.lit(None).cast("binary"))
    rows = rows.withColumn("value", F.when(F.col("fail").isNull(), payload))
    if numbered:
        rows = rows.withColumn("id", F.xxhash64("id", "stream", "value"))
        equal = Window.partitionBy("id").orderBy(F.lit(0))
        rows = rows.withColumn("id", F.xxhash64("id", F.row_number().over(equal)))
    deliveries = F.when(F.col("fail").isNull(), _by_stream(outputs, deliveries_of, _nowhere())).otherwise(
        F.array(F.lit(None).cast(_DELIVERY_TYPE))
    )
    source = F.concat(F.lit(f"{outputs.component}/"), F.col("stream"))
    routed = rows.select("value", source.alias("source"), "roots", "fail", F.explode(deliveries).alias("to"))
    return routed.select("to.topic", "to.partition", "to.key", "value", "source", "roots", "to.edge", "fail")


def tuple_records(deliveries: DataFrame) -> DataFrame:
    """The deliveries as records of the inboxes."""
    headers = child_headers(F.col("roots"), F.col("edge"), F.col("source"))
    return deliveries.where("fail is null").select("topic", "partition", "key", "value", headers.alias("headers"))


def _evaluated(result: DataFrame) -> DataFrame:
    """Nobody receives the rows, but a user's function may be there for what it does besides.

    So all columns are computed, and of those rows that hash to zero, which is next to none, an edge of zero is kept.
    """
    columns = [F.col(f"`{field.name}`") for field in result.schema if not isinstance(field.dataType, MapType)]
    fail = F.col(FAIL) if FAIL in result.columns else F.lit(None).cast("string")
    kept = result.where(F.xxhash64(*columns).eqNullSafe(F.lit(0).cast("bigint")) | fail.isNotNull())
    nothing = {"topic": "string", "partition": "int", "key": "binary", "value": "binary", "source": "string"}
    return kept.select(
        *[F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()],
        F.col(TRACKING)["roots"].alias("roots"),
        F.lit(0).cast("bigint").alias("edge"),
        fail.alias("fail"),
    )


def _field_names(outputs: Outputs) -> list[str]:
    return list(dict.fromkeys(name for schema, _ in outputs.streams for name in schema.names))


def _stream(result: DataFrame, outputs: Outputs) -> Column:
    if STREAM in result.columns and len(outputs.streams) > 1:
        return F.coalesce(F.col(STREAM), F.lit(""))
    return F.lit(outputs.streams[0][0].stream.name)


def _by_stream(outputs: Outputs, make: Any, otherwise: Column) -> Column:
    made = [(schema.stream.name, make(outputs, schema, routes)) for schema, routes in outputs.streams]
    if len(made) == 1:
        only: Column = made[0][1]
        return only
    chosen = otherwise
    for name, column in reversed(made):
        chosen = F.when(F.col("stream") == name, column).otherwise(chosen)
    return chosen


Routes = Sequence[tuple[str, int, Subscription]]


def _columns(schema: StreamSchema) -> list[Column]:
    return [F.col(f"`{field.name}`").cast(field.dataType) for field in schema.fields]


def _problem(_outputs: Outputs, schema: StreamSchema, _routes: Routes) -> Column:
    return problem_of(_columns(schema), schema)


def _payload(_outputs: Outputs, schema: StreamSchema, _routes: Routes) -> Column:
    return encoded(_columns(schema), schema)


def _nowhere() -> Column:
    return F.array().cast(f"array<{_DELIVERY_TYPE}>")


def deliveries_of(outputs: Outputs, schema: StreamSchema, routes: Routes) -> Column:
    """An array with topic, partition, key and edge for each recipient of a row.

    Besides the fields of the stream the row has `id`, from which the edges are made.
    """
    if not routes:
        return _nowhere()
    return F.array(
        *[
            delivery
            for bolt, tasks, subscription in routes
            for delivery in _delivery(outputs.manifest.topology, schema, bolt, tasks, subscription)
        ]
    )


def _delivery(topology: str, schema: StreamSchema, bolt: str, tasks: int, subscription: Subscription) -> list[Column]:
    seed = seed_of(bolt, schema.stream.name)
    edge = edge_of(F.col("id"), seed)
    key = F.lit(None).cast("binary")
    partition = F.lit(0)
    if subscription.grouping == "shuffle":
        partition = unsigned_mod(F.xxhash64(edge), tasks)
    elif subscription.grouping == "fields":
        key = grouping_key([F.col(f"`{name}`").cast(schema.fields[name].dataType) for name in subscription.fields])
        partition = fields_task(key, tasks)
    elif subscription.grouping == "all":
        return [
            _struct(topology, bolt, F.lit(task), key, edge_of(F.col("id"), seed, F.lit(task))) for task in range(tasks)
        ]
    return [_struct(topology, bolt, partition, key, edge)]


def _struct(topology: str, bolt: str, partition: Column, key: Column, edge: Column) -> Column:
    return F.struct(
        F.lit(tuples_topic(topology, bolt)).alias("topic"),
        partition.cast("int").alias("partition"),
        key.alias("key"),
        edge.alias("edge"),
    )
