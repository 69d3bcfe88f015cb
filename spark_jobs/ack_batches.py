"""Ack batches, packed by Spark's own expressions.

What a micro-batch has to say about a root is XORed into one entry: the edges of all its inputs of that root, and those
of everything that was emitted anchored to them. XOR does not mind the order, and one entry is applied at once, so no
checksum is zero in between. A root that any row failed has no ack, only a fail: its tree must not look complete.

A lane is the writer of a stream of batches: one Spark task writes the batches of a lane, in the order of their sequence
numbers. A root's hash says which batch its entry is in. Which roots there are, and how many, depends on the inputs
alone, so a micro-batch that is run again cuts the same batches under the same numbers, and the ackers drop them as
repeats. Fails, which are few and carry a text, have lanes of their own, that aggregations of numbers may stay simple.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.avro.functions import to_avro

from spark_jobs.anchors import HEADERS_TYPE
from spark_jobs.ids import id_digits, unsigned_mod
from tuple_tree.codec import ACK_BATCH, encode_ack_batch, schema_directory
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, SpoutTask
from tuple_tree.names import acks_topic

ENTRIES: Final = 2048
"""Entries of a batch, on average: hashing cuts no equal pieces, and twice as many are a full batch."""

_BATCH_BITS: Final = 20
_HASH_BITS: Final = 32
"""The upper half of a root's hash says which batch it is in, all of it which lane."""

_SCHEMA: Final = (schema_directory() / "ack_batch.avsc").read_text()
_IDS: Final = ("root", "val")


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

    def writers(self) -> list[str]:
        """The names under which the lanes write."""
        return [f"{self.component}/spark-{lane}" for lane in range(self.lanes)]

    def openings(self, spark: SparkSession) -> DataFrame:
        """The records that open the session, for each lane on each partition; a repeat is harmless."""
        values = [F.lit(encode_ack_batch(AckBatch(writer, self.session, 0, opens=True))) for writer in self.writers()]
        partitions = spark.range(0, self.manifest.ack_partitions, 1, 1)
        opened = partitions.select(F.col("id").cast("int").alias("partition"), F.explode(F.array(*values)).alias("v"))
        return self._as_records(opened, F.col("v"))

    def inits(self, batch_id: int, entries: DataFrame, count: int, spout: SpoutTask) -> DataFrame:
        """The records that tell the inits of a micro-batch.

        Args:
            batch_id: of the micro-batch.
            entries: `root`, `val`; a root stands once.
            count: of the entries.
            spout: who is told the outcome.

        Returns:
            Kafka records.
        """
        return self._told(batch_id, self._in_lanes(entries, "val"), count, spout)

    def _in_lanes(self, entries: DataFrame, *columns: str) -> DataFrame:
        """The entries by `place`, which says partition and lane; all that follows stays within a task."""
        root, places = F.col("root"), self.manifest.ack_partitions * self.lanes
        place = unsigned_mod(root, self.manifest.ack_partitions)
        if self.lanes > 1:
            place = place * F.lit(self.lanes) + unsigned_mod(F.xxhash64(root), self.lanes)
        placed = entries.select(place.alias("place"), "root", *columns)
        if places == 1:
            # Spark does not recognise a constant that it shuffled by: it would shuffle again, by what comes after it.
            return placed.repartition(1)
        return placed.repartition(min(places, 2 * entries.sparkSession.sparkContext.defaultParallelism), "place")

    def _told(self, batch_id: int, rows: DataFrame, count: int, spout: SpoutTask) -> DataFrame:
        """Packs `place`, `root` and `val`."""
        digits = rows.select("place", self._number(count), *[id_digits(F.col(c)).alias(c) for c in _IDS])
        # The lists of one batch are in one order, whichever it is.
        packed = [F.unhex(F.array_join(F.collect_list(name), "")).alias(f"init_{name}s") for name in _IDS]
        return self._batches(batch_id, digits.groupBy("place", "number").agg(*packed), spout)

    def _number(self, count: int) -> Column:
        """The number of an entry's batch within the micro-batch, from one."""
        batches = -(-count // (ENTRIES * self.manifest.ack_partitions * self.lanes))
        upper = F.shiftrightunsigned(F.xxhash64("root"), _HASH_BITS)
        return (upper % F.lit(max(1, batches)) + 1).alias("number")

    def _batches(self, batch_id: int, packed: DataFrame, spout: SpoutTask) -> DataFrame:
        """The records of `place`, `number` and some of the columns of a batch."""
        batch = {
            "writer": F.concat(F.lit(f"{self.component}/spark-"), (F.col("place") % F.lit(self.lanes)).cast("string")),
            "session": F.lit(self.session),
            "sequence": F.col("number") + F.lit(batch_id << _BATCH_BITS),
            "opens": F.lit(False),
            "spout": _spout(spout),
            **dict.fromkeys(("init_roots", "init_vals", "ack_roots", "ack_vals", "fail_roots"), F.lit(b"")),
            "fail_messages": F.array().cast("array<string>"),
            "reset_roots": F.lit(b""),
            **{name: F.col(name) for name in packed.columns if name not in ("place", "number")},
        }
        body = to_avro(F.struct(*[column.alias(name) for name, column in batch.items()]), _SCHEMA)
        partition = F.expr(f"cast(place div {self.lanes} as int)").alias("partition")
        ordered = packed.sortWithinPartitions("place", "number")
        return self._as_records(
            ordered.select(partition, body.alias("body")), F.concat(F.lit(ACK_BATCH.header), "body")
        )

    def _as_records(self, packed: DataFrame, value: Column) -> DataFrame:
        return packed.select(
            F.lit(acks_topic(self.manifest.topology)).alias("topic"),
            "partition",
            F.lit(None).cast("binary").alias("key"),
            value.alias("value"),
            F.lit(None).cast(HEADERS_TYPE).alias("headers"),
        )


def _spout(spout: SpoutTask) -> Column:
    return F.struct(
        F.lit(spout.topic).alias("topic"),
        F.lit(spout.task).alias("task"),
        F.lit(spout.timeout_ms).cast("bigint").alias("timeout_ms"),
    )
