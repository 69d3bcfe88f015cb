"""An ack log that is filled beforehand, and the notices that workers make of it, with the broker's times.

Each partition holds a sliding window of trees (`benchmarks.window`): the window is initialised first, then batches of
acks and of inits alternate, each batch a record. Every ack completes a tree, so the first notice says that the window
is filled, and the last one that everything is folded.
"""

import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, ConsumerGroupState, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from numpy.typing import NDArray

from benchmarks.harness import BenchmarkError
from benchmarks.topics import QUIET, Topics
from benchmarks.window import BATCH, Window
from tuple_tree.codec import decode_notice_batch, encode_ack_batch
from tuple_tree.manifest import BoltManifest, Manifest, SpoutManifest, Subscription
from tuple_tree.messages import AckBatch, SpoutAddress
from tuple_tree.names import acker_group, acks_topic, notices_topic
from tuple_tree.streams import declare

# No tree may time out while a log is filled, read, and read again.
_TIMEOUT_MS: Final = 1_800_000
_SILENT_SECONDS: Final = 120.0
_CONTACT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice about so many trees: the fold of a partition of the ack log had applied all before `position`."""

    partition: int
    position: int
    at_ms: int
    trees: int

    @classmethod
    def of(cls, message: Message) -> "Notice":
        if message.error() is not None:
            raise BenchmarkError(f"the notices cannot be read: {message.error()}")
        value = message.value()
        assert isinstance(value, bytes)
        notice = decode_notice_batch(value)
        if len(notice.failed_roots):
            raise BenchmarkError(f"{len(notice.failed_roots)} trees failed, which no bolt failed")
        return cls(notice.acks_partition, notice.acks_offset, message.timestamp()[1], len(notice.acked_roots))


class AckLog:
    """The ack log of a topology of one spout and one bolt, in which so many trees are acked."""

    def __init__(self, topics: Topics, partitions: int) -> None:
        self.topology = f"bench-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self.trees = 0
        self._topics = topics
        subscription = Subscription(source="spout", stream="default", grouping="shuffle")
        spout = SpoutManifest(name="spout", streams=(declare(["word"]),), timeout_ms=_TIMEOUT_MS)
        manifest = Manifest.of(
            topology=self.topology,
            ack_partitions=partitions,
            max_tree_age_ms=10 * _TIMEOUT_MS,
            components=(spout, BoltManifest(name="bolt", subscriptions=(subscription,))),
        )
        self._acks, notices = acks_topic(self.topology), notices_topic(self.topology, "spout")
        self._spout = SpoutAddress(notices, 0, _TIMEOUT_MS)
        topics.create_for(manifest)
        kafka = {"bootstrap.servers": topics.servers, **QUIET}
        self._admin = AdminClient(kafka)
        self._sizes: list[list[int]] = [[] for _ in range(partitions)]
        self._notices = Consumer({**kafka, "group.id": self.topology, "fetch.queue.backoff.ms": 50})
        self._notices.assign([TopicPartition(notices, 0, 0)])

    def close(self) -> None:
        """Deletes the topics: they are large."""
        self._notices.close()
        self._topics.delete(self.topology)

    def fill(self, pending: int, trees: int, batch: int) -> None:
        """Writes the window, in batches of `BATCH` entries, and what follows it; trees are over all partitions."""
        turns = -(-trees // self.partitions // BATCH) * BATCH
        lanes = [
            self._lane(partition, pending // self.partitions, turns, batch) for partition in range(self.partitions)
        ]
        # In turn, as all partitions are written in a topology.
        records = (record for step in itertools.zip_longest(*lanes) for record in step if record is not None)
        self._topics.write(self._acks, records, {"linger.ms": 5})
        self.trees += turns * self.partitions

    def _lane(self, partition: int, pending: int, turns: int, batch: int) -> Iterator[tuple[bytes, int, None]]:
        window = Window.drawn(pending, turns, seed=partition)
        roots = window.roots // np.uint64(self.partitions) * np.uint64(self.partitions) + np.uint64(partition)
        session, sequence = uuid.uuid4().bytes, itertools.count(1)

        def record(writer: str, **columns: Any) -> tuple[bytes, int, None]:
            entries = AckBatch(writer, session, next(sequence), **columns)
            self._sizes[partition].append(len(entries))
            return encode_ack_batch(entries), partition, None

        def init(trees: slice) -> tuple[bytes, int, None]:
            return record("spout/0", spout=self._spout, init_roots=roots[trees], init_vals=window.vals[trees])

        for start in range(0, pending, BATCH):
            yield init(slice(start, min(start + BATCH, pending)))
        for start in range(0, turns, batch):
            acked = window.order[start : start + batch]
            yield record("bolt/0", ack_roots=roots[acked], ack_vals=window.vals[acked])
            yield init(slice(pending + start, pending + min(start + batch, turns)))

    def entries(self) -> list[NDArray[np.int64]]:
        """For each partition, shape `(records + 1,)`: how many entries lie before each offset."""
        return [np.concatenate([[0], np.cumsum(sizes)]) for sizes in self._sizes]

    def await_notices(self) -> list[Notice]:
        """Reads on in the notices until they are about all trees."""
        notices: list[Notice] = []
        left, deadline = self.trees, time.monotonic() + _SILENT_SECONDS
        while left > 0:
            new = [Notice.of(message) for message in self._notices.consume(500, 0.05)]
            notices += new
            left -= sum(notice.trees for notice in new)
            if new:
                deadline = time.monotonic() + _SILENT_SECONDS
            elif time.monotonic() > deadline:
                raise BenchmarkError(f"{left:,} of {self.trees:,} trees were not acked: see what the workers wrote")
        if left < 0:
            raise BenchmarkError(f"{-left:,} trees more than {self.trees:,} were acked")
        return notices

    def shares(self) -> list[int]:
        """Partitions of each member of the ackers' group, in rising order."""
        group = acker_group(self.topology)
        members = self._admin.describe_consumer_groups([group])[group].result(_CONTACT_SECONDS).members
        return sorted(len(member.assignment.topic_partitions) if member.assignment else 0 for member in members)

    def forget_commits(self) -> None:
        """Deletes the ackers' group, so that the next worker begins anew; no worker may run."""
        group = acker_group(self.topology)
        described = self._admin.describe_consumer_groups([group])[group].result(_CONTACT_SECONDS)
        if described.state is not ConsumerGroupState.DEAD:
            self._admin.delete_consumer_groups([group])[group].result(_CONTACT_SECONDS)
