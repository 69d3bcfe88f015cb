"""Counts the words of a topic: a spout and a bolt in Spark, and an SDK bolt that counts.

Everything on this machine, with a broker of its own:

    python -m examples.spark_spout_word_count

On a cluster, each in a terminal of its own:

    acker topics create examples.spark_spout_word_count:topology
    acker worker --topology spark-spout-word-count
    acker run examples.spark_spout_word_count:topology --component count
    acker spark submit examples.spark_spout_word_count:topology --component split
    acker spark submit examples.spark_spout_word_count:topology --component lines

The spout delivers what is in the topic `spark-spout-word-count.text`, which has to be there; write to it with any Kafka
tool. A message stays open until all its words are counted; `kafka-consumer-groups --describe --group
spark-spout-word-count.lines` shows how far that is.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.spark_word_count import LINES, TEXT, WORDS, Count, split
from spout_sdk import Topology, TopologyBuilder, declare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from examples.one_machine import Machine

TOPIC: Final = "spark-spout-word-count.text"
_PARTITIONS: Final = 2


def source(_spark: SparkSession) -> str:
    """The topic whose messages are the lines; a single text field is the unchanged value."""
    return TOPIC


def topology() -> Topology:
    """lines (in Spark) → split (in Spark) → count."""
    builder = TopologyBuilder("spark-spout-word-count", message_timeout=300)
    builder.set_spout("lines", source, external=True, streams=[declare({"line": str})])
    bolt = builder.set_bolt("split", split, tasks=2, external=True, streams=[declare({"word": str})])
    bolt.shuffle_grouping("lines")
    builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
    return builder.build()


def write_lines(machine: Machine) -> None:
    """Creates the topic, and writes the lines."""
    admin = AdminClient(dict(machine.kafka))
    admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(dict(machine.kafka))
    for number in range(LINES):
        producer.produce(TOPIC, TEXT[number % len(TEXT)].encode(), partition=number % _PARTITIONS)
    producer.flush(30)


def main() -> int:
    """Runs it on this machine; returns the exit code."""
    import spark_jobs
    from examples.one_machine import one_machine

    with (
        tempfile.TemporaryDirectory(prefix="word-count-") as directory,
        one_machine("examples.spark_spout_word_count:topology", {}) as machine,
    ):
        write_lines(machine)
        spark, kafka, whole = machine.spark, machine.kafka, topology()
        checkpoints = {name: str(Path(directory, name)) for name in ("split", "lines")}
        bolt = spark_jobs.bolt(spark, whole, "split", split, kafka=kafka, checkpoint=checkpoints["split"])
        until_acked = {"availableNow": True}
        lines = spark_jobs.spout(
            spark, whole, "lines", source(spark), kafka=kafka, checkpoint=checkpoints["lines"], trigger=until_acked
        )
        try:
            while not (machine.stopping or lines.wait(1)):
                machine.check(bolt)
                print(f"{lines.outcomes.acked:,} lines acked, {lines.outcomes.outstanding:,} open")
        finally:
            lines.stop()
            bolt.stop()
        # Each process prints its counts when it stops.
        machine.processes.stop()
        counters = machine.processes.components.stats()["count"].counters
    if machine.stopping:
        return machine.stopping.exit_code
    counts = Counter({word: counters.get(word, 0) for word in WORDS})
    print(", ".join(f"{word} {count:,}" for word, count in counts.most_common()))
    print(f"{lines.outcomes.acked:,} lines acked, {lines.outcomes.outstanding} open, {counts.total():,} words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
