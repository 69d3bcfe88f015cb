"""An ack log that is filled beforehand, and the notices that a worker makes of it, with the broker's times.

The entries of each partition are a sliding window of trees, as in `benchmarks.ledger`: the window is initialised first,
then batches of acks and of inits alternate, each batch a record. Every ack completes a tree, so the first notice says
that the window is filled, and the last one that everything is folded.
"""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from numpy.typing import NDArray

from benchmarks.errors import BenchmarkError
from benchmarks.ledger_ids import BATCH, WindowIds
from kafka_clients.catalogue import Catalogue
from tuple_tree.codec import decode_notice_batch, encode_ack_batch
from tuple_tree.ids import IdColumn
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.messages import AckBatch, SpoutAddress
from tuple_tree.names import acker_group, acks_topic, notices_topic
from tuple_tree.streams import declare

TIMEOUT_MS: Final = 1_800_000
"""No tree may time out while a log is filled, read, and read again."""
_SILENCE_S: Final = 120.0
_CONTACT_S: Final = 30.0


class SilenceError(BenchmarkError):
    """A worker said nothing for too long, or said something else than it had to."""


@dataclass(frozen=True, slots=True)
class ToldNotice:
    """A notice, as it lies in the log.

    Attributes:
        partition: of the ack log.
        position: the fold had applied everything before this offset.
        at_ms: when the broker appended it.
        trees: how many it is about.
    """

    partition: int
    position: int
    at_ms: int
    trees: int


def smallest(topology: str, partitions: int) -> Manifest:
    """The smallest topology there is: one spout and one bolt.

    Args:
        topology: its name.
        partitions: of its ack log.
    """
    bolt = BoltManifest(
        name="bolt", subscriptions=(Subscription(source="spout", stream="default", grouping="shuffle"),)
    )
    return Manifest.of(
        topology=topology,
        ack_partitions=partitions,
        max_tree_age_ms=10 * TIMEOUT_MS,
        components=(SpoutManifest(name="spout", streams=(declare(["word"]),), timeout_ms=TIMEOUT_MS), bolt),
    )


class AckLog:
    """A topology of one spout and one bolt, both played by the benchmark.

    Args:
        servers: of the broker.
        partitions: of the ack log.
    """

    def __init__(self, servers: str, partitions: int) -> None:
        self.topology = f"bench-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self.trees = 0
        """Trees that are acked."""
        self._servers = {"bootstrap.servers": servers}
        manifest = smallest(self.topology, partitions)
        self._acks, notices = acks_topic(self.topology), notices_topic(self.topology, "spout")
        self._spout = SpoutAddress(notices, 0, TIMEOUT_MS)
        self._admin = AdminClient(dict(self._servers))
        # When a notice was delivered is for the broker to say.
        times = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
        self._admin.create_topics([NewTopic(notices, 1, 1, config=times)])[notices].result(_CONTACT_S)
        catalogue = Catalogue(self._servers)
        catalogue.create_topics(manifest)
        catalogue.publish(manifest)
        self._producer = Producer({**self._servers, "enable.idempotence": True, "linger.ms": 5})
        self._session = uuid.uuid4().bytes
        self._sequence = 0
        self._sizes: list[list[int]] = [[] for _ in range(partitions)]
        self._notices = Consumer({**self._servers, "group.id": self.topology, "fetch.queue.backoff.ms": 50})
        self._notices.assign([TopicPartition(notices, 0, 0)])

    def close(self) -> None:
        """Deletes the topics: they are large."""
        self._notices.close()
        for deleted in self._admin.delete_topics([self._acks, self._spout.topic]).values():
            deleted.result(_CONTACT_S)

    def fill(self, pending: int, trees: int, batch: int) -> None:
        """Writes the window and what follows it.

        Args:
            pending: trees in the window, over all partitions.
            trees: that are acked, over all partitions, at least.
            batch: entries of a record; those of the window itself have `BATCH`.
        """
        each = -(-trees // self.partitions // BATCH) * BATCH
        lanes = [self._lane(partition, pending // self.partitions, each, batch) for partition in range(self.partitions)]
        while lanes:
            lanes = [lane for lane in lanes if next(lane, None) is not None]
        self.flush()
        self.trees += each * self.partitions

    def _lane(self, partition: int, pending: int, turns: int, batch: int) -> Iterator[int]:
        ids = WindowIds.drawn(pending, turns, seed=partition)
        roots = ids.roots // np.uint64(self.partitions) * np.uint64(self.partitions) + np.uint64(partition)
        for start in range(0, pending, BATCH):
            end = min(start + BATCH, pending)
            yield self.init(partition, roots[start:end], ids.vals[start:end])
        for start in range(0, turns, batch):
            acked, new = ids.order[start : start + batch], slice(pending + start, min(start + batch, turns) + pending)
            yield self.ack(partition, roots[acked], ids.vals[acked])
            yield self.init(partition, roots[new], ids.vals[new])

    def init(self, partition: int, roots: IdColumn, vals: IdColumn) -> int:
        """Appends inits, and returns how many."""
        self._append(
            partition,
            AckBatch("spout/0", self._session, self._next(), spout=self._spout, init_roots=roots, init_vals=vals),
        )
        return len(roots)

    def ack(self, partition: int, roots: IdColumn, vals: IdColumn) -> int:
        """Appends acks, and returns how many."""
        self._append(partition, AckBatch("bolt/0", self._session, self._next(), ack_roots=roots, ack_vals=vals))
        return len(roots)

    def flush(self) -> None:
        """Waits until everything is in the log."""
        if self._producer.flush(_CONTACT_S):
            raise SilenceError("the ack log could not be written: is the broker well?")

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _append(self, partition: int, batch: AckBatch) -> None:
        value = encode_ack_batch(batch)
        self._sizes[partition].append(len(batch))
        while True:
            try:
                self._producer.produce(self._acks, value, partition=partition, on_delivery=_must_arrive)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def entries(self) -> list[NDArray[np.int64]]:
        """For each partition, shape `(records + 1,)`: how many entries lie before each offset."""
        return [np.concatenate([[0], np.cumsum(sizes)]) for sizes in self._sizes]

    def records(self) -> int:
        """How many records were written."""
        return sum(map(len, self._sizes))

    def await_notices(self, trees: int) -> list[ToldNotice]:
        """Reads on in the notices until they are about so many trees.

        Raises:
            SilenceError: if none comes for two minutes, or there are more.
        """
        found: list[ToldNotice] = []
        left, deadline = trees, time.monotonic() + _SILENCE_S
        while left > 0:
            messages = self._notices.consume(500, 0.05)
            for message in messages:
                notice = _told(message)
                left -= notice.trees
                found.append(notice)
            if messages:
                deadline = time.monotonic() + _SILENCE_S
            elif time.monotonic() > deadline:
                raise SilenceError(f"{left:,} of {trees:,} trees were not acked: see what the workers wrote")
        if left < 0:
            raise SilenceError(f"{-left:,} trees more than {trees:,} were acked")
        return found

    def members(self) -> dict[str, int]:
        """Partitions of each member of the ackers' group."""
        group = acker_group(self.topology)
        described = self._admin.describe_consumer_groups([group])[group].result(_CONTACT_S)
        return {
            member.member_id: len(member.assignment.topic_partitions) if member.assignment else 0
            for member in described.members
        }

    def committed(self) -> list[int]:
        """Offset that the ackers' group has committed for each partition, below zero if none."""
        consumer = Consumer({**self._servers, "group.id": acker_group(self.topology)})
        try:
            wanted = [TopicPartition(self._acks, partition) for partition in range(self.partitions)]
            return [one.offset for one in consumer.committed(wanted, timeout=_CONTACT_S)]
        finally:
            consumer.close()

    def ends(self) -> list[int]:
        """Offset behind the last record of each partition."""
        return list(map(len, self._sizes))

    def forget_commits(self) -> None:
        """Lets the next worker begin anew; no worker may run."""
        group = acker_group(self.topology)
        described = self._admin.describe_consumer_groups([group])[group].result(_CONTACT_S)
        if described.state is not ConsumerGroupState.DEAD:
            self._admin.delete_consumer_groups([group])[group].result(_CONTACT_S)


def _must_arrive(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise SilenceError(f"the ack log could not be written: {error.str()}")


def _told(message: Message) -> ToldNotice:
    if message.error() is not None:
        raise SilenceError(f"the notices cannot be read: {message.error()}")
    value = message.value()
    assert isinstance(value, bytes)
    notice = decode_notice_batch(value)
    if len(notice.failed_roots):
        raise SilenceError(f"{len(notice.failed_roots)} trees failed, which no bolt said")
    return ToldNotice(notice.acks_partition, notice.acks_offset, message.timestamp()[1], len(notice.acked_roots))
