"""The cost of tracking in Spark: bolts and a spout, compared with the same jobs without it and with plain copies.

    python -m benchmarks.spark
    python -m benchmarks.spark --rows 5000000
    python -m benchmarks.spark --quick

The jobs are described in docs/performance.md.
"""

import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from benchmarks import harness
from benchmarks.harness import Spread
from benchmarks.processes import cpu_seconds, descendants
from benchmarks.topics import Topics, broker
from spark_jobs.delivering import SourceRoots
from spark_jobs.entries import KafkaSender
from spark_jobs.inbox import InputAcks, PartitionRead, unpack
from spark_jobs.kafka_options import source_options
from spark_jobs.packing import pack
from spark_jobs.tasks import run_tasks
from tuple_tree.anchors import AnchorColumns
from tuple_tree.components import BoltManifest, SpoutManifest, Subscription
from tuple_tree.edges import new_seed
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.positions import topic_key
from tuple_tree.streams import declare

PARTITIONS: Final = 4
PACK: Final = 250
TEXT: Final = "the quick brown fox jumps over the lazy dog, and then some more of it, up to about a hundred bytes "
LINE: Final = declare({"text": str, "number": int})
_SINGLES: Final = "singles"
_COPY: Final = "copy"
_TUNED: Final = {
    "kafka.acks": "all",
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "5",
    "kafka.batch.size": "131072",
}
"""Options of Spark's Kafka sink for the copy."""
_ROW: Final = "text string, number bigint, _source string, _tracking binary"


def select(rows: DataFrame) -> DataFrame:
    return rows.select(F.upper("text").alias("text"), "number", "_tracking")


def where(rows: DataFrame) -> DataFrame:
    return rows.where("number % 2 = 0")


def explode(rows: DataFrame) -> DataFrame:
    four = F.explode(F.slice(F.split("text", " "), 1, 4)).alias("text")
    return rows.select(four, "number", "_tracking")


def grouped(rows: DataFrame) -> DataFrame:
    tens = rows.groupBy(F.expr("number div 10").alias("number"))
    return tens.agg(F.first("text").alias("text"), spark_jobs.merge_tracking().alias("_tracking"))


TRANSFORMS: Final = {"select": select, "where": where, "explode": explode, "groupBy": grouped}


def manifest() -> Manifest:
    def subscribed(source: str) -> tuple[Subscription]:
        return (Subscription(source=source, stream="default", grouping="shuffle"),)

    return Manifest.of(
        topology=f"bench-{uuid.uuid4().hex[:8]}",
        max_tree_age_ms=300_000,
        components=(
            SpoutManifest(name="lines", streams=(LINE,)),
            SpoutManifest(name="source", streams=(declare("line"),), max_pending=2**31, external=True),
            BoltManifest(
                name="work", tasks=PARTITIONS, streams=(LINE,), subscriptions=subscribed("lines"), external=True
            ),
            BoltManifest(name="end", tasks=PARTITIONS, subscriptions=(*subscribed("work"), *subscribed("source"))),
        ),
    )


@dataclass(frozen=True, slots=True)
class Bench:
    spark: SparkSession
    topics: Topics
    topology: Manifest
    directory: Path
    rows: int

    def checkpoint(self) -> str:
        return str(self.directory / uuid.uuid4().hex)

    def read(self, topic: str, limit: int) -> DataFrame:
        options = {**source_options(self.topics.kafka), "startingOffsets": "earliest", "includeHeaders": "true"}
        source = self.spark.readStream.format("kafka").options(**options, subscribe=topic)
        return source.option("maxOffsetsPerTrigger", str(limit)).load()


def fill(bench: Bench) -> None:
    bench.topics.create_for(bench.topology)
    codec = payload_codec(LINE)
    # As those of a KafkaSpout, or of a spout in Spark.
    roots = SourceRoots(0, topic_key(bench.topology.topology), bench.topology.ack_partitions)

    def packs() -> Iterator[tuple[bytes, int, list[Any]]]:
        for number, begin in enumerate(range(0, bench.rows, PACK)):
            numbers = range(begin, min(bench.rows, begin + PACK))
            headers = [
                *AnchorColumns(roots.roots(np.array(numbers), np.uint8(0)), None, new_seed()).headers(),
                ("source", b"lines/default"),
            ]
            yield encode_tuples(codec, [(TEXT, each) for each in numbers]), number % PARTITIONS, headers

    bench.topics.write(tuples_topic(bench.topology.topology, "work"), packs())


def run_bolt(bench: Bench, transform: Callable[[DataFrame], DataFrame], rows: int) -> list[float]:
    """Seconds of each micro-batch."""
    query = spark_jobs.bolt(
        bench.spark,
        bench.topology,
        "work",
        transform,
        kafka=bench.topics.kafka,
        checkpoint=bench.checkpoint(),
        max_rows=max(PARTITIONS, rows // PACK),
        trigger={"availableNow": True},
    )
    query.wait()
    return [each.durationMs["triggerExecution"] / 1000 for each in query.query.recentProgress if each.numInputRows]


def not_reported(_partition: int, _read: PartitionRead) -> None:
    pass


def run_untracked(bench: Bench, transform: Callable[[DataFrame], DataFrame], rows: int) -> None:
    inbox = tuples_topic(bench.topology.topology, "work")
    untracked = bench.topology.model_copy(update={"guarantee": "at_most_once"})
    (work,) = [bolt for bolt in untracked.bolts if bolt.name == "work"]
    acks = InputAcks(untracked, work.name, bytes(16), 0)  # none, since nothing is tracked
    read = partial(unpack, untracked, work, KafkaSender(bench.topics.kafka), acks, not_reported)
    write = partial(pack, untracked, work, KafkaSender(bench.topics.kafka))

    def each(records: DataFrame, _batch_id: int) -> None:
        inputs = records.select("key", "value", "partition", "offset", "headers")
        run_tasks(transform(inputs.mapInArrow(read, _ROW)), write, "untracked")

    records = bench.read(inbox, max(PARTITIONS, rows // PACK))
    writer = records.writeStream.foreachBatch(each).option("checkpointLocation", bench.checkpoint())
    writer.trigger(availableNow=True).start().awaitTermination()


def run_copy(bench: Bench, rows: int) -> None:
    records = bench.read(_SINGLES, rows).select("key", "value", "headers", "partition")
    writer = records.writeStream.format("kafka").options(**_TUNED).option("topic", _COPY)
    writer.option("kafka.bootstrap.servers", bench.topics.servers)
    writer.option("checkpointLocation", bench.checkpoint()).trigger(availableNow=True).start().awaitTermination()


def run_spout(bench: Bench, rows: int) -> None:
    # No acker works: nothing is committed, and all trees are open at the end.
    running = spark_jobs.spout(
        bench.spark,
        bench.topology,
        "source",
        _SINGLES,
        kafka=bench.topics.kafka,
        checkpoint=bench.checkpoint(),
        max_rows=rows,
        trigger={"availableNow": True},
    )
    running.query.awaitTermination()
    assert running.outcomes.outstanding == bench.rows
    running.stop()


def measure(bench: Bench, max_rows: int, rounds: int) -> list[dict[str, Any]]:
    jobs: dict[str, Callable[[], object]] = {}
    for name, transform in TRANSFORMS.items():
        jobs[f"bolt {name}"] = partial(run_bolt, bench, transform, max_rows)
        jobs[f"untracked {name}"] = partial(run_untracked, bench, transform, max_rows)
    jobs["tuned_copy"] = partial(run_copy, bench, max_rows)
    jobs["spout"] = partial(run_spout, bench, max_rows)
    bench.topics.create({_COPY: PARTITIONS, _SINGLES: PARTITIONS})
    singles = ((f"{TEXT}{number}".encode(), number % PARTITIONS, None) for number in range(bench.rows))
    bench.topics.write(_SINGLES, singles)
    small = replace(bench, topology=manifest(), rows=bench.rows // 10)
    fill(small)
    jobs["bolt_small select"] = partial(run_bolt, small, select, 10_000)
    rows = {name: small.rows if "small" in name else bench.rows for name in jobs}

    def timed(job: Callable[[], object]) -> tuple[float, float]:
        began, used = time.monotonic(), cpu_of_spark(bench.topics.pid)
        job()
        return time.monotonic() - began, cpu_of_spark(bench.topics.pid) - used

    taken = harness.in_turn(
        {name: partial(timed, job) for name, job in jobs.items()},
        rounds,
        warm=1,  # Java compiles
        shown="{0[0]:.1f} s, {0[1]:.1f} s of CPU time".format,
    )
    return [
        {
            "job": name,
            "rows_per_s": Spread.of([rows[name] / seconds for seconds, _ in of]),
            "cpu_us_per_row": Spread.of([cpu / rows[name] * 1e6 for _, cpu in of], 2),
        }
        for name, of in taken.items()
    ]


def cpu_of_spark(broker: int) -> float:
    # This process, Java, and Python's workers.
    return cpu_seconds(pid for pid in descendants([os.getpid()]) if pid != broker)


def ratios_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    rate = {row["job"]: row["rows_per_s"].median for row in rows}
    pairs = {f"bolt {name} to untracked": (f"bolt {name}", f"untracked {name}") for name in TRANSFORMS}
    pairs["bolt select to tuned_copy"] = "bolt select", "tuned_copy"
    pairs["spout to tuned_copy"] = "spout", "tuned_copy"
    return {name: round(rate[one] / rate[other], 3) for name, (one, other) in pairs.items()}


def latency(bench: Bench, rows: int) -> float:
    """Seconds of a micro-batch of 1,000 rows."""
    few = replace(bench, topology=manifest(), rows=rows)
    fill(few)
    seconds = run_bolt(few, select, 1_000)
    # In the first ones Spark compiles.
    return round(statistics.median(seconds[min(5, len(seconds) - 1) :]), 3)


def main() -> None:
    parser = harness.parser(__doc__, "few rows, one round")
    parser.add_argument("--rows", type=int, help="in each topic; 2,000,000 unless given")
    parser.add_argument("--batch", type=int, default=500_000, help="rows of a micro-batch")
    parser.add_argument("--rounds", type=int, help="3 unless given, after one that does not count")
    given = parser.parse_args()
    number = given.rows or (100_000 if given.quick else 2_000_000)
    rounds = given.rounds or (1 if given.quick else 3)
    host = harness.machine()
    # Each query leaves consumers in Spark's pool for five minutes, with what they have fetched.
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.driver.memory": "8g"}
    spark = spark_jobs.session("benchmark", "local[2]", conf)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with broker() as topics, tempfile.TemporaryDirectory() as directory:
            bench = Bench(spark, topics, manifest(), Path(directory), number)
            fill(bench)
            rows = measure(bench, given.batch, rounds)
            batch_s = latency(bench, 8_000 if given.quick else 30_000)
    finally:
        spark.stop()
    settings = {"rows": number, "rows_a_batch": given.batch, "rounds": rounds, "partitions": PARTITIONS, "pack": PACK}
    ratios = {**ratios_of(rows), "batch_of_1000_s": batch_s}
    versions = {"pyspark": version("pyspark")}
    harness.publish("spark", host, rows, settings, harness.directory(given), versions=versions, ratios=ratios)


if __name__ == "__main__":
    harness.run(main)
