"""Sends reset-timeouts for the trees whose tuples wait for tasks that execute no others."""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

import numpy as np
from confluent_kafka import OFFSET_STORED, Message, Producer

from kafka_clients.client_settings import new_client
from kafka_clients.errors import GONE, REFUSED
from kafka_clients.log_reader import LogReader
from kafka_clients.repeated_lines import get_logger
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.kafka.kafka_settings import KafkaSettings, ack_producer_settings
from spout_sdk.records import Entropy
from tuple_tree.anchors import ANCHORS_HEADER, readable_roots
from tuple_tree.entries import Entries
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.messages import SESSION_BYTES, AckBatch, encode_ack_batch
from tuple_tree.names import acks_topic, component_group, tuples_topic

logger = get_logger("spout_sdk.execute_watch")

_MOST_ROOTS: Final = 1_000_000  # kept in memory, 8 bytes each; later records are not read
_POLL_SECONDS: Final = 0.1
_MOST_POLLS: Final = 20  # in one `read`
_SEND_SECONDS: Final = 5.0


class TimeoutResets:
    """Reads the inboxes of tasks from their first open inputs on, and resets the timeouts of the trees of open records.

    A reset completes no tree, does nothing for a tree that has ended, and does not extend the largest age of a tree. So
    resets need no order with the entries of the tasks, which may be sending at the same time, and share nothing with
    them: they have a consumer that joins no group, a producer without transactions, and their own writer id.

    Use it in one thread other than that of the tasks. It creates its clients when they are first needed.
    """

    def __init__(
        self,
        manifest: Manifest,
        component: str,
        kafka: KafkaSettings,
        entropy: Entropy,
        new_reader: Callable[..., Any] = LogReader,
    ) -> None:
        self._kafka = kafka
        self._component = component
        self._group = component_group(manifest.topology, component)
        self._inbox = tuples_topic(manifest.topology, component)
        self._acks, self._partitions = acks_topic(manifest.topology), manifest.ack_partitions
        self._session = entropy(SESSION_BYTES)
        self._writer = f"{component}/resets-{self._session.hex()[:8]}"
        self._sequences = [0] * manifest.ack_partitions
        self._new_reader = new_reader
        self._reader: Any = None
        self._producer: Any = None
        self._tasks: dict[int, BoltTask] = {}
        self._read: dict[int, list[tuple[int, IdColumn]]] = {}  # task → offsets and the roots of their records
        self._kept = 0

    def begin(self, tasks: Mapping[int, BoltTask]) -> None:
        """Begins to read the inboxes of tasks, each from its first open input on."""
        self._tasks, self._kept = dict(tasks), 0
        self._read = {partition: [] for partition in tasks}
        if self._reader is None:
            self._reader = self._new_reader(self._kafka, group=self._group, role=self._component)
        starts = {partition: task.committable for partition, task in tasks.items()}
        # A task that has read nothing yet begins at the committed offset.
        self._reader.assign(
            {(self._inbox, at): OFFSET_STORED if start is None else start for at, start in starts.items()}
        )

    def read(self) -> bool:
        """Reads available records for two seconds at most; returns whether the ends of all inboxes are reached.

        Also returns True when the limit of roots in memory is reached.
        """
        for _ in range(_MOST_POLLS):
            if self._kept >= _MOST_ROOTS:
                return True
            messages = self._reader.poll(_POLL_SECONDS, ignoring=(*REFUSED, *GONE))
            for message in messages:
                self._keep(message)
            if not messages and len(self._reader.ended) == len(self._tasks):
                return True
        return len(self._reader.ended) == len(self._tasks)

    def send(self) -> int:
        """Sends a reset for each tree of the open records, and returns how many."""
        for partition, records in self._read.items():
            is_open = self._tasks[partition].is_open
            self._read[partition] = [(offset, roots) for offset, roots in records if is_open(offset)]
        kept = [roots for records in self._read.values() for _, roots in records]
        self._kept = sum(map(len, kept))
        if not kept:
            return 0
        roots = np.unique(np.concatenate(kept))
        if self._producer is None:
            self._producer = new_client(Producer, ack_producer_settings(self._kafka))
        for partition, columns in Entries(reset_roots=roots).shares(self._partitions):
            self._send(partition, columns)
        if left := self._producer.flush(_SEND_SECONDS):
            logger.warning("%s: %d batches of reset-timeouts were not delivered in time", self._component, left)
        return len(roots)

    def end(self) -> None:
        """Stops reading, and forgets the tasks."""
        self._reader.assign({})
        self._read.clear()
        self._tasks.clear()

    def close(self) -> None:
        if self._reader is not None:
            with closing(self._reader):
                self._reader = None

    def _keep(self, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        headers: Any = message.headers() or ()
        anchors = dict(headers).get(ANCHORS_HEADER) or b""
        # Records after the first open one may be done.
        if anchors and self._tasks[partition].is_open(offset):
            roots = readable_roots(anchors)
            self._read[partition].append((offset, roots))
            self._kept += len(roots)

    def _send(self, partition: int, columns: dict[str, Any]) -> None:
        batch = AckBatch(self._writer, self._session, self._sequences[partition], **columns)
        self._sequences[partition] += 1
        try:
            self._producer.produce(
                self._acks, encode_ack_batch(batch), None, partition, on_delivery=lambda _error, _message: None
            )
        except BufferError:
            # The next reset, a third of a message timeout later, names all trees again.
            logger.warning("%s: the producer queue of reset-timeouts is full: no broker takes them", self._component)
