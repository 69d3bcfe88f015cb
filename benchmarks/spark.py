"""The cost of tracking in Spark: bolts and a spout, compared with the same jobs without it and with plain copies.

    python -m benchmarks.spark
    python -m benchmarks.spark --rows 5000000
    python -m benchmarks.spark --quick

docs/benchmarks.md describes the jobs.
"""

import os
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
from benchmarks.harness import Benchmark, Spread
from benchmarks.processes import cpu_seconds, descendants
from benchmarks.topics import Record, Topics, broker
from spark_jobs.delivering import SourceRoots
from spark_jobs.kafka_options import source_options
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


TRANSFORMS: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "select": lambda rows: rows.select(F.upper("text").alias("text"), "number", "_tracking"),
    "where": lambda rows: rows.where("number % 2 = 0"),
    "explode": lambda rows: rows.select(
        F.explode(F.slice(F.split("text", " "), 1, 4)).alias("text"), "number", "_tracking"
    ),
    "groupBy": lambda rows: rows.groupBy(F.expr("number div 10").alias("number")).agg(
        F.first("text").alias("text"), spark_jobs.merge_tracking().alias("_tracking")
    ),
}


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
class Setting:
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


def fill(setting: Setting) -> None:
    setting.topics.create_for(setting.topology)
    codec = payload_codec(LINE)
    # As those of a KafkaSpout, or of a spout in Spark.
    roots = SourceRoots(0, topic_key(setting.topology.topology), setting.topology.ack_partitions)

    def packs() -> Iterator[Record]:
        for number, begin in enumerate(range(0, setting.rows, PACK)):
            numbers = range(begin, min(setting.rows, begin + PACK))
            headers = [
                *AnchorColumns(roots.roots(np.array(numbers), np.uint8(0)), None, new_seed()).headers(),
                ("source", b"lines/default"),
            ]
            yield Record(encode_tuples(codec, [(TEXT, each) for each in numbers]), number % PARTITIONS, headers)

    setting.topics.write(tuples_topic(setting.topology.topology, "work"), packs())


def run_bolt(setting: Setting, transform: Callable[[DataFrame], DataFrame], rows: int) -> None:
    query = spark_jobs.bolt(
        setting.spark,
        setting.topology,
        "work",
        transform,
        kafka=setting.topics.kafka,
        checkpoint=setting.checkpoint(),
        max_rows=max(PARTITIONS, rows // PACK),
        trigger={"availableNow": True},
    )
    query.wait()


def run_copy(setting: Setting, rows: int) -> None:
    records = setting.read(_SINGLES, rows).select("key", "value", "headers", "partition")
    writer = records.writeStream.format("kafka").options(**_TUNED).option("topic", _COPY)
    writer.option("kafka.bootstrap.servers", setting.topics.servers)
    writer.option("checkpointLocation", setting.checkpoint()).trigger(availableNow=True).start().awaitTermination()


def run_spout(setting: Setting, rows: int) -> None:
    # No acker works: nothing is committed, and all trees are open at the end.
    running = spark_jobs.spout(
        setting.spark,
        setting.topology,
        "source",
        _SINGLES,
        kafka=setting.topics.kafka,
        checkpoint=setting.checkpoint(),
        max_rows=rows,
        trigger={"availableNow": True},
    )
    running.query.awaitTermination()
    assert running.outcomes.outstanding == setting.rows
    running.stop()


def measure(setting: Setting, max_rows: int, rounds: int) -> list[dict[str, Any]]:
    jobs: dict[str, Callable[[], object]] = {}
    # Without entries in the ack log, and without the write of acks.
    untracked = replace(setting, topology=setting.topology.model_copy(update={"guarantee": "at_most_once"}))
    for name, transform in TRANSFORMS.items():
        jobs[f"bolt {name}"] = partial(run_bolt, setting, transform, max_rows)
        jobs[f"untracked {name}"] = partial(run_bolt, untracked, transform, max_rows)
    jobs["tuned_copy"] = partial(run_copy, setting, max_rows)
    jobs["spout"] = partial(run_spout, setting, max_rows)
    setting.topics.create({_COPY: PARTITIONS, _SINGLES: PARTITIONS})
    singles = (Record(f"{TEXT}{number}".encode(), number % PARTITIONS) for number in range(setting.rows))
    setting.topics.write(_SINGLES, singles)
    small = replace(setting, topology=manifest(), rows=setting.rows // 10)
    fill(small)
    jobs["bolt_small select"] = partial(run_bolt, small, TRANSFORMS["select"], 10_000)
    rows = {name: small.rows if "small" in name else setting.rows for name in jobs}

    def timed(job: Callable[[], object]) -> tuple[float, float]:
        began, used = time.monotonic(), cpu_of_spark(setting.topics.pid)
        job()
        return time.monotonic() - began, cpu_of_spark(setting.topics.pid) - used

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


def main() -> None:
    bench = Benchmark("spark", __doc__, quick="few rows, one round", rounds=3)
    bench.option("--rows", 2_000_000, quick=100_000, help="in each topic")
    bench.option("--batch", 500_000, help="rows of a micro-batch")
    given = bench.start()
    # Each query leaves consumers in Spark's pool for five minutes, with what they have fetched.
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.driver.memory": "8g"}
    spark = spark_jobs.session("benchmark", "local[2]", conf)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with broker() as topics, tempfile.TemporaryDirectory() as directory:
            setting = Setting(spark, topics, manifest(), Path(directory), given.rows)
            fill(setting)
            rows = measure(setting, given.batch, bench.rounds)
    finally:
        spark.stop()
    bench.publish(rows, {"pyspark": version("pyspark")}, partitions=PARTITIONS, pack=PACK)


if __name__ == "__main__":
    harness.run(main)
