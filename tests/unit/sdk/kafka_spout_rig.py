"""A Kafka spout's task over topics in memory; the test chooses the outcomes of its trees."""

from typing import Any

from spout_sdk import FailReason, KafkaSpout, TopologyBuilder
from spout_sdk.delivery.exactly_once import GUARANTEES
from spout_sdk.kafka_spout.source_task import SourceTask
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.testing import MemoryRecord
from tests.components import Sink
from tests.notices import notice_bytes
from tests.unit.sdk.memory import Bench, Sent
from tests.unit.sdk.memory_source import MemorySource, MemoryTopics
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import decode_tuples, payload_codec


class Rig:
    """One task of a spout `lines` over `topics`, with more arguments of `KafkaSpout`; another spout is before it."""

    def __init__(
        self,
        topics: MemoryTopics,
        *,
        task: int = 0,
        tasks: int = 1,
        guarantee: Guarantee = "at_least_once",
        max_pending: int = 10_000,
        seed: int = 1,
        kind: type[KafkaSpout] = KafkaSpout,
        **spout: Any,
    ) -> None:
        self.topics = topics
        names = tuple(dict.fromkeys(at.topic for at in topics.logs))
        builder = TopologyBuilder(
            "t", guarantee=guarantee, ack_partitions=2, message_timeout=2, max_tree_age=8, max_spout_pending=max_pending
        )
        builder.set_spout("first", KafkaSpout("other"))
        builder.set_spout("lines", kind(names, **spout), tasks=tasks)
        builder.set_bolt("see", Sink).shuffle_grouping("lines")
        self.bench = Bench(builder.build(), seed=seed, open_source=self._open)
        self.clock = self.bench.clock
        self._guarantee = GUARANTEES[guarantee]
        self._task = task
        self._seen = self._known = 0
        self._latest: dict[tuple[int, int], int] = {}  # partition and offset → the root of the last attempt
        self.restart()

    def _open(self) -> MemorySource:
        self.source = MemorySource(self.topics)
        return self.source

    def restart(self) -> None:
        """Another process gets the task; the previous one ends without a commit."""
        self.task: SpoutTask = self.bench.spout("lines", self._task)
        self.commits = self._guarantee(
            *("lines", self.bench.sink, self.source.reader, {self._task: self.task}),
            *(self.bench.counters, None, self.clock),
        )

    def tick(self) -> None:
        """As the loop does."""
        self.task.tick(self.clock())
        self.commits.tick(self.clock())

    def stop(self) -> None:
        """Ends the process cleanly."""
        self.commits.release([self._task])
        self.task.close()

    @property
    def source_task(self) -> SourceTask:
        assert isinstance(self.task.source, SourceTask)
        return self.task.source

    def work(self, seconds: float = 0.0) -> None:
        """Runs the steps of the loop until no more is emitted."""
        self.clock.advance(seconds)
        for _ in range(4):  # it emits; it begins to read by position, reads, emits
            self.tick()
            while self.task.emit(64):
                self.tick()
        self.task.flush()

    def emitted(self) -> list[tuple[Any, ...]]:
        """Values emitted since the last call."""
        return [self.values(sent) for sent in self._new()]

    def roots(self) -> list[int]:
        """Roots emitted since the last call."""
        return [self.root(sent) for sent in self._new()]

    def positions(self) -> list[tuple[int, int, int]]:
        """Partition, offset and attempt of the roots emitted since the last call."""
        found = [self.topics.position(root, 1) for root in self.roots()]
        return [(each.partition, each.offset, each.attempt) for each in found]

    def offsets(self) -> list[int]:
        return [offset for _, offset, _ in self.positions()]

    def attempts(self) -> list[int]:
        return [attempt for *_, attempt in self.positions()]

    def notify(
        self,
        *acked: int,
        failed: dict[int, str] | None = None,
        reason: FailReason = FailReason.FAILED,
        partition: int = 0,
    ) -> None:
        """A notice of the latest attempts of offsets of a partition."""
        for sent in self.bench.sink.tuples[self._known :]:
            if sent.edges:
                found = self.topics.position(self.root(sent), 1)
                self._latest[found.partition, found.offset] = self.root(sent)
        self._known = len(self.bench.sink.tuples)
        why = {self._latest[partition, offset]: message for offset, message in (failed or {}).items()}
        self.task.handle(notice([self._latest[partition, offset] for offset in acked], why, reason))

    def fail(self, *offsets: int, reason: FailReason = FailReason.FAILED, partition: int = 0) -> None:
        self.notify(failed=dict.fromkeys(offsets, "no"), reason=reason, partition=partition)

    def letters(self) -> list[tuple[bytes | None, str]]:
        """Value and reason of the dead letters."""
        return [
            (sent.value, sent.header["dead-letter.reason"].decode()) for sent in self.bench.sink.to(".dead-letters")
        ]

    def values(self, sent: Sent) -> tuple[Any, ...]:
        assert sent.value is not None
        name = sent.header["source"].decode().partition("/")[2]
        codec = payload_codec(self.bench.topology.manifest.stream("lines", name))
        (values,) = decode_tuples(codec, sent.value)
        return values

    @staticmethod
    def root(sent: Sent) -> int:
        (root,) = sent.edges
        return root

    def _new(self) -> list[Sent]:
        new = self.bench.sink.tuples[self._seen :]
        self._seen += len(new)
        return new


def notice(
    acked: list[int], failed: dict[int, str] | None = None, reason: FailReason = FailReason.FAILED
) -> MemoryRecord:
    why = {root: (reason, message) for root, message in (failed or {}).items()}
    return MemoryRecord("t.notices.lines", 0, 0, notice_bytes(acked, why))


def filled(*offsets: int, **topics: int) -> MemoryTopics:
    made = MemoryTopics(**(topics or {"source": 1}))
    made.fill("source", 0, offsets)
    return made
