"""What tracking costs a Spark bolt: its rate, and that of a plain Kafka-to-Kafka copy of the same records.

    python -m benchmarks.spark
    python -m benchmarks.spark --rows 5000000 --batch 1000000
    python -m benchmarks.spark --quick

Both read the same topic of one embedded broker in one run, in micro-batches of the same size, and write to topics with
as many partitions; medians of alternating rounds, from starting the query to its end. The bolt decodes each tuple,
upper-cases it, encodes it, anchors it and acks its input. The copy runs twice: as anybody would write it, and as
`tuned_copy` with the settings of Kafka's clients that our jobs bring along.
"""

import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import spark_jobs
from benchmarks import command
from benchmarks.results import Spread, machine, publish, report, versions
from local_kafka import LocalKafka
from spark_jobs.kafka_options import sink_options, source_options
from tuple_tree.anchors import pack_anchors
from tuple_tree.ids import random_ids
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import encode_tuples, payload_codec
from tuple_tree.streams import declare
from tuple_tree.topics import topic_specs

PARTITIONS = 4
TEXT = "the quick brown fox jumps over the lazy dog, and then some more of it, up to about a hundred bytes "


def manifest() -> Manifest:
    stream = declare({"text": str, "number": int}, codec="avro")

    def subscribed(source: str) -> tuple[Subscription]:
        return (Subscription(source=source, stream="default", grouping="shuffle"),)

    return Manifest.of(
        topology=f"bench-{uuid.uuid4().hex[:8]}",
        max_tree_age_ms=300_000,
        components=(
            SpoutManifest(name="lines", streams=(stream,)),
            BoltManifest(name="upper", tasks=PARTITIONS, streams=(stream,), subscriptions=subscribed("lines")),
            BoltManifest(name="end", tasks=PARTITIONS, subscriptions=subscribed("upper")),
        ),
    )


def create_topics(servers: str, topology: Manifest, copy: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(spec.name, spec.partitions, 1, config=spec.config) for spec in topic_specs(topology)]
    for future in admin.create_topics([*topics, NewTopic(copy, PARTITIONS, 1)]).values():
        future.result(30)


def fill(servers: str, topology: Manifest, rows: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": "lz4"})
    codec = payload_codec(topology.stream("lines", "default"))
    topic, next_id = tuples_topic(topology.topology, "upper"), random_ids().__next__
    for number in range(rows):
        headers: Any = [("anchors", pack_anchors({next_id(): next_id()})), ("source", b"lines/default")]
        while True:
            try:
                payload = encode_tuples(codec, [(TEXT, number)])
                producer.produce(topic, payload, partition=number % PARTITIONS, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def upper(rows: DataFrame) -> DataFrame:
    return rows.select(F.upper("text").alias("text"), "number", "_tracking")


def run_bolt(spark: SparkSession, servers: str, topology: Manifest, checkpoint: Path, max_rows: int) -> float:
    began = time.monotonic()
    query = spark_jobs.bolt(
        spark,
        topology,
        "upper",
        upper,
        kafka={"bootstrap.servers": servers},
        checkpoint=str(checkpoint),
        max_rows=max_rows,
        trigger={"availableNow": True},
    )
    query.wait()
    return time.monotonic() - began


def run_copy(
    spark: SparkSession, servers: str, topology: Manifest, checkpoint: Path, copy: str, max_rows: int, *, tuned: bool
) -> float:
    """Copies the records as they are, with the client settings of our jobs or with Spark's own."""
    kafka = {"bootstrap.servers": servers}
    plain = {"kafka.bootstrap.servers": servers}
    began = time.monotonic()
    read = (
        spark.readStream.format("kafka")
        .options(**source_options(kafka) if tuned else plain)
        .option("subscribe", tuples_topic(topology.topology, "upper"))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(max_rows))
    )
    query = (
        read.load()
        .select("key", "value", "headers", "partition")
        .writeStream.format("kafka")
        .options(**sink_options(kafka) if tuned else plain)
        .option("topic", copy)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - began


def measure(rows: int, max_rows: int, rounds: int) -> dict[str, Spread]:
    """Tuples a second of the bolt and of both copies, in turn."""
    topology, copy = manifest(), f"bench-copy-{uuid.uuid4().hex[:8]}"
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.driver.memory": "3g"}
    spark = spark_jobs.session("benchmark", "local[2]", settings)
    spark.sparkContext.setLogLevel("ERROR")
    seconds: dict[str, list[float]] = {"bolt": [], "copy": [], "tuned_copy": []}
    try:
        with LocalKafka() as kafka, tempfile.TemporaryDirectory() as directory:
            servers = kafka.bootstrap_servers
            create_topics(servers, topology, copy)
            fill(servers, topology, rows)
            # The first round warms Java up and does not count.
            for number in range(1 + rounds):
                for name, tuned in (("copy", False), ("tuned_copy", True)):
                    at = Path(directory, f"{name}{number}")
                    seconds[name].append(run_copy(spark, servers, topology, at, copy, max_rows, tuned=tuned))
                seconds["bolt"].append(run_bolt(spark, servers, topology, Path(directory, f"bolt{number}"), max_rows))
    finally:
        spark.stop()
    return {name: Spread.of([rows / each for each in all_[1:]]) for name, all_ in seconds.items()}


def main() -> None:
    parser = command.parser(__doc__, "few rows, one round")
    parser.add_argument("--rows", type=int, help="in the topic; 2,000,000 unless given")
    parser.add_argument("--batch", type=int, default=500_000, help="rows of a micro-batch")
    parser.add_argument("--rounds", type=int, help="3 unless given, after one that does not count")
    given = parser.parse_args()
    number = given.rows or (200_000 if given.quick else 2_000_000)
    rounds = given.rounds or (1 if given.quick else 3)
    host = machine()
    rates = measure(number, given.batch, rounds)
    rows = [{"job": name, "tuples_per_s": rate} for name, rate in rates.items()]
    settings = {"rows": number, "rows_a_batch": given.batch, "rounds": rounds, "partitions": PARTITIONS}
    ratios = {f"bolt to {name}": round(rates["bolt"].median / rates[name].median, 3) for name in ("copy", "tuned_copy")}
    publish(report("spark", host, rows, settings, versions("pyspark"), ratios), command.directory(given))


if __name__ == "__main__":
    command.run(main)
