"""A micro-batch of a bolt: everything that it writes, in one write.

    Kafka ─ InboxReader ──┬─ transform ── emitted ──┬────────────── tuples ──┐
             (kept)       │              (kept)     └─ edges ─┐              ├─ union ── Kafka
                          └─ edges of the inputs ─────────────┴─ acks ───────┤
                          └─ what cannot be used ─────────── dead letters ───┘

Inputs and deliveries are made and kept by a first job, which counts them, because acks need all of both and tuples need
the deliveries: so Kafka is read once, and `transform` runs once. What is lost with an executor is made again, with the
same ids, since every id is a function of the data. The second job writes; the counts tell what it can do without.

Where `transform` makes one row of each, as a `select` does, each delivery carries the edge of its input, and inputs are
not kept: the few of which that does not tell all, which are dead letters and those of several anchors, are read again.
"""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from spark_jobs.ack_batches import AckLanes
from spark_jobs.counts import Counts, counted
from spark_jobs.deliveries import emitted, tuple_records
from spark_jobs.ids import seed_of
from spark_jobs.inbox import DEAD, EDGE, ROOT, SEVERAL, Inbox, InboxReader, dead_letters, usable_rows
from spark_jobs.outputs import Outputs, check_result, keeps_all, keeps_some, multiplies
from spark_jobs.plans import kept, write
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
        emitted: rows that were emitted; None where the deliveries do not tell, because some rows have more than others,
            or none.
        acked: inputs of a bolt that were acked; None where rows failed, and it is not known how many inputs these are.
    """

    rows: int
    tuples: int
    acks: int
    failed: int
    dead: int
    seconds: float
    emitted: int | None = None
    acked: int | None = None


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
    _readers: dict[str, InboxReader] = field(default_factory=dict, repr=False)

    def run(self, records: DataFrame, batch_id: int, query_id: str, session: bytes) -> Written:
        """Processes the records and writes everything that comes of them.

        Args:
            records: as Spark's Kafka source gives them, with headers.
            batch_id: of the micro-batch.
            query_id: of the query, which lives in its checkpoint.
            session: its 16 bytes.
        """
        began = time.monotonic()
        inputs = self._reader(query_id).read(records)
        rows = usable_rows(inputs, self.inbox)
        result = self.transform(rows)
        check_result(result, self.outputs)
        carried = self.outputs.only_route is not None and keeps_all(result, rows)
        numbered = not carried and multiplies(result, rows)
        with (
            nullcontext() if carried else kept(inputs),
            kept(emitted(result, self.outputs, numbered=numbered, carried=carried)) as deliveries,
        ):
            counts = counted(deliveries)
            write(self._records(batch_id, session, inputs, deliveries, counts, carried=carried), self.kafka)
        seconds = time.monotonic() - began
        tuples = counts.deliveries - counts.failed
        # Only of rows that are an input each it is known how many inputs failed.
        is_told = not counts.failed or keeps_some(result, rows)
        return Written(
            rows=counts.rows,
            tuples=tuples,
            acks=counts.anchors,
            failed=counts.failed,
            dead=counts.dead,
            seconds=seconds,
            emitted=self.outputs.rows_of(tuples),
            acked=counts.rows - counts.dead - counts.failed if is_told else None,
        )

    def _reader(self, query_id: str) -> InboxReader:
        if query_id not in self._readers:
            identity = seed_of(query_id, tuples_topic(self.inbox.manifest.topology, self.inbox.bolt))
            self._readers[query_id] = InboxReader(self.inbox, identity)
        return self._readers[query_id]

    def _records(
        self,
        batch_id: int,
        session: bytes,
        inputs: DataFrame,
        deliveries: DataFrame,
        counts: Counts,
        *,
        carried: bool,
    ) -> DataFrame:
        """All that is to be written; what the counts rule out is left out of the plan."""
        records = tuple_records(deliveries, self.outputs)
        if counts.dead:
            records = records.unionByName(dead_letters(inputs, self.inbox))
        if self.inbox.manifest.acking and counts.anchors:
            lanes = AckLanes(self.inbox.manifest, self.inbox.bolt, session, self.lanes)
            entries = functools.reduce(DataFrame.unionByName, _entries(inputs, deliveries, counts, carried=carried))
            records = records.unionByName(lanes.acks(batch_id, entries, counts.anchors, counts.fails))
        return records

    def open(self, spark: SparkSession, session: bytes) -> None:
        """Opens the session on all lanes; nothing else may be written before."""
        if self.inbox.manifest.acking:
            lanes = AckLanes(self.inbox.manifest, self.inbox.bolt, session, self.lanes)
            write(lanes.openings(spark), self.kafka)


def _entries(inputs: DataFrame, deliveries: DataFrame, counts: Counts, *, carried: bool) -> Iterator[DataFrame]:
    """What is to be told about roots: `root`, `val`, and `message`, null unless it failed."""
    val, fail = F.col("edge").alias("val"), F.col("fail").alias("message")
    message = F.col(DEAD)["message"].alias("message")
    single = F.col(ROOT).isNotNull()
    if counts.single:
        yield deliveries.where("root is not null").select("root", "val" if carried else val, fail)
    if counts.single and not carried:
        yield inputs.where(single).select(F.col(ROOT).alias("root"), F.col(EDGE).alias("val"), message)
    elif counts.single and counts.dead:
        dead = inputs.where(single & F.col(DEAD).isNotNull())
        yield dead.select(F.col(ROOT).alias("root"), F.col(EDGE).alias("val"), message)
    if counts.several:
        pairs = inputs.where(F.col(SEVERAL).isNotNull()).select(F.inline(SEVERAL), message)
        yield pairs.withColumnRenamed("edge", "val")
    if counts.several_roots:
        # Also where each input had one: an aggregation merges them.
        yield deliveries.where("several is not null").select(F.explode("several").alias("root"), val, fail)
