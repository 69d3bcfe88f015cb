"""Entries of the ack log and dead letters as records, and how executors send records."""

import json
import os
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException, Producer

from kafka_clients.client_settings import for_producer
from spark_jobs.errors import SparkJobError
from tuple_tree.components import Component, SpoutManifest
from tuple_tree.entries import Entries
from tuple_tree.errors import WireError
from tuple_tree.headers import dead_letter_headers
from tuple_tree.ids import IdColumn, random_column
from tuple_tree.manifest import Manifest
from tuple_tree.messages import SESSION_BYTES, AckBatch, SpoutAddress, encode_ack_batch
from tuple_tree.names import acks_topic, dead_letters_topic, notices_topic

ENTRIES: Final = 4096
"""The most entries of a batch."""

ANY_PARTITION: Final = -1
"""The partition of a record whose partition the client chooses."""

Record = tuple[str, int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""Topic, partition, key, value and headers."""

Send = Callable[[Sequence[Record]], object]
"""Returns when all records are delivered, and raises if they are not; picklable."""

_DELIVERY_SECONDS: Final = 60.0
_ROOM_SECONDS: Final = 0.1
# Records come in chunks that are flushed, so large batches cost no latency.
_LARGE: Final = {"batch.size": 1_000_000, "compression.type": "lz4"}
# A batch of entries that the client sent twice would cancel, and the ack of their input come too early. With several
# requests under way a client that gives one up begins a new epoch, and sends the others once more.
_ONCE: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "max.in.flight.requests.per.connection": 1,
    "delivery.report.only.error": True,
    "linger.ms": 0,
    "log_level": 2,
}

_producers: Final[dict[str, Producer]] = {}
"""The producers of this process; Spark runs many tasks in each of a few long-lived processes."""

_LARGEST_VALUE: Final = 1_000_000
"""Bytes of a value that still fit a record of 1 MiB when a dead letter's headers come on top."""


def dead_letter(
    topology: str,
    by: str,
    place: tuple[str, int, int],
    why: WireError,
    key: bytes | None = None,
    value: bytes | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
    index: int | None = None,
) -> Record:
    """The dead letter of a record at a topic, partition and offset; without a value that is too large."""
    kept = value if value is not None and len(value) <= _LARGEST_VALUE else None
    own = dead_letter_headers(*place, reason=why.reason, detail=why.detail, by=by, index=index)
    return dead_letters_topic(topology), 0, key, kept, [*headers, *own]


Identity = Callable[[int], tuple[str, bytes, int]]
"""Writer, session and sequence number of a batch."""


def ack_records(
    manifest: Manifest,
    identity: Identity,
    roots: IdColumn,
    vals: IdColumn,
    fails: Sequence[tuple[int, str]] = (),
    spout: SpoutAddress | None = None,
) -> Iterator[Record]:
    """The batches of the ack log with some entries, `ENTRIES` each at most; those of a partition keep their order.

    `identity` is called with the number of a batch on its partition; `spout` owns inits, and is None for acks.
    """
    topic, partitions = acks_topic(manifest.topology), manifest.ack_partitions
    failed = np.array([root for root, _ in fails], np.uint64)
    messages = [message for _, message in fails]
    if spout is None:
        entries = Entries(ack_roots=roots, ack_vals=vals, fail_roots=failed, fail_messages=messages)
    else:
        entries = Entries(roots, vals, fail_roots=failed, fail_messages=messages)
    numbers: Counter[int] = Counter()
    for partition, columns in entries.shares(partitions, ENTRIES):
        writer, session, sequence = identity(numbers[partition])
        numbers[partition] += 1
        batch = AckBatch(writer, session, sequence, spout=spout, **columns)
        yield topic, partition, None, encode_ack_batch(batch), ()


class AttemptEntries:
    """Entries of one attempt of a task; each batch has a writer of its own, so none is a repeat of any other.

    Those of a spout are inits. Where trees are not followed, there are none.
    """

    def __init__(self, manifest: Manifest, component: Component) -> None:
        self._manifest = manifest
        self._component = component.name
        self._spout = spout_task(manifest, component) if isinstance(component, SpoutManifest) else None
        self._roots: list[IdColumn] = []
        self._vals: list[IdColumn] = []
        self._fails: dict[int, str] = {}

    def add(self, roots: IdColumn, vals: IdColumn) -> None:
        self._roots.append(roots)
        self._vals.append(vals)

    def fail(self, roots: IdColumn, message: str) -> None:
        """Fails trees; an entry without a counterpart keeps them from being acked before the fail is read."""
        if self._spout is None:
            self.add(roots, random_column(len(roots)))
        self._fails.update(dict.fromkeys(roots.tolist(), message))

    def take(self) -> list[Record]:
        """The batches with all entries since the last call."""
        if not self._manifest.acking or not (self._roots or self._fails):
            return []
        roots, vals = merged(self._roots, self._vals, each_once=self._spout is not None)
        fails = list(self._fails.items())
        self._roots, self._vals, self._fails = [], [], {}
        return list(ack_records(self._manifest, self._new_writer, roots, vals, fails, self._spout))

    def _new_writer(self, _number: int) -> tuple[str, bytes, int]:
        return f"{self._component}/spark-{uuid.uuid4().hex[:12]}", new_session(), 0


def spout_task(manifest: Manifest, spout: SpoutManifest) -> SpoutAddress:
    """The receiver of the outcomes of a spout's trees: task 0, because one driver follows all trees."""
    return SpoutAddress(notices_topic(manifest.topology, spout.name), 0, spout.timeout_ms)


def new_session() -> bytes:
    return os.urandom(SESSION_BYTES)


def merged(roots: Sequence[IdColumn], vals: Sequence[IdColumn], *, each_once: bool) -> tuple[IdColumn, IdColumn]:
    """Entries with the XOR of the values of each root.

    Without `each_once`, which inits need, only neighbours are merged. That is faster: rows that `transform` made of one
    input mostly follow each other.
    """
    if not roots:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    every, values = np.concatenate(roots), np.concatenate(vals)
    if each_once:
        order = np.argsort(every, kind="stable")
        every, values = every[order], values[order]
    if not len(every):
        return every, values
    starts = np.flatnonzero(np.concatenate(([True], every[1:] != every[:-1])))
    return every[starts], np.bitwise_xor.reduceat(values, starts)


@dataclass(frozen=True)
class KafkaSender:
    """Sends records to Kafka, with librdkafka properties, and waits until they are delivered; picklable."""

    kafka: Mapping[str, Any] = field(repr=False)

    def __call__(self, records: Sequence[Record]) -> None:
        settings = json.dumps(dict(self.kafka), sort_keys=True, default=str)
        if settings not in _producers:
            _producers[settings] = Producer({**_LARGE, **for_producer(self.kafka), **_ONCE})
        producer = _producers[settings]
        failures: list[Any] = []
        waiting, left = deque(records), len(records)
        end = time.monotonic() + _DELIVERY_SECONDS

        def failed(error: Any, _message: Any) -> None:
            failures.append(error)

        try:
            while waiting and not failures and time.monotonic() < end:
                topic, partition, key, value, headers = waiting[0]
                try:
                    producer.produce(topic, value, key, partition, failed, headers=[*headers] or None)
                except BufferError:  # the queue of the producer is full
                    producer.poll(_ROOM_SECONDS)
                else:
                    waiting.popleft()
            left = len(waiting) or producer.flush(max(0.0, end - time.monotonic()))
        except KafkaException as error:
            failures.append(error)
        if left or failures:
            # The records that it still holds may arrive later; they belong to no tuple.
            _producers.pop(settings, None)
            topics = ", ".join(sorted({record[0] for record in records}))
            why = failures[0] if failures else f"no answer within {_DELIVERY_SECONDS:g} s"
            raise SparkJobError(
                f"records for {topics} could not be delivered ({why}): check that the driver and the executors reach "
                "the brokers"
            )
