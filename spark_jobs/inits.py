"""Inits of trees, sent by executors before the tuples that begin them; see ADR 23.

Spark's sink promises no order between topics, so a task sends the inits with a producer of its own and waits until they
are delivered, before it hands its tuples on.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException, Producer

from kafka_clients.client_settings import for_producer
from spark_jobs.entries import Entries, Record, record_rows
from spark_jobs.errors import SparkJobError
from spark_jobs.packing import Count, Outputs, Packing, without
from tuple_tree.anchor_columns import AnchorColumns, Rows
from tuple_tree.ids import IdColumn
from tuple_tree.messages import SpoutAddress

Send = Callable[[Sequence[Record]], object]
"""Returns when all records are delivered, and raises if they are not; picklable."""

_DELIVERY_SECONDS: Final = 60.0
_ONCE: Final = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 2}

_producers: Final[dict[str, Producer]] = {}
"""Of this process; Spark runs the tasks of an application in a few that live on."""


class Roots:
    """Rows that begin trees, of one attempt of a task, on their way into records."""

    def __init__(self, outputs: Outputs, spout: SpoutAddress, send: Send, largest: int, count: Count) -> None:
        (self._stream,) = outputs.streams
        self._entries = Entries(outputs.log, outputs.component, spout)
        self._send = send
        self.packing = Packing(outputs, self._entries, largest, count)

    def records(self, batches: Iterable[Any], add: Callable[[Any], object]) -> Iterator[Any]:
        """Adds batches, and yields what may be written as rows of Spark's Kafka sink."""
        for batch in batches:
            add(batch)
            if self.packing.is_full:
                yield record_rows(self._take())
        self.packing.end()
        if records := self._take():
            yield record_rows(records)

    def emit(self, batch: Any, roots: IdColumn, rows: Rows) -> dict[int, str]:
        """Emits rows of a batch, each under its root; returns those that do not fit the stream, and why."""
        none = np.zeros(len(roots), np.uint64)
        unfit = self.packing.emit(self._stream, batch, AnchorColumns(roots, none, None), rows)
        # A tuple without receivers begins a tree, too, which is complete at once.
        begun = roots[without(rows, unfit)]
        self._entries.add(begun, np.zeros(len(begun), np.uint64))
        return unfit

    def _take(self) -> list[Record]:
        """Records that may be written now: the inits of their trees are delivered."""
        if inits := self._entries.take():
            self._send(inits)
        return self.packing.take()


@dataclass(frozen=True)
class KafkaSender:
    """Sends records to Kafka, with librdkafka properties, and waits until they are delivered; picklable."""

    kafka: Mapping[str, Any] = field(repr=False)

    def __call__(self, records: Sequence[Record]) -> None:
        settings = json.dumps(dict(self.kafka), sort_keys=True, default=str)
        if settings not in _producers:
            _producers[settings] = Producer({**for_producer(self.kafka), **_ONCE})
        producer = _producers[settings]
        failures: list[Any] = []

        def on_delivery(error: Any, _message: object) -> None:
            if error is not None:
                failures.append(error)

        try:
            for topic, partition, key, value, headers in records:
                producer.produce(
                    topic, value, key=key, partition=partition, on_delivery=on_delivery, headers=[*headers]
                )
            left = producer.flush(_DELIVERY_SECONDS)
        except (KafkaException, BufferError) as error:
            failures.append(error)
            left = len(records)
        if left or failures:
            # What it still holds may arrive later, and belongs to no tuple.
            del _producers[settings]
            topics = ", ".join(sorted({record[0] for record in records}))
            why = failures[0] if failures else f"no answer within {_DELIVERY_SECONDS:g} s"
            raise SparkJobError(
                f"records for {topics} could not be delivered ({why}): check that executors reach the brokers"
            )
