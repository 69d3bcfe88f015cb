"""A bolt's loop on a consumer whose answers the test chooses."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_clients.client_settings import CLIENT_CLASSES
from spout_sdk import OutputCollector, TopologyBuilder, Tuple, declare
from spout_sdk.records import Headers
from spout_sdk.runtime.bolt_loop import BoltLoop
from spout_sdk.runtime.component_runner import component_loop
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.statistics.stats import Counters
from spout_sdk.testing import MemoryBroker, MemoryRecord
from tests.components import ByHand, InBatches, Sink
from tests.packs import anchor_headers, under_seed
from tests.unit.sdk.bench import Lines
from tests.unit.sdk.sent_records import HoldingProducer, Sent, SentRecords
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import decode_tuples, encode_tuples, payload_codec
from tuple_tree.topics import topic_specs


class Consumer:
    """Has its partitions from the first read on, with `there` records a read of each that is not paused."""

    is_limited = True  # reads no more records of a partition than it is asked for

    def __init__(self, there: dict[int, list[int]] | None = None, errors: Sequence[int] = (), rows: int = 1) -> None:
        self.there = there or {0: []}
        self.payload = encode_tuples(payload_codec(Lines.streams[0]), [("a",)] * rows)
        self.headers: Headers = [("source", b"lines/default")]
        self.errors = [*errors]
        self.clock: Callable[[], float] = lambda: 0.0
        self.wait: Callable[[float], object] = lambda _: None
        self.sent: Callable[[], int] = lambda: 0
        self.waits: list[tuple[float, int]] = []
        self.read_at: list[float] = []
        self.positions: dict[int, int] = defaultdict(int)
        self.refused = 0
        self.limits: list[int] = []
        self.commits: list[int] = []
        self.kept: dict[int, TopicPartition] = {}  # partition → its last commit, with the metadata
        self.member: str | None = "member-1"
        self.assigned: list[int] = []
        self.asleep: set[int] = set()
        self.paused: list[int] = []
        self.resumed: list[int] = []

    def __call__(self, settings: dict[str, Any]) -> "Consumer":
        self.settings = settings
        return self

    @property
    def is_empty(self) -> bool:
        return not any(self.there.values())

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.partitions = [TopicPartition(topics[0], each) for each in self.there]
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def memberid(self) -> str | None:
        return self.member

    def consumer_group_metadata(self) -> str | None:
        return self.member

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 0, 17

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [each.offset for each in partitions]
        if self.limits:
            for each in partitions:
                self.positions[each.partition] = each.offset if each.offset >= 0 else [0, *self.commits][-1]

    def consume(self, limit: int, _timeout: float) -> list[MemoryRecord]:
        if not self.limits:
            self.on_assign(self, self.partitions)
        self.limits.append(limit)
        self.read_at.append(self.clock())
        read: list[MemoryRecord] = []
        for partition, reads in self.there.items():
            if reads and partition not in self.asleep:
                first, count = self.positions[partition], min(limit, reads[0]) if self.is_limited else reads[0]
                offsets = range(first, first + count)
                self.positions[partition] = offsets.stop
                reads[0] -= len(offsets)
                if not reads[0]:
                    del reads[0]
                read += [MemoryRecord("words.tuples.b", partition, at, self.payload, self.headers) for at in offsets]
        return read

    def incremental_unassign(self, _partitions: list[TopicPartition]) -> None: ...

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused += [each.partition for each in partitions]
        self.asleep.update(each.partition for each in partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.resumed += [each.partition for each in partitions]
        self.asleep.difference_update(each.partition for each in partitions)

    def poll(self, seconds: float) -> None:
        """Waits, unless a record is there."""
        self.waits.append((seconds, self.sent()))
        if not any(reads and reads[0] for reads in self.there.values()):
            self.wait(seconds)

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.refused:
            self.refused -= 1
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
        self.commits += [each.offset for each in offsets]
        self.kept.update({each.partition: each for each in offsets})

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [self.kept.get(each.partition, each) for each in partitions]

    def close(self) -> None:
        self.on_revoke(self, self.partitions)


class Scripted(Consumer):
    """Does something else than to read in some of its reads, which are numbered from 1."""

    script: ClassVar[dict[int, Callable[[Any], None]]]
    calls = 0

    def consume(self, limit: int, timeout: float) -> list[MemoryRecord]:
        self.calls += 1
        if self.calls not in self.script:
            return super().consume(limit, timeout)
        self.limits.append(limit)
        self.script[self.calls](self)
        return []


class Regrouping(Scripted):
    """Revokes its partition while a read is executed, and assigns it a read later, from the committed offset."""

    def revoke(self) -> None:
        self.on_revoke(self, self.partitions)
        committed = [0, *self.commits][-1]
        self.there[0].insert(0, self.positions[0] - committed)
        self.positions[0] = committed

    def assign(self) -> None:
        self.on_assign(self, self.partitions)

    script = {3: revoke, 4: assign}


class RevokedConsumer(Scripted):
    """Loses its partition in the third read, and is fenced in the fourth."""

    def lose(self) -> None:
        self.on_lost(self, self.partitions)

    def fence(self) -> None:
        raise KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))

    script = {3: lose, 4: fence}


class Unanswered(Consumer):
    """Its third commit is applied, though the answer is an error."""

    asked = 0

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        super().commit(offsets=offsets, asynchronous=asynchronous)
        self.asked += 1
        if self.asked == 3:
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))


class ManualClock:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        self.now += seconds
        return self.now


def rows_of(sent: Sent) -> int:
    return len(decode_tuples(payload_codec(Emits.streams[0]), sent.value or b""))


Work = Callable[[Tuple, OutputCollector], None]


class Works(ByHand):
    def __init__(self, work: Work) -> None:
        self.work = work

    def execute(self, tuple_: Tuple) -> None:
        self.work(tuple_, self.collector)


class Emits(Works):
    """Emits before it works, but for its first input."""

    streams = (declare({"n": int}),)

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.offset:
            self.collector.emit((tuple_.offset,), anchors=tuple_)
        super().execute(tuple_)


class WorksInBatches(InBatches):
    def __init__(self, work: Work) -> None:
        self.work = work

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        for tuple_ in tuples:
            self.work(tuple_, self.collector)


class Rig:
    """A loop that ends when `stopping` returns true, or when its consumer has no more records."""

    def __init__(
        self,
        there: list[int],
        *,
        bolt: Any = Works,
        guarantee: Guarantee = "at_most_once",
        open_offsets: Sequence[int] = (),
        tasks: int = 1,
        rows: int = 1,
        consumer: type[Consumer] = Consumer,
        tracked: bool = False,
        published: Any = None,
    ) -> None:
        self.consumer = consumer({task: [*there, 0] for task in range(tasks)}, rows=rows)
        if tracked:
            self.consumer.headers += anchor_headers(under_seed(range(1, rows + 1)))
        builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=1)
        builder.set_spout("lines", Lines)
        builder.set_bolt("b", partial(bolt, self.work), tasks=tasks, on_exception="crash").shuffle_grouping("lines")
        if bolt is Emits:
            builder.set_bolt("next", Sink, tasks=2).shuffle_grouping("b")
        self.topology = replace(builder.build(), pack_tuples=100 if bolt is Emits else 1)
        self.counters, self.sink = Counters(), SentRecords()
        self.clock = self.consumer.clock = ManualClock()
        self.consumer.wait = self.clock.advance
        self.executed: list[int] = []
        self.committed_at: list[int] = []
        self.ticked: list[float] = []  # when statistics may be published
        self.seconds: Callable[[int], float] = lambda _: 0.0
        self.stopping: Callable[[], bool] = lambda: False
        self.open_offsets = open_offsets
        self.consumer.sent = lambda: len(self.sink.batches)
        broker = MemoryBroker(topic_specs(self.topology.manifest), int)
        producer = partial(HoldingProducer, self.sink, broker)
        clients = {confluent_kafka.Consumer: self.consumer, confluent_kafka.Producer: producer}
        process = ComponentProcess(
            *(self.topology, "b", {CLIENT_CLASSES: clients}, self.clock, random.Random(1).randbytes, self.counters),
            *(self.ticked.append, self._is_over),
            published=published,
        )
        loop = component_loop(process, "0")
        assert isinstance(loop, BoltLoop)
        self.loop = loop

    def run(self) -> None:
        self.loop.run(self._is_over)

    def _is_over(self) -> bool:
        return self.stopping() or self.consumer.is_empty

    def work(self, tuple_: Tuple, collector: OutputCollector) -> None:
        self.executed.append(tuple_.offset)
        self.committed_at.append(max(self.consumer.commits, default=0))
        self.clock.advance(self.seconds(tuple_.offset))
        if tuple_.offset not in self.open_offsets:
            collector.ack(tuple_)

    def stop_at(self, seconds: float) -> None:
        """Has the loop stop this number of seconds later."""
        at = self.clock() + seconds
        self.stopping = lambda: self.clock() >= at
