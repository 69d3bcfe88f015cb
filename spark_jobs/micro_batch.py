"""A micro-batch of a bolt: everything that it writes, in one write.

    Kafka ── read_inbox ──┬─ transform ── emitted ──┬────────────── tuples ──┐
             (kept)       │              (kept)     └─ edges ─┐              ├─ union ── Kafka
                          └─ edges of the inputs ─────────────┴─ acks ───────┤
                          └─ what cannot be used ─────────── dead letters ───┘

Inputs and deliveries are kept while the write goes on (`persist`), because acks need all of both and tuples need the
deliveries: so Kafka is read once, and `transform` runs once. What is lost with an executor is made again, with the same
ids, since every id is a function of the data.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ack_batches import AckLanes
from spark_jobs.ids import seed_of
from spark_jobs.inbox import DEAD, PAIRS, Inbox, dead_letters, read_inbox, usable_rows
from spark_jobs.outputs import Outputs, check_result, emitted, multiplies, tuple_records
from tuple_tree.names import tuples_topic

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a micro-batch.

    Attributes:
        rows: inputs.
        tuples: deliveries, one for each recipient of each row.
        acks: anchors of the inputs, whose trees were told of.
        failed: rows that `transform` marked, or that could not be encoded.
        dead: inputs that could not be used.
        seconds: how long writing took.
    """

    rows: int
    tuples: int
    acks: int
    failed: int
    dead: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BoltBatch:
    """What every micro-batch of a bolt has in common.

    Attributes:
        inbox: what comes in.
        outputs: what goes out.
        transform: the user's.
        kafka: options of Spark's Kafka sink.
        lanes: how many lanes write to a partition of the ack log.
    """

    inbox: Inbox
    outputs: Outputs
    transform: Transform
    kafka: Mapping[str, str]
    lanes: int = 1

    def run(self, records: DataFrame, batch_id: int, query_id: str, session: bytes) -> Written:
        """Processes the records and writes everything that comes of them.

        Args:
            records: as Spark's Kafka source gives them, with headers.
            batch_id: of the micro-batch.
            query_id: of the query, which lives in its checkpoint.
            session: its 16 bytes.
        """
        began = time.monotonic()
        manifest = self.inbox.manifest
        identity = seed_of(query_id, tuples_topic(manifest.topology, self.inbox.bolt))
        inputs = read_inbox(records, self.inbox, identity).persist()
        result = self.transform(usable_rows(inputs, self.inbox))
        check_result(result, self.outputs)
        deliveries = emitted(result, self.outputs, numbered=multiplies(result)).persist()
        try:
            written = tuple_records(deliveries).unionByName(dead_letters(inputs, self.inbox))
            if manifest.acking:
                lanes = AckLanes(manifest, self.inbox.bolt, session, self.lanes)
                written = written.unionByName(lanes.acks(batch_id, _entries(inputs, deliveries)))
            write(written, self.kafka)
            return _written(inputs, deliveries, time.monotonic() - began)
        finally:
            deliveries.unpersist()
            inputs.unpersist()

    def open(self, spark: SparkSession, session: bytes) -> None:
        """Opens the session on all lanes; nothing else may be written before."""
        if self.inbox.manifest.acking:
            lanes = AckLanes(self.inbox.manifest, self.inbox.bolt, session, self.lanes)
            write(lanes.openings(spark), self.kafka)


def write(records: DataFrame, kafka: Mapping[str, str]) -> None:
    """Writes records with Spark's Kafka sink."""
    records.write.format("kafka").options(**kafka).save()


def _written(inputs: DataFrame, deliveries: DataFrame, seconds: float) -> Written:
    # Counted in what is kept anyway; metrics observed on the way do not come back from the Kafka sink.
    into = inputs.agg(
        F.count("*").alias("rows"),
        F.coalesce(F.sum(F.size(PAIRS)), F.lit(0)).alias("acks"),
        F.count_if(F.col(DEAD).isNotNull()).alias("dead"),
    )
    out = deliveries.agg(
        F.count_if(F.col("topic").isNotNull()).alias("tuples"), F.count_if(F.col("fail").isNotNull()).alias("failed")
    )
    counts = into.crossJoin(out).head()
    assert counts is not None  # noqa: S101 - for the type checker; an aggregation always has a row
    return Written(**counts.asDict(), seconds=seconds)


def _entries(inputs: DataFrame, deliveries: DataFrame) -> DataFrame:
    """What is to be told about roots: `root`, `val`, and `message` where it failed."""
    of_inputs = inputs.select(F.inline(PAIRS), F.col(DEAD)["message"].alias("message"))
    of_deliveries = deliveries.select(
        F.explode("roots").alias("root"), F.col("edge").alias("val"), F.col("fail").alias("message")
    )
    return of_inputs.withColumnRenamed("edge", "val").unionByName(of_deliveries)
