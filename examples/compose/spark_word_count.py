"""The word count in Spark: lines → split → count, each a job of its own.

    topic {name}.text ─▶ lines (spout) ──shuffle──▶ split ──shuffle──▶ count ─▶ Parquet in {directory}/counted

The streams are those of `word_count`. The three are services in `docker-compose.yml`, with the profile `spark`.
`python -m examples.compose.spark_word_count` fills the topic; `verification` checks the result.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from acker_cli.demo.text import WORD, lines
from acker_cli.demo.word_count import COUNT, LINES, SPLIT, LineSpout, Parameters, SplitBolt
from kafka_clients.log_reader import LogReader
from spout_sdk import Topology, TopologyBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs import Source

PARTITIONS: Final = 2
# Well above what a few micro-batches take on a busy machine, and a driver that is started again.
_MESSAGE_TIMEOUT: Final = 120.0
# A micro-batch takes some tenths of a second at least, so it should hold many lines.
_MAX_SPOUT_PENDING: Final = 5_000
_SECONDS: Final = 30.0


def text_topic(parameters: Parameters) -> str:
    """The topic of the text: the number of a line is the key of its message."""
    return f"{parameters.name}.text"


def counted_directory(parameters: Parameters) -> Path:
    """Directory of the words, with a directory for each micro-batch."""
    return parameters.directory / "counted"


def text(_spark: SparkSession) -> Source:
    """The lines of the topic, with their numbers."""
    from pyspark.sql import functions as F  # noqa: N812

    from spark_jobs import Source

    fields = {"line": F.col("key").cast("string").cast("bigint"), "text": F.col("value").cast("string")}
    return Source(text_topic(Parameters.from_environment(os.environ)), fields=fields)


def split(rows: DataFrame) -> DataFrame:
    """A row for each word of a line, with its place in the text, as `SplitBolt` emits them."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.regexp_extract_all(F.lower("text"), F.lit(WORD), F.lit(0))
    words = rows.select("line", "_tracking", F.posexplode(found).alias("position", "word"))
    return words.withColumn("position", F.col("position").cast("bigint"))


def count(rows: DataFrame, batch_id: int) -> None:
    """Keeps each word with its place in the text, by which a repeated one is counted once.

    A micro-batch that is run again appends its words again, so acked words are there at any moment.
    """
    directory = counted_directory(Parameters.from_environment(os.environ)) / f"batch={batch_id}"
    rows.select("line", "position", "word").write.mode("append").parquet(directory.as_uri())


def topology() -> Topology:
    parameters = Parameters.from_environment(os.environ)
    builder = TopologyBuilder(parameters.name, message_timeout=_MESSAGE_TIMEOUT, max_spout_pending=_MAX_SPOUT_PENDING)
    builder.set_spout(LINES, text, external=True, streams=LineSpout.streams)
    bolt = builder.set_bolt(SPLIT, split, tasks=2, external=True, streams=SplitBolt.streams)
    bolt.shuffle_grouping(LINES)
    builder.set_bolt(COUNT, count, tasks=2, external=True).shuffle_grouping(SPLIT)
    return builder.build()


def write_text(kafka: Mapping[str, Any], parameters: Parameters, replication: int) -> int:
    """Creates the topic of the text, and writes the lines that it lacks; returns how many.

    Line n is message n // 2 of partition n % 2, so the end offsets say which are missing.
    """
    topic, every = text_topic(parameters), lines(parameters.lines)
    ends = [0] * PARTITIONS
    with AdminClient({**kafka}) as admin:
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS, replication)])[topic].result(_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            with LogReader(kafka) as reader:
                offset_ranges = reader.offset_ranges((topic, number) for number in range(PARTITIONS))
            ends = [offsets.stop for offsets in offset_ranges.values()]
    written = 0
    producer = Producer({**kafka, "enable.idempotence": True, "queue.buffering.max.messages": len(every) + 1})
    for partition, end in enumerate(ends):
        for number in range(partition + end * PARTITIONS, len(every), PARTITIONS):
            producer.produce(topic, every[number], str(number), partition)
            written += 1
    if producer.flush(_SECONDS):
        raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, f"{topic} could not be written"))
    return written


def main() -> int:
    from acker_cli.console import standard_output
    from acker_cli.settings.layers import load

    loaded, parameters = load(), Parameters.from_environment(os.environ)
    replication = loaded.settings.topics.replication_factor
    written = write_text(loaded.cluster(), parameters, replication)
    standard_output().print(f"wrote {written:,} lines to {text_topic(parameters)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
