"""The ack log of a topology of its own on a real broker: writes inits and acks, reads notices, runs workers."""

import os
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from acker_worker.stats import WorkerStats
from acker_worker.worker import AckerWorker
from kafka_clients.catalogue import Catalogue
from tests.ack_log import column
from tests.kafka.sdk_rig import QUICK, Cluster, Threaded, headers_of, progress, value
from tests.manifests import bolt, manifest, spout
from tests.waiting import eventually
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, FailReason, SpoutAddress, decode_notice_batch, encode_ack_batch
from tuple_tree.names import (
    acker_group,
    acks_topic,
    component_group,
    dead_letters_topic,
    notices_topic,
    tuples_topic,
)
from tuple_tree.routing import acker_partition

FAST: Final[dict[str, Any]] = {"log_level": 2, "reconnect.backoff.max.ms": 300}
"""A client that reconnects to a restarted broker soon."""
PATIENT_MS: Final = 120_000
"""A message timeout that is longer than any test."""
Notices = dict[int, list[str]]
"""Root → its outcomes, in the order in which they came."""


def manifest_of(topology: str, partitions: int = 2, tick_ms: int = 200, timeout_ms: int = PATIENT_MS) -> Manifest:
    components = (spout("s", tasks=4, timeout_ms=timeout_ms), bolt("b", "s"))
    settings = {"ack_partitions": partitions, "tick_ms": tick_ms, "max_tree_age_ms": 50 * timeout_ms}
    return manifest(*components, topology=topology, **settings)


class AckLog(Cluster):
    """A topology whose spouts and bolts are played by the test; withdrawn at the end."""

    def __init__(
        self, bootstrap_servers: str, partitions: int = 2, tick_ms: int = 200, timeout_ms: int = PATIENT_MS
    ) -> None:
        self.topology = f"t-{uuid.uuid4().hex[:12]}"
        super().__init__(bootstrap_servers, manifest_of(self.topology, partitions, tick_ms, timeout_ms))
        self.kafka: dict[str, Any] = {**FAST, **self.bootstrap}
        self.catalogue = Catalogue(self.kafka)
        self.catalogue.create_topics(self.manifest)
        self.catalogue.publish(self.manifest)
        self.spout = SpoutAddress(notices_topic(self.topology, "s"), 3, timeout_ms)
        self.topic = acks_topic(self.topology)
        self._producer = Producer({**self.kafka, "linger.ms": 1, "enable.idempotence": True})
        self._sequences: dict[int, int] = defaultdict(lambda: -1)
        self._session = uuid.uuid4().bytes
        self._notices: Notices = defaultdict(list)
        settings = {"group.id": f"{self.topology}-test", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20}
        self._consumer = Consumer({**self.kafka, **settings})
        self._consumer.assign([TopicPartition(self.spout.topic, task, 0) for task in range(4)])

    def __enter__(self) -> "AckLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()
        self.catalogue.withdraw(self.topology)

    def send(
        self,
        root: int,
        *,
        init: int | None = None,
        ack: int | None = None,
        fail: str | None = None,
        reset: bool = False,
        to: SpoutAddress | None = None,
    ) -> None:
        """Sends a batch with one entry of each given kind; `flush` waits for it."""
        partition = acker_partition(root, self.manifest.ack_partitions)
        batch = AckBatch(
            **self._begin(partition),
            spout=None if init is None else to or self.spout,
            init_roots=column(*([] if init is None else [root])),
            init_vals=column(*([] if init is None else [init])),
            ack_roots=column(*([] if ack is None else [root])),
            ack_vals=column(*([] if ack is None else [ack])),
            fail_roots=column(*([] if fail is None else [root])),
            fail_messages=() if fail is None else (fail,),
            reset_roots=column(*([root] if reset else [])),
        )
        self.append(partition, encode_ack_batch(batch))

    def _begin(self, partition: int) -> dict[str, Any]:
        self._sequences[partition] += 1
        return {"writer": "test/0", "session": self._session, "sequence": self._sequences[partition]}

    def append(
        self,
        partition: int,
        batch: bytes | None,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        self._producer.produce(self.topic, batch, partition=partition, on_delivery=on_delivery or _must_arrive)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def append_ms(self, partition: int) -> int:
        """Appends an empty batch and returns the broker's time."""
        times, batch = list[int](), encode_ack_batch(AckBatch(**self._begin(partition)))
        self.append(partition, batch, lambda error, message: times.append(_arrived(error, message)))
        self.flush()
        return times[0]

    def wait_ticks(self, ticks: int, partition: int) -> None:
        """Waits until the broker's time is that many ticks on."""
        tick_ms = self.manifest.tick_ms
        tick = self.append_ms(partition) // tick_ms + ticks
        eventually(lambda: self.append_ms(partition) // tick_ms >= tick, f"tick {tick} of the broker's time")

    def complete(self, root: int) -> None:
        """Sends init and ack of a root, and waits until it is acked."""
        self.send(root, init=5, ack=5)
        assert self.await_notices([root])[root] == ["ack"]

    def read_notices(self) -> Notices:
        """All notices so far, the newest included."""
        for message in self._consumer.consume(500, 0.02):
            assert message.error() is None, message.error()
            notice = decode_notice_batch(value(message))
            for root in notice.acked_roots.tolist():
                self._notices[root].append("ack")
            for root, reason in zip(notice.failed_roots.tolist(), notice.fail_reasons.tolist(), strict=True):
                self._notices[root].append(FailReason(reason).word)
        return self._notices

    def await_notices(self, roots: Iterable[int], deadline_s: float = 60.0) -> Notices:
        """Waits until the sent entries have arrived, and for the notices of these roots."""
        self.flush()
        wanted = set(roots)
        eventually(lambda: wanted <= self.read_notices().keys(), f"notices for {len(wanted)} roots", deadline_s)
        return self._notices

    def dead_letters(self) -> list[tuple[bytes | None, dict[str, str]]]:
        """The dead letters so far: value and headers."""
        return [
            (record.value(), {name: text.decode() for name, text in headers_of(record).items()})
            for record in self.records(dead_letters_topic(self.topology))
        ]

    def committed(self) -> dict[int, tuple[int, str]]:
        """Offset and metadata that the ackers' group has committed, by partition."""
        with closing(Consumer({**self.kafka, "group.id": acker_group(self.topology)})) as consumer:
            partitions = [TopicPartition(self.topic, p) for p in range(self.manifest.ack_partitions)]
            return {tp.partition: (tp.offset, tp.metadata or "") for tp in consumer.committed(partitions, timeout=60)}

    @contextmanager
    def member(self) -> Iterator[Consumer]:
        """A member of the bolt's group that owns its task, and commits nothing."""
        group = {"group.id": component_group(self.topology, "b"), "enable.auto.commit": False}
        with closing(Consumer({**FAST, **self.bootstrap, **group, "auto.offset.reset": "earliest"})) as consumer:
            consumer.subscribe([tuples_topic(self.topology, "b")])
            eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the member to own its task")
            yield consumer

    def end_offsets(self) -> dict[int, int]:
        ends = progress(self.bootstrap, acker_group(self.topology), self.topic)
        return {partition: end for partition, (_, end) in ends.items()}

    @contextmanager
    def worker(self, clock: Callable[[], float] = time.monotonic) -> Iterator["WorkerThread"]:
        """A worker in a thread of the test, once all sent entries have arrived; stopped cleanly at the end."""
        self.flush()
        thread = WorkerThread(self, clock)
        try:
            thread.await_partitions()
            yield thread
        finally:
            thread.stop()

    @contextmanager
    def worker_process(self, session_timeout_ms: int = 2_000) -> Iterator["subprocess.Popen[bytes]"]:
        """A worker in a process of its own, by the real command; killed at the end if it still runs."""
        line = [sys.executable, "-m", "acker_cli", "worker", "--topology", self.topology]
        environment = {
            "ACKER_KAFKA__BOOTSTRAP_SERVERS": self.servers,
            "ACKER_KAFKA__SESSION_TIMEOUT_MS": str(session_timeout_ms),
            "ACKER_KAFKA__HEARTBEAT_INTERVAL_MS": "500",
        }
        none = subprocess.DEVNULL
        environment = {**os.environ, **environment}
        with subprocess.Popen(line, env=environment, stdin=none, stdout=none, stderr=none) as process:
            try:
                yield process
            finally:
                process.kill()


class Clock:
    """The monotonic clock, which a test can move on."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class WorkerThread:
    """An acker worker in a thread, with its last statistics and how many there were."""

    def __init__(self, log: AckLog, clock: Callable[[], float] = time.monotonic) -> None:
        self.stats = WorkerStats()
        self.snapshots = 0
        # It is never killed, so the group must not miss it in a pause of the machine.
        kafka = {"heartbeat.interval.ms": 300, **log.kafka, "session.timeout.ms": 12_000}
        self._thread = Threaded(AckerWorker(log.topology, kafka, QUICK, self._keep, clock))

    def await_partitions(self) -> None:
        """Waits until it works."""
        eventually(lambda: self._thread.error or self.stats.partitions, "the worker to own partitions")

    def stop(self) -> None:
        self._thread.stop()
        self._thread.join()

    def await_pending(self, trees: int) -> None:
        """Waits until everything is read and committed, and this number of trees is open."""
        eventually(lambda: settled(self.stats, trees), f"{trees} open trees, all read and committed")

    def await_turns(self) -> None:
        """Waits until its loop has turned a few times."""
        before = self.snapshots
        eventually(lambda: self.snapshots > before + 3, "the worker's loop to turn")

    def _keep(self, stats: WorkerStats) -> None:
        self.stats = stats
        self.snapshots += 1


def settled(stats: WorkerStats, trees: int) -> bool:
    """Whether everything is read and committed, and this number of trees is open."""
    committed = all(one.committed == one.position for one in stats.by_partition)
    return stats.pending == trees and stats.clock_lag_ms == 0 and committed


def _must_arrive(error: KafkaError | None, message: Message) -> None:
    _arrived(error, message)


def _arrived(error: KafkaError | None, message: Message) -> int:
    assert error is None, error
    return message.timestamp()[1]
