"""A whole topology with acking, on one machine: a Spark spout, a Spark bolt, an SDK bolt, and real ackers.

    python -m benchmarks.spark_topology
    python -m benchmarks.spark_topology --messages 500000 --fail-rate 0.02
    python -m benchmarks.spark_topology --quick

The spout reads lines from a topic, the Spark bolt makes a tuple of each word, and the SDK bolt writes down what it
receives. All is checked in the end: each word of each message was processed, and what was delivered again is what
failed.
"""

import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import spark_jobs
from acker_cli.processes.acker_pool import AckerPool
from acker_cli.processes.acker_process import AckerLaunch
from acker_cli.processes.topology_processes import TopologyProcesses
from benchmarks import command, words
from benchmarks.errors import BenchmarkError
from benchmarks.processes import environment
from benchmarks.results import machine, publish, report, versions
from kafka_clients.catalogue import Catalogue
from kafka_clients.watermarks import watermarks
from local_kafka import LocalKafka
from spark_jobs.kafka_options import topic_id
from spout_sdk import load_topology
from tuple_tree.anchors import ANCHORS_HEADER, unpack_anchors
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec
from tuple_tree.positions import position_of, topic_key

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run.

    Attributes:
        messages: in the source.
        acked: trees that completed.
        failed: trees that failed.
        replayed: tuples of the spout that were not a message's first.
        replayed_as_chosen: whether those that were chosen to fail were delivered twice, and all others once.
        counts_exact: whether each word of each message was counted once, repeats of the same left out.
        repeats: words that were processed again.
        pending_at_ackers: trees that the ackers still held in the end.
        timeouts: trees that timed out.
        repeated_batches: ack batches that the ackers dropped.
        seconds: from the spout's start until the last tree completed.
        tuples_per_s: lines and words, first deliveries only.
    """

    messages: int
    acked: int
    failed: int
    replayed: int
    replayed_as_chosen: bool
    counts_exact: bool
    repeats: int
    pending_at_ackers: int
    timeouts: int
    repeated_batches: int
    seconds: float
    tuples_per_s: int


@contextmanager
def sdk_at_work(reference: str, kafka: Mapping[str, Any]) -> Iterator[TopologyProcesses]:
    """Makes the topics of a topology, and runs its SDK components and an acker, each in a process of its own."""
    manifest = load_topology(reference).manifest
    catalogue = Catalogue(kafka)
    catalogue.create_topics(manifest)
    catalogue.publish(manifest)
    ackers = AckerPool(AckerLaunch(manifest.topology, kafka, {}, "warning"), 1)
    with TopologyProcesses(reference, manifest, kafka, {}, ackers) as processes:
        if not processes.components.wait_ready(60):
            raise RuntimeError("the SDK components did not start within a minute")
        yield processes


def fill(kafka: Mapping[str, Any], topic: str, messages: int) -> None:
    """Makes the source, and writes the lines."""
    admin = AdminClient(dict(kafka))
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({**kafka, "linger.ms": 20})
    codec = payload_codec(words.LINE)
    for message in range(messages):
        payload = encode_tuples(codec, [(message, words.line(message))])
        producer.produce(topic, payload, partition=message % PARTITIONS)
        if message % 10_000 == 9_999:
            producer.flush()
    if producer.flush(60):
        raise RuntimeError("the source could not be written")


def replays_of(kafka: Mapping[str, Any], manifest: Manifest, source: str) -> list[int]:
    """The messages of all tuples in the inbox of `split` that are not their first attempt, in rising order."""
    topic = tuples_topic(manifest.topology, "split")
    codec = payload_codec(words.LINE)
    key = topic_key(topic_id(kafka, source))
    consumer = Consumer({**kafka, "group.id": "replays", "enable.auto.commit": False})
    found = []
    try:
        ends = {
            task: watermarks(consumer, TopicPartition(topic, task), 30)[1]
            for task in range(manifest.component("split").tasks)
        }
        left = sum(ends.values())
        consumer.assign([TopicPartition(topic, task, 0) for task in ends])
        while left:
            records = consumer.consume(min(left, 5_000), 0.1)
            left -= len(records)
            for record in records:
                value, anchors = record.value(), dict(record.headers() or ())[ANCHORS_HEADER]
                assert isinstance(value, bytes)
                assert isinstance(anchors, bytes)
                (root,) = unpack_anchors(anchors)
                if position_of(root, key, manifest.ack_partitions).attempt:
                    found += [message for message, _ in decode_tuples(codec, value)]
    finally:
        consumer.close()
    return sorted(found)


def run(
    spark: SparkSession,
    kafka: Mapping[str, Any],
    directory: Path,
    messages: int,
    fail_rate: float = 0.0,
    max_pending: int = 40_000,
    within: float = 1_200,
) -> Result:
    """Runs the topology over so many messages until every tree has completed.

    Args:
        spark: a session.
        kafka: librdkafka properties.
        directory: for checkpoints and what was counted.
        messages: how many.
        fail_rate: which part of them fails at the first attempt.
        max_pending: trees that may be open.
        within: seconds.

    Raises:
        RuntimeError: if not all trees completed in time.
    """
    name, counted = f"words-{uuid.uuid4().hex[:8]}", directory / "counted"
    settings = {words.NAME: name, words.COUNTED: counted, words.FAIL_RATE: fail_rate, words.MAX_PENDING: max_pending}
    with environment(**settings):
        topology, source = words.topology(), f"{name}.{words.SOURCE}"
        fill(kafka, source, messages)
        with sdk_at_work(f"{words.__name__}:topology", kafka) as processes:
            split = spark_jobs.bolt(
                spark, topology, "split", words.explode, kafka=kafka, checkpoint=str(directory / "split")
            )
            try:
                began = time.monotonic()
                lines = spark_jobs.spout(
                    spark,
                    topology,
                    "lines",
                    source,
                    kafka=kafka,
                    checkpoint=str(directory / "lines"),
                    trigger={"availableNow": True},
                )
                try:
                    _await_end(lines, split, processes, began + within)
                    seconds = time.monotonic() - began
                finally:
                    lines.stop()
            finally:
                split.stop()
            # Each process tells the last of itself when it stops.
            processes.stop()
            ackers = processes.snapshot().ackers
    assert ackers is not None
    replayed = replays_of(kafka, topology.manifest, source)
    found, expected = words.counted(counted), set(words.places(messages))
    return Result(
        messages=messages,
        acked=lines.outcomes.acked,
        failed=lines.outcomes.failed,
        replayed=len(replayed),
        replayed_as_chosen=replayed == [each for each in range(messages) if words.chosen(each, fail_rate)],
        counts_exact=set(found) == expected,
        repeats=len(found) - len(set(found)),
        pending_at_ackers=ackers.pending,
        timeouts=ackers.timeouts,
        repeated_batches=ackers.duplicate_batches,
        seconds=round(seconds, 2),
        tuples_per_s=round((messages + len(expected)) / seconds),
    )


def _await_end(
    lines: spark_jobs.RunningSpout, split: spark_jobs.RunningQuery, processes: TopologyProcesses, deadline: float
) -> None:
    while not lines.wait(0.5):
        processes.check()
        if split.wait(0):
            raise RuntimeError("the bolt ended by itself")
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all trees completed: {lines.outcomes.outstanding} are open")


def main() -> None:
    parser = command.parser(__doc__, "few messages")
    parser.add_argument("--messages", type=int, help="200,000 unless given")
    parser.add_argument("--fail-rate", type=float, default=0.0, help="which part of them fails at the first attempt")
    parser.add_argument("--max-pending", type=int, default=40_000, help="trees that may be open")
    given = parser.parse_args()
    messages = given.messages or (20_000 if given.quick else 200_000)
    host = machine()
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    spark = spark_jobs.session("spark-topology", "local[2]", settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with LocalKafka() as kafka, tempfile.TemporaryDirectory(prefix="spark-topology-") as directory:
            servers = {"bootstrap.servers": kafka.bootstrap_servers}
            result = run(spark, servers, Path(directory), messages, given.fail_rate, given.max_pending)
    finally:
        spark.stop()
    if result.acked != messages or not (result.counts_exact and result.replayed_as_chosen):
        raise BenchmarkError(f"something was lost, or delivered again without a reason: {result}")
    limits = {"fail_rate": given.fail_rate, "max_pending": given.max_pending}
    publish(report("spark_topology", host, [result], limits, versions("pyspark")), command.directory(given))


if __name__ == "__main__":
    command.run(main)
