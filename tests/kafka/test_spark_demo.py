"""The word count in Spark without Spark: its text is written once in several runs, and its results are counted."""

import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from acker_cli.demo.progress import LinesDone, write_text
from acker_cli.demo.text import lines
from acker_cli.demo.word_count import LINES, Parameters, text_topic
from examples.compose.spark_word_count import counted_directory, topology
from examples.compose.verification import words_kept
from tests.kafka.sdk_rig import Cluster
from tuple_tree.names import component_group, dead_letters_topic


def test_the_missing_part_of_the_text_is_written(bootstrap_servers: str, tmp_path: Path) -> None:
    name, kafka = f"spark-{uuid.uuid4().hex[:12]}", {"bootstrap.servers": bootstrap_servers}
    assert write_text(kafka, Parameters(name, lines=7), 1) == 7
    assert write_text(kafka, Parameters(name, lines=7), 1) == 0
    whole = Parameters(name, tmp_path, lines=20)
    assert write_text(kafka, whole, 1) == 13
    topic = text_topic(name)
    cluster = Cluster(bootstrap_servers, topology().manifest.model_copy(update={"topology": name}))
    cluster.create_topics()
    found = {int(record.key() or b""): record.value() for record in cluster.records(topic)}
    assert found == {number: line.encode() for number, line in enumerate(lines(20))}

    done = LinesDone(kafka, name)
    assert (done.acked(), done.dead_letters(), words_kept(whole)) == (0, 0, Counter())
    consumer = Consumer({**kafka, "group.id": component_group(name, LINES)})
    consumer.commit(offsets=[TopicPartition(topic, 1, 4)], asynchronous=False)
    consumer.close()
    # The second micro-batch was run again.
    for batch, file, places in ((0, "a", [0, 1]), (1, "a", [1, 2]), (1, "b", [1, 2])):
        directory = counted_directory(whole) / f"batch={batch}"
        directory.mkdir(parents=True, exist_ok=True)
        rows = {"line": [5] * 2, "position": places, "word": ["aba"[place] for place in places]}
        pq.write_table(pa.table(rows), directory / f"{file}.parquet")
    cluster.produce(dead_letters_topic(name), 0, b"given up")
    assert (done.acked(), done.dead_letters()) == (4, 1)
    assert words_kept(whole) == Counter("aba")
