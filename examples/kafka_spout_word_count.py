"""Counts the words of a topic, with `KafkaSpout`.

Everything on this machine, with a broker of its own:

    python -m examples.kafka_spout_word_count

On a cluster, each in a terminal of its own:

    acker topics create examples.kafka_spout_word_count:topology
    acker worker --topology kafka-spout-word-count
    acker run examples.kafka_spout_word_count:topology

The spout delivers what is in the topic `kafka-spout-word-count.text`, which has to be there; write to it with any Kafka
tool. A message stays open until all its words are counted; `kafka-consumer-groups --describe --group
kafka-spout-word-count.lines` shows how far that is. A blank line is skipped, and a line that is not text becomes a
dead letter.
"""

import sys
import time
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.word_count import LINES, Count, Split
from spout_sdk import KafkaSpout, RetryPolicy, TopologyBuilder, declare
from spout_sdk.kafka_spout import Record

TOPIC: Final = "kafka-spout-word-count.text"
MESSAGES: Final = 3_000
_PARTITIONS: Final = 4


def translate(record: Record) -> tuple[str] | None:
    """The line of a message; a blank one is skipped, and one that is not UTF-8 raises."""
    line = (record.value() or b"").decode()
    return (line,) if line.strip() else None


builder = TopologyBuilder("kafka-spout-word-count", message_timeout=60.0)
builder.set_spout(
    "lines",
    KafkaSpout(
        TOPIC,
        streams=[declare({"line": str})],
        translate=translate,
        retry=RetryPolicy(delay_period=0.1, max_delay=5.0, max_retries=5),
    ),
    tasks=2,
)
builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
builder.set_bolt("count", Count, tasks=2).fields_grouping("split", "word")
topology = builder.build()


def write_lines(kafka: dict[str, Any]) -> None:
    """Creates the topic, and writes the messages."""
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(kafka)
    for number in range(MESSAGES):
        line = "" if number % 100 == 0 else LINES[number % len(LINES)]
        producer.produce(TOPIC, line.encode(), partition=number % _PARTITIONS)
    producer.flush(30)


def lag(kafka: dict[str, Any]) -> int:
    """The lag of the spout's group."""
    consumer = Consumer({**kafka, "group.id": f"{topology.name}.lines"})
    try:
        partitions = [TopicPartition(TOPIC, number) for number in range(_PARTITIONS)]
        ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions]
        return sum(ends) - sum(max(0, each.offset) for each in consumer.committed(partitions, timeout=10))
    finally:
        consumer.close()


def main() -> int:
    """Runs it on this machine; returns the exit code."""
    from acker_cli.processes.running import LOOK_SECONDS, RunPlan, TopologyProcesses
    from kafka_clients.catalogue import Catalogue
    from local_kafka import LocalKafka

    # With one worker no task moves at the start, and no line is counted twice unless it fails.
    plan = RunPlan(topology, "examples.kafka_spout_word_count:topology", processes=1, ackers=1)
    with ExitStack() as cleaning:
        kafka = {"bootstrap.servers": cleaning.enter_context(LocalKafka()).bootstrap_servers}
        write_lines(kafka)
        catalogue = Catalogue(kafka)
        catalogue.create_topics(topology.manifest)
        catalogue.publish(topology.manifest)
        processes = cleaning.enter_context(TopologyProcesses(plan, kafka))
        while behind := lag(kafka):
            processes.check()
            print(f"{behind:,} messages to go", flush=True)
            time.sleep(LOOK_SECONDS)
        # Each process prints its counts when it stops.
        processes.stop()
        found = processes.components.stats()
    words = found["count"].counters.get("words", 0)
    passed = found["lines"].counters.get("skipped", 0)
    print(f"{found['lines'].acked:,} lines acked, {passed} skipped, {words:,} words counted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
