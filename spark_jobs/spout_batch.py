"""What a Spark spout writes: source messages in; tuples, inits and dead letters out, in one write.

Roots say the position and the attempt, edges are hashes of root and recipient. So whoever delivers an attempt again,
after a crash or in a task that is retried, writes the same tuples and the same inits.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ack_batches import AckLanes
from spark_jobs.dead_letters import REASON_TYPE, dead_letter, dead_letter_records, reason
from spark_jobs.deliveries import ID, deliveries_of, edges_of, records_of_roots
from spark_jobs.errors import ComponentRefusedError
from spark_jobs.outputs import Outputs, outputs_of
from spark_jobs.payloads import FIELD, StreamSchema, encoded, problem_of, read_fields, read_payload
from spark_jobs.plans import fixed_plans, write
from spark_jobs.positional_roots import positional_root
from spark_jobs.results import check_fields
from tuple_tree.manifest import Manifest, SpoutManifest
from tuple_tree.messages import SpoutTask
from tuple_tree.names import notices_topic
from tuple_tree.positions import MAX_SPOUTS, topic_key

TASK: Final = 0
"""The task of the spout that is told all outcomes: one driver keeps the books."""

ATTEMPT: Final = "_attempt"
GIVEN_UP: Final = "_given_up"
"""Why a message is no longer tried, of type `REASON_TYPE`; null where it is."""

_READ: Final = "_read"
_RECORD: Final = "_record"
_SIMPLE: Final = {"string": "string", "bytes": "binary"}


@dataclass(frozen=True, slots=True)
class Found:
    """Messages of one source partition.

    Attributes:
        offsets: of all of them, in rising order.
        dead: of those that become dead letters.
        tuples: deliveries, one for each recipient.
    """

    partition: int
    offsets: Sequence[int]
    dead: Sequence[int]
    tuples: int


@dataclass(frozen=True, slots=True)
class SpoutBatch:
    """What every write of a spout has in common.

    Attributes:
        outputs: its one stream, with who receives it.
        index: of the spout in the manifest.
        topic_key: of the source topic.
        fields: a column over Kafka's for each field of the stream; None reads the message's value.
        spout: who is told the outcomes.
        kafka: options of Spark's Kafka sink.
    """

    outputs: Outputs
    index: int
    topic_key: int
    fields: Mapping[str, Column] | None
    spout: SpoutTask
    kafka: Mapping[str, str]

    def prepared(self, records: DataFrame) -> DataFrame:
        """Messages with all that is needed of them.

        Args:
            records: as Spark's Kafka source gives them, with headers, `_attempt` and `_given_up`; see `first_attempt`.

        Returns:
            `partition`, `offset`, `_id` (the root), `value`, `to` (the deliveries) and `dead` (`key`, `value` and
            `headers` of a dead letter, or null). Keep it: all that follows reads it.
        """
        schema, _ = self.outputs.streams[0]
        record = F.struct("key", "value", "topic", "partition", "offset", "headers", ATTEMPT, GIVEN_UP).alias(_RECORD)
        rows = self._read(records.withColumn(_RECORD, record), schema)
        at = F.col(_RECORD)
        fields = [F.col(FIELD + name) for name in schema.names]
        problem = F.coalesce(problem_of(fields, schema), F.col("_problem"))
        why = F.coalesce(at[GIVEN_UP], F.when(problem.isNotNull(), reason("bad-payload", problem)))
        by = F.lit(f"{self.outputs.component}/{TASK}")
        root = positional_root(
            self.index,
            at["partition"],
            at["offset"],
            at[ATTEMPT],
            self.topic_key,
            self.outputs.manifest.ack_partitions,
        )
        payload = F.when(why.isNull(), encoded(fields, schema))
        judged = rows.withColumns({ID: root, "_payload": payload, "_why": why})
        to = deliveries_of(self.outputs, schema, self.outputs.streams[0][1])
        return judged.select(
            at["partition"].alias("partition"),
            at["offset"].alias("offset"),
            ID,
            F.col("_payload").alias("value"),
            F.when(F.col("_why").isNull(), to).alias("to"),
            F.when(F.col("_why").isNotNull(), dead_letter(at, F.col("_why"), by)).alias("dead"),
        )

    def found(self, prepared: DataFrame) -> list[Found]:
        """Which messages these are; offsets are only fetched one by one where some are missing between them."""
        first, last, count = F.min("offset"), F.max("offset"), F.count(F.lit(1))
        gaps = count != last - first + 1
        summed = prepared.groupBy("partition").agg(
            first.alias("first"),
            last.alias("last"),
            F.when(gaps, F.sort_array(F.collect_list("offset"))).alias("offsets"),
            F.collect_list(F.when(F.col("dead").isNotNull(), F.col("offset"))).alias("dead"),
            F.coalesce(F.sum(F.size("to")), F.lit(0)).alias("tuples"),
        )
        with fixed_plans(prepared.sparkSession):
            rows = summed.collect()
        return [
            Found(
                row["partition"],
                row["offsets"] if row["offsets"] is not None else range(row["first"], row["last"] + 1),
                row["dead"],
                row["tuples"],
            )
            for row in rows
        ]

    def write(self, prepared: DataFrame, lanes: AckLanes, batch_id: int, found: Sequence[Found]) -> None:
        """Writes tuples, inits and dead letters of what was prepared, and found to be this."""
        alive = prepared
        written = []
        if any(each.dead for each in found):
            alive = prepared.where("dead is null")
            written.append(dead_letter_records(prepared, F.col("dead"), self.outputs.manifest.topology))
        written.append(records_of_roots(alive, self.outputs, F.col(ID)))
        if self.outputs.manifest.acking:
            entries = alive.select(F.col(ID).alias("root"), edges_of(F.col("to")).alias("val"))
            count = sum(len(each.offsets) for each in found)
            written.append(lanes.inits(batch_id, entries, count, self.spout))
        write(functools.reduce(DataFrame.unionByName, written), self.kafka)

    def open(self, spark: SparkSession, lanes: AckLanes) -> None:
        """Opens the session of some lanes; nothing else may be written by them before."""
        if self.outputs.manifest.acking:
            write(lanes.openings(spark), self.kafka)

    def _read(self, records: DataFrame, schema: StreamSchema) -> DataFrame:
        """The stream's fields, of its types and under names of our own, and `_problem` where they cannot be read."""
        value = F.col(f"{_RECORD}.value")
        nothing = F.lit(None).cast("string").alias("_problem")
        if self.fields is not None:
            chosen = [self.fields[field.name].cast(field.dataType).alias(FIELD + field.name) for field in schema.fields]
            return records.select(_RECORD, *chosen, nothing)
        kind = simple_type(schema)
        if kind is not None:
            return records.select(_RECORD, value.cast(kind).alias(FIELD + schema.names[0]), nothing)
        read = records.select(_RECORD, read_payload(value, schema).alias(_READ))
        read = read.withColumn(_READ, read_fields(F.col(_READ), schema))
        told = F.lit(f"the value is no payload of stream {self.outputs.component}/{schema.stream.name}")
        problem = F.when(F.col(_READ).isNull(), told).alias("_problem")
        return read.select(_RECORD, *[F.col(_READ)[name].alias(FIELD + name) for name in schema.names], problem)


def first_attempt(records: DataFrame) -> DataFrame:
    """Messages that are delivered for the first time."""
    return records.withColumns({ATTEMPT: F.lit(0), GIVEN_UP: F.lit(None).cast(REASON_TYPE)})


def simple_type(schema: StreamSchema) -> str | None:
    """The Spark type of the one field that is the whole value of a message, text or bytes; None if it is not so."""
    if len(schema.names) != 1:
        return None
    kind = schema.stream.fields[0].type
    return _SIMPLE.get(kind) if isinstance(kind, str) else None


def spout_batch_of(
    spark: SparkSession,
    manifest: Manifest,
    spout: SpoutManifest,
    records: DataFrame,
    fields: Mapping[str, Column] | None,
    kafka: Mapping[str, str],
    topic_id: str,
) -> SpoutBatch:
    """The batch of a spout.

    Args:
        spark: knows the types.
        manifest: of the topology.
        spout: one of its spouts.
        records: any DataFrame of the source's columns.
        fields: a column for each field.
        kafka: options of Spark's Kafka sink.
        topic_id: of the source topic.

    Raises:
        ComponentRefusedError: if it cannot have positional roots, or not one stream.
        TransformRefusedError: if `fields` lacks one, or has another type for it.
    """
    index = [each.name for each in manifest.spouts].index(spout.name)
    if index >= MAX_SPOUTS:
        raise ComponentRefusedError(
            f"{spout.name!r} is spout number {index + 1} of topology {manifest.topology!r}, and positional roots tell "
            f"{MAX_SPOUTS} apart: declare it earlier, or split the topology"
        )
    outputs = outputs_of(spark, manifest, spout.name)
    if len(outputs.streams) != 1:
        raise ComponentRefusedError(
            f"spout {spout.name!r} has {len(outputs.streams)} streams: a Spark spout emits exactly one, so declare a "
            "spout for each"
        )
    schema = outputs.streams[0][0]
    if fields is not None:
        chosen: list[Any] = [column.alias(name) for name, column in fields.items()]
        check_fields(
            records.select(*chosen).schema, schema.stream.name, schema.types, f"fields of spout {spout.name!r}"
        )
    task = SpoutTask(notices_topic(manifest.topology, spout.name), TASK, spout.timeout_ms)
    return SpoutBatch(outputs, index, topic_key(topic_id), fields, task, kafka)
