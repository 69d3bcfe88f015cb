"""Whether the word count in Spark is right: `python -m acker_cli.demo.spark_verification`.

It waits until the spout has committed every line of the text as done, and compares the words that the last bolt has
kept, each place in the text once, with a plain count. Exit code 0 only if no line was given up and each word is there
as often as it stands in the text; 1 if not, or if nothing was acked for `WORD_COUNT_PATIENCE` seconds (120).
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pyarrow.dataset as ds
from confluent_kafka import Consumer, TopicPartition

from acker_cli.cluster.connection import configured_cluster
from acker_cli.demo.spark_word_count import PARTITIONS, counted_directory, text_topic
from acker_cli.demo.verification import Results, verified
from acker_cli.demo.word_count import LINES, Parameters
from acker_cli.settings.layers import load
from kafka_clients.client_settings import for_consumer
from kafka_clients.log_reader import watermarks
from tuple_tree.names import component_group, dead_letters_topic

_SECONDS: Final = 10.0


def spark_results(kafka: Mapping[str, Any], parameters: Parameters) -> Results:
    group = component_group(parameters.name, LINES)
    consumer = Consumer({**for_consumer(kafka), "group.id": group, "enable.auto.commit": False})

    def acked() -> int:
        """How many lines the spout has committed as done: those before the first one that is open."""
        asked = [TopicPartition(text_topic(parameters), number) for number in range(PARTITIONS)]
        return sum(max(each.offset, 0) for each in consumer.committed(asked, timeout=_SECONDS))

    def dead_letters() -> int:
        return watermarks(consumer, TopicPartition(dead_letters_topic(parameters.name), 0), _SECONDS)[1]

    def counted() -> Counter[str]:
        """The words that were kept, each place in the text once."""
        directory = counted_directory(parameters)
        if not directory.exists():
            return Counter()
        places = ds.dataset(directory, format="parquet").to_table(columns=["line", "position", "word"])
        words = places.group_by(places.column_names).aggregate([]).column("word")
        return Counter({each["values"]: each["counts"] for each in words.value_counts().to_pylist()})

    return Results(acked, "given up", dead_letters, counted)


def results() -> Results:
    return spark_results(configured_cluster(load()).kafka, Parameters.from_environment(os.environ))


if __name__ == "__main__":
    sys.exit(verified(results()))
