"""Ack batches, packed by Spark's own expressions.

What a micro-batch has to say about a root is XORed into one entry: the edges of all its inputs of that root, and those
of everything that was emitted anchored to them. XOR does not mind the order, and one entry is applied at once, so no
checksum is zero in between. A root that any row failed has no ack, only a fail: its tree must not look complete.

A lane is the writer of a stream of batches: one Spark task writes the batches of a lane, in the order of their sequence
numbers, each cut from the lane's entries sorted by root. Which roots there are depends on the inputs alone, so a
micro-batch that is run again cuts the same batches under the same numbers, and the ackers drop them as repeats.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.avro.functions import to_avro

from spark_jobs.anchors import HEADERS_TYPE, joined_bytes
from spark_jobs.ids import id_bytes, unsigned_mod
from tuple_tree.codec import ACK_BATCH, encode_ack_batch, schema_directory
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, SpoutTask
from tuple_tree.names import acks_topic

FULL: Final = 4096
"""Entries of a batch, at most."""

FULL_OF_FAILS: Final = 256
"""Fails of a batch, at most: with messages in four-byte letters half a record's largest size."""

MAX_MESSAGE: Final = 500
"""Characters of a fail message that are kept."""

_BATCH_BITS: Final = 20
_FAILS_FROM: Final = 1 << (_BATCH_BITS - 1)
"""Batches of fails are numbered from here within a micro-batch, behind those of acks."""

_SCHEMA: Final = (schema_directory() / "ack_batch.avsc").read_text()
_SPOUT_TYPE: Final = "struct<topic: string, task: int, timeout_ms: bigint>"


@dataclass(frozen=True, slots=True)
class AckLanes:
    """The lanes of one query.

    Attributes:
        manifest: of the topology.
        component: whose acks, or inits, they carry.
        session: 16 bytes, the query's id.
        lanes: how many there are for each partition of the ack log.
    """

    manifest: Manifest
    component: str
    session: bytes
    lanes: int = 1

    def writer(self, lane: int) -> str:
        """The name under which a lane writes."""
        return f"{self.component}/spark-{lane}"

    def openings(self, spark: SparkSession) -> DataFrame:
        """The records that open the session, for each lane on each partition; a repeat is harmless."""
        values = F.array(
            *[
                F.lit(encode_ack_batch(AckBatch(self.writer(lane), self.session, 0, opens=True)))
                for lane in range(self.lanes)
            ]
        )
        partitions = spark.range(0, self.manifest.ack_partitions, 1, 1)
        opened = partitions.select(F.col("id").cast("int").alias("partition"), F.explode(values).alias("value"))
        return _as_records(opened, acks_topic(self.manifest.topology))

    def acks(self, batch_id: int, entries: DataFrame) -> DataFrame:
        """The records that tell the acks and fails of a micro-batch.

        Args:
            batch_id: of the micro-batch.
            entries: `root`, `val` (both `bigint`), and `message`, null unless the root has failed.

        Returns:
            Kafka records.
        """
        merged = (
            self._in_lanes(entries)
            .groupBy("partition", "lane", "root")
            .agg(F.bit_xor("val").alias("val"), F.substring(F.max("message"), 1, MAX_MESSAGE).alias("message"))
        )
        return self._records(batch_id, merged, "ack", None)

    def inits(self, batch_id: int, entries: DataFrame, spout: SpoutTask) -> DataFrame:
        """The records that tell the inits of a micro-batch.

        Args:
            batch_id: of the micro-batch.
            entries: `root`, `val`; a root stands once.
            spout: who is told the outcome.

        Returns:
            Kafka records.
        """
        rows = self._in_lanes(entries.withColumn("message", F.lit(None).cast("string")))
        return self._records(batch_id, rows, "init", spout)

    def _in_lanes(self, entries: DataFrame) -> DataFrame:
        """The entries by lane, with their root as bytes, which sort unsigned; all that follows stays within a task."""
        root = F.col("root")
        lane = F.lit(0) if self.lanes == 1 else unsigned_mod(F.xxhash64(root), self.lanes)
        partition = unsigned_mod(root, self.manifest.ack_partitions)
        placed = entries.select(
            partition.alias("partition"), lane.alias("lane"), id_bytes(root).alias("root"), "val", "message"
        )
        return placed.repartition("partition", "lane")

    def _records(self, batch_id: int, rows: DataFrame, kind: str, spout: SpoutTask | None) -> DataFrame:
        """Packs `partition`, `lane`, `root` (bytes), `val` and `message`, which is null but for a fail."""
        is_fail = F.col("message").isNotNull()
        by_root = Window.partitionBy("partition", "lane").orderBy("root")
        fails = F.sum(is_fail.cast("int")).over(by_root.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        # Fails and others are counted apart, each from zero.
        others = F.row_number().over(by_root) - F.col("fails") - 1
        number = F.when(is_fail, F.floor((F.col("fails") - 1) / FULL_OF_FAILS) + _FAILS_FROM).otherwise(
            F.floor(F.col("others") / FULL)
        )
        text = F.col("root").cast("string")
        chunks = (
            rows.withColumn("fails", fails)
            .withColumn("others", others)
            .withColumn("number", number + 1)
            .groupBy("partition", "lane", "number")
            .agg(
                # Null is left out, and the lists of one chunk are in one order, whichever it is.
                joined_bytes(F.collect_list(F.when(~is_fail, text))).alias("roots"),
                joined_bytes(F.collect_list(F.when(~is_fail, id_bytes(F.col("val")).cast("string")))).alias("vals"),
                joined_bytes(F.collect_list(F.when(is_fail, text))).alias("fail_roots"),
                F.collect_list("message").alias("fail_messages"),
            )
            .sortWithinPartitions("partition", "lane", "number")
        )
        told = {f"{kind}_roots": F.col("roots"), f"{kind}_vals": F.col("vals")}
        batch = {
            "writer": F.concat(F.lit(self.writer(0)[:-1]), F.col("lane").cast("string")),
            "session": F.lit(self.session),
            "sequence": F.col("number") + F.lit(batch_id << _BATCH_BITS),
            "opens": F.lit(False),
            "spout": _spout(spout),
            **{name: told.get(name, F.lit(b"")) for name in ("init_roots", "init_vals", "ack_roots", "ack_vals")},
            "fail_roots": F.col("fail_roots"),
            "fail_messages": F.col("fail_messages"),
            "reset_roots": F.lit(b""),
        }
        body = to_avro(F.struct(*[column.alias(name) for name, column in batch.items()]), _SCHEMA)
        packed = chunks.select(
            "partition",
            F.concat(F.lit(ACK_BATCH.header), body).alias("value"),
        )
        return _as_records(packed, acks_topic(self.manifest.topology))


def _spout(spout: SpoutTask | None) -> Column:
    if spout is None:
        return F.lit(None).cast(_SPOUT_TYPE)
    return F.struct(
        F.lit(spout.topic).alias("topic"),
        F.lit(spout.task).alias("task"),
        F.lit(spout.timeout_ms).cast("bigint").alias("timeout_ms"),
    )


def _as_records(packed: DataFrame, topic: str) -> DataFrame:
    return packed.select(
        F.lit(topic).alias("topic"),
        "partition",
        F.lit(None).cast("binary").alias("key"),
        "value",
        F.lit(None).cast(HEADERS_TYPE).alias("headers"),
    )
