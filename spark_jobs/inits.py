"""Inits of trees, sent by executors before the tuples that begin them.

The init of a tree must be in the log before anybody can process one of its tuples; see ADR 23. Spark's sink promises no
order between topics, so a task sends the inits with a producer of its own and waits until they are delivered, before it
hands its tuples on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from spark_jobs.entries import Record
from spark_jobs.errors import SparkJobError
from tuple_tree.client_settings import for_producer

SendInits = Callable[[Sequence[Record]], object]
"""Returns when all records are delivered, and raises if they are not; picklable."""

_DELIVERY_SECONDS: Final = 60.0
_FILES: Final = ("ssl.ca", "ssl.certificate", "ssl.key")
_ONCE: Final = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 2}

_producers: Final[dict[str, Producer]] = {}
"""Of this process; Spark runs the tasks of an application in a few that live on."""


@dataclass(frozen=True)
class KafkaInits:
    """Sends inits to Kafka.

    Attributes:
        kafka: librdkafka properties, see `for_executors`.
    """

    kafka: Mapping[str, Any] = field(repr=False)

    def __call__(self, records: Sequence[Record]) -> None:
        """Sends records and waits until they are delivered.

        Raises:
            SparkJobError: if they are not.
        """
        key = json.dumps(dict(self.kafka), sort_keys=True, default=str)
        if key not in _producers:
            _producers[key] = Producer({**for_producer(self.kafka), **_ONCE})
        producer = _producers[key]
        failures: list[Any] = []

        def delivered(error: Any, _message: object) -> None:
            if error is not None:
                failures.append(error)

        try:
            for topic, partition, _, value, _ in records:
                producer.produce(topic, value, partition=partition, on_delivery=delivered)
            left = producer.flush(_DELIVERY_SECONDS)
        except (KafkaException, BufferError) as error:
            failures.append(error)
            left = len(records)
        if left or failures:
            # What it still holds may arrive later, and belongs to no tuple.
            del _producers[key]
            said = failures[0] if failures else f"no answer within {_DELIVERY_SECONDS:g} s"
            raise SparkJobError(f"inits could not be delivered ({said}): check that executors reach the brokers")


def for_executors(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Kafka's settings with what stands in PEM files, which executors need not have."""
    settings = dict(kafka)
    for name in _FILES:
        path = Path(str(settings.get(f"{name}.location", "")))
        if f"{name}.location" in settings and path.is_file():
            del settings[f"{name}.location"]
            settings.setdefault(f"{name}.pem", path.read_text())
    return settings
