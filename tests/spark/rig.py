"""A topology around a Spark bolt whose spout, receivers and ackers are played by the test."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer
from pyspark.sql import SparkSession

import spark_jobs
from acker_worker.ledger import LedgerSettings
from inspection.observer import Observer
from inspection.view import ComponentView
from tests.ack_log import FoldedLog, Log
from tests.kafka.sdk_rig import Cluster, headers_of, value
from tests.packs import anchor_headers, edges_in, packed, tuples_in, under_seed
from tests.pages import ROOT
from tests.spark.topologies import TIMEOUT_MS
from tests.waiting import eventually
from tuple_tree.anchors import Edges
from tuple_tree.ids import random_ids
from tuple_tree.manifest import Manifest
from tuple_tree.messages import SpoutAddress
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
        self._log = Log()
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

    def send_record(self, payload: bytes, *edges: Edges, source: str = "lines/default") -> None:
        """Sends one record to the bolt's inbox."""
        headers = [*anchor_headers(edges), ("source", source.encode())]
        partition = next_id() % self.manifest.component("split").tasks
        self._produce(tuples_topic(self.manifest.topology, "split"), partition, payload, headers)

    def init(self, trees: Iterable[Edges]) -> None:
        """Sends the inits of trees; a tree of several edges for one root is no concern of the tests."""
        inits = [pair for edges in trees for pair in edges.items()]
        self.roots += [root for root, _ in inits]
        spout = SpoutAddress(notices_topic(self.manifest.topology, "lines"), 0, TIMEOUT_MS)
        self._send_entries("inits", inits, writer="lines/0", spout=spout)

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
        found = [pair for bolt in bolts or ("count",) for record in self.received(bolt) for pair in pairs_of(record)]
        acks = [pair for pair in dict.fromkeys(found) if pair not in self._acked]
        self._acked.update(acks)
        self._send_entries("acks", acks, writer="count/0")
        self.flush()

    def outcome(self) -> FoldedLog:
        """Folds the ack log as the ackers do."""
        settings = LedgerSettings(self.manifest.tick_ms, self.manifest.max_tree_age_ms, TIMEOUT_MS)
        log = FoldedLog(self.manifest.ack_partitions, settings)
        for record in self.records(acks_topic(self.manifest.topology)):
            log.now_ms = record.timestamp()[1]
            log.append(record.partition() or 0, value(record))
        return log

    def anchored(self, *bolts: str) -> set[int]:
        """The roots of the tuples in the inboxes of bolts."""
        return {root for bolt in bolts or ("count",) for record in self.received(bolt) for root, _ in pairs_of(record)}

    def _send_entries(self, kind: str, entries: list[tuple[int, int]], **batch: Any) -> None:
        for partition in range(self.manifest.ack_partitions):
            some = [entry for entry in entries if entry[0] % self.manifest.ack_partitions == partition]
            if some:
                columns: Any = {kind: some}
                value = self._log.send(**columns, **batch).value
                self._produce(acks_topic(self.manifest.topology), partition, value, [])

    def _produce(self, topic: str, partition: int, payload: bytes | None, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, payload, partition=partition, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.05)


def last_figures(kafka: Mapping[str, Any], manifest: Manifest, component: str) -> ComponentView:
    """A component whose driver, of this process, has ended: it does not wait long for its last record."""

    def ended() -> ComponentView | None:
        found = figures(kafka, manifest)[component]
        # Before its first record there is no process either.
        return found if found["totals"]["emitted"] and found["processes"] == 0 else None

    found = eventually(ended, f"the last of {component}")
    assert found is not None
    return found


def figures(kafka: Mapping[str, Any], manifest: Manifest) -> dict[str, ComponentView]:
    """The components by name, at the time of their last record."""
    with closing(Observer(kafka, manifest, back_s=3_600)) as observer:
        observer.read_statistics()
    assert not observer.view.unreadable
    return {each["name"]: each for each in observer.view.snapshot(0)["components"]}


@contextmanager
def started(module: str, *arguments: str, **settings: Any) -> Iterator["subprocess.Popen[Any]"]:
    """A module that runs in a session of its own; its processes, such as Java, end with it."""
    line = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True, **settings) as process:
        try:
            yield process
        finally:
            # Once it is gone, its children may still run.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
