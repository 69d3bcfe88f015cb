"""A topology around a Spark bolt whose spout, receivers and ackers are played by the test."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Message, Producer
from pyspark.sql import SparkSession

import spark_jobs
from acker_worker.fold import LogRecord, PartitionFold
from acker_worker.ledger import LedgerSettings
from tests.kafka.sdk_rig import Cluster, headers_of, value
from tests.packs import anchor_headers, edges_in, packed, tuples_in, under_seed
from tests.spark.topologies import TIMEOUT_MS
from tuple_tree.anchors import Edges
from tuple_tree.ids import random_ids
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, SpoutAddress, encode_ack_batch
from tuple_tree.names import acks_topic, dead_letters_topic, notices_topic, tuples_topic

next_id = random_ids().__next__


_PACKED = 7
"""Tuples of a record that a test sends."""


def topology_name() -> str:
    return f"spark-{uuid.uuid4().hex[:12]}"


def forget_commit(checkpoint: Path) -> None:
    """Removes the last commit from a checkpoint, as if the driver had died just before it."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def pairs_of(record: Message) -> list[tuple[int, int]]:
    """Root and edge of each anchor of each tuple of a record."""
    return [pair for edges in edges_in(headers_of(record).items()) for pair in edges.items()]


class Outcome:
    """The outcomes of trees, by the fold over the ack log."""

    def __init__(self) -> None:
        self.acked: set[int] = set()
        self.failed: dict[int, str] = {}


class Topics(Cluster):
    """The topics of a topology with one component in Spark."""

    def __init__(self, bootstrap_servers: str, manifest: Manifest, tmp_path: Path) -> None:
        super().__init__(bootstrap_servers, manifest)
        self.create_topics()
        self.kafka: dict[str, Any] = {**self.bootstrap, "log_level": 2}
        self.checkpoint = tmp_path / "checkpoint"

    def received(self, bolt: str = "count") -> list[Message]:
        """The tuples in the inbox of a bolt."""
        return self.records(tuples_topic(self.manifest.topology, bolt))

    def dead_letters(self) -> list[Message]:
        return self.records(dead_letters_topic(self.manifest.topology))


class Stage(Topics):
    """One bolt is in Spark, all others are played.

    Attributes:
        roots: of the tuples that were sent, in order.
    """

    def __init__(self, bootstrap_servers: str, manifest: Manifest, tmp_path: Path) -> None:
        super().__init__(bootstrap_servers, manifest, tmp_path)
        self.roots: list[int] = []
        self._acked: set[tuple[int, int]] = set()
        self._sequences: dict[tuple[str, int], int] = defaultdict(int)
        self._producer = Producer({**self.kafka, "linger.ms": 5})

    def send(self, tuples: Iterable[Sequence[Any]], source: str = "lines", stream: str = "default") -> list[int]:
        """Sends tuples of a spout to the bolt, each a tree of its own; returns their roots."""
        declared = self.manifest.stream(source, stream)
        rows = list(tuples)
        size = _PACKED if declared.codec == "arrow" else 1
        parts = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
        edges = [under_seed([next_id() for _ in part], next_id()) for part in parts]
        trees = [each for some in edges for each in some]
        self.init(trees)
        for part, some in zip(parts, edges, strict=True):
            self.send_record(packed(declared, *part), *some, source=f"{source}/{stream}")
        self.flush()
        return [root for each in trees for root in each]

    def send_record(
        self,
        payload: bytes | None,
        *edges: Edges | bytes,
        source: str | None = "lines/default",
        task: int | None = None,
    ) -> None:
        """Sends one record to the bolt's inbox; edges that are bytes are its `anchors` header as it is."""
        headers: list[Any] = []
        for each in edges:
            headers += [("anchors", each)] if isinstance(each, bytes) else []
        headers += anchor_headers([each for each in edges if not isinstance(each, bytes)])
        if source is not None:
            headers.append(("source", source.encode()))
        tasks = self.manifest.component("split").tasks
        partition = next_id() % tasks if task is None else task
        topic = tuples_topic(self.manifest.topology, "split")
        self._produce(topic, partition, payload, headers)

    def init(self, trees: Iterable[Edges]) -> None:
        """Sends the inits of trees; a tree of several edges for one root is no concern of the tests."""
        inits = [(root, edge) for edges in trees for root, edge in edges.items()]
        self.roots += [root for root, _ in inits]
        spout = SpoutAddress(notices_topic(self.manifest.topology, "lines"), 0, TIMEOUT_MS)
        for partition, some in self._by_partition(inits):
            init_roots, init_vals = np.array(some, dtype=np.uint64).T
            self._batch(partition, "lines/0", spout=spout, init_roots=init_roots, init_vals=init_vals)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def start(self, spark: SparkSession, transform: Any, **settings: Any) -> spark_jobs.RunningQuery:
        """Starts the bolt in Spark."""
        return spark_jobs.bolt(
            spark,
            self.manifest,
            "split",
            transform,
            **{"kafka": self.kafka, "checkpoint": str(self.checkpoint), **settings},
        )

    def drain(self, spark: SparkSession, transform: Any, **settings: Any) -> spark_jobs.RunningQuery:
        """Runs the bolt in Spark over all that is in its inbox."""
        query = self.start(spark, transform, trigger={"availableNow": True}, **settings)
        assert query.wait(120)
        return query

    def values(self, bolt: str = "count", source: str = "split", stream: str = "default") -> list[Any]:
        """The payloads of a bolt's inbox."""
        return [each.values for each in tuples_in(self.received(bolt), self.manifest.stream(source, stream))]

    def ack_received(self, *bolts: str) -> None:
        """Acks everything in the inboxes of these bolts as an SDK bolt would, each edge once."""
        found: list[tuple[int, int]] = []
        for bolt in bolts or ("count",):
            for record in self.received(bolt):
                found += pairs_of(record)
        acks = [pair for pair in dict.fromkeys(found) if pair not in self._acked]
        self._acked.update(acks)
        for partition, some in self._by_partition(acks):
            ack_roots, ack_vals = np.array(some, dtype=np.uint64).T
            self._batch(partition, "count/0", ack_roots=ack_roots, ack_vals=ack_vals)
        self.flush()

    def outcome(self) -> Outcome:
        """Folds the ack log as the ackers do."""
        outcome = Outcome()
        settings = LedgerSettings(self.manifest.tick_ms, self.manifest.max_tree_age_ms, TIMEOUT_MS)
        logs: dict[int, list[LogRecord]] = defaultdict(list)
        for record in self.records(acks_topic(self.manifest.topology)):
            offset, partition = record.offset(), record.partition()
            assert offset is not None
            assert partition is not None
            logs[partition].append(LogRecord(offset, record.timestamp()[1], value(record)))
        for partition, records in logs.items():
            fold = PartitionFold(partition, self.manifest.ack_partitions, settings)
            step = fold.apply(records)
            assert not step.rejected, step.rejected
            for notified in step.outcomes.values():
                outcome.acked |= {int(root) for roots in notified.acked for root in roots}
                outcome.failed |= {root: message for root, _, message, _ in notified.failed}
        return outcome

    def anchored(self, *bolts: str) -> set[int]:
        """The roots of the tuples in the inboxes of bolts."""
        return {root for bolt in bolts or ("count",) for record in self.received(bolt) for root, _ in pairs_of(record)}

    def _by_partition(self, entries: list[tuple[int, int]]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        partitions: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for root, val in entries:
            partitions[root % self.manifest.ack_partitions].append((root, val))
        yield from partitions.items()

    def _batch(self, partition: int, writer: str, **text: Any) -> None:
        self._sequences[writer, partition] += 1
        batch = AckBatch(writer, b"played by tests!", self._sequences[writer, partition], **text)
        self._produce(acks_topic(self.manifest.topology), partition, encode_ack_batch(batch), [])

    def _produce(self, topic: str, partition: int, payload: bytes | None, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, payload, partition=partition, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.05)
