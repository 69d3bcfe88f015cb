"""The text in its topic, and what became of it: the lines that are acked, and the counts."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from acker_cli.demo.text import lines
from acker_cli.demo.word_count import COUNT, LINES, TASKS, Parameters, text_topic
from kafka_clients.catalogue import Catalogue
from kafka_clients.client_settings import for_consumer, for_producer
from kafka_clients.log_reader import LogReader, watermarks
from kafka_clients.new_topics import create_missing
from spout_sdk.state import StateView
from tuple_tree.names import component_group, dead_letters_topic

_SECONDS: Final = 30.0


def write_text(
    kafka: Mapping[str, Any],
    parameters: Parameters,
    replication_factor: int,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Writes the lines that the topic lacks, which is created if it is not there; returns how many.

    Line n is message n // 2 of partition n % 2, so the end offsets say which are missing.
    """
    topic, every = text_topic(parameters.name), lines(parameters.lines)
    create_missing(Catalogue(kafka), {topic: TASKS}, replication_factor)
    with LogReader(kafka) as reader:
        offset_ranges = reader.offset_ranges((topic, number) for number in range(TASKS))
    ends = [offsets.stop for offsets in offset_ranges.values()]
    missing = [number for number in range(len(every)) if number // TASKS >= ends[number % TASKS]]
    more = {"enable.idempotence": True, "queue.buffering.max.messages": len(every) + 1}
    producer = Producer({**for_producer(kafka), **more})
    for number in missing:
        producer.produce(topic, every[number], str(number), number % TASKS)
        if parameters.rate:
            producer.poll(0)
            pause(1 / parameters.rate)
    if producer.flush(_SECONDS):
        raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, f"{topic} could not be written"))
    return len(missing)


class LinesDone(AbstractContextManager["LinesDone"]):
    """Reads how many lines of a topology's text are done.

    Args:
        kafka: librdkafka properties.
        name: of the topology.
    """

    def __init__(self, kafka: Mapping[str, Any], name: str) -> None:
        group = component_group(name, LINES)
        self._consumer = Consumer({**for_consumer(kafka), "group.id": group, "enable.auto.commit": False})
        self._partitions = [TopicPartition(text_topic(name), number) for number in range(TASKS)]
        self._dead_letters = TopicPartition(dead_letters_topic(name), 0)

    def acked(self) -> int:
        """How many lines the spout has committed as done: the lines before the first one that is open."""
        found = self._consumer.committed(self._partitions, timeout=_SECONDS)
        return sum(max(each.offset, 0) for each in found)

    def dead_letters(self) -> int:
        return watermarks(self._consumer, self._dead_letters, _SECONDS)[1]

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def counted_words(kafka: Mapping[str, Any], name: str) -> Counter[str]:
    """The state of a topology: how often each word is counted."""
    with StateView(name, COUNT, kafka) as view:
        return Counter(dict(view.items()))
