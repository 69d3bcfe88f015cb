"""A sink and a clock in memory, for driving tasks without Kafka."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from spout_sdk.api.topology import Topology
from spout_sdk.api.tuples import UNKNOWN_STREAM, InputPack
from spout_sdk.bolts.bolt_task import BoltTask
from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from spout_sdk.records import Delivered, Headers, MadeRecord, Sending, TaskEnvironment
from spout_sdk.spouts.spout_task import SpoutTask
from spout_sdk.statistics.stats import Counters
from spout_sdk.testing import MemoryRecord
from tests.packs import anchor_headers, edges_in
from tests.unit.sdk.bench import entries_of, sums
from tuple_tree.anchors import SOURCE_HEADER, Edges
from tuple_tree.messages import AckBatch, decode_ack_batch
from tuple_tree.names import tuples_topic
from tuple_tree.payloads import encode_tuples, payload_codec


@dataclass
class Sent:
    """A record as it was sent."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    on_delivery: Delivered | None

    @property
    def header(self) -> dict[str, Any]:
        return dict(self.headers)

    @property
    def edges(self) -> Edges:
        """Of all its tuples together."""
        return sums(pair for each in edges_in(self.headers) for pair in each.items())

    @property
    def batch(self) -> AckBatch:
        return decode_ack_batch(self.value)

    def deliver(self, error: object = None) -> None:
        if self.on_delivery is not None:
            self.on_delivery(error, None)


@dataclass
class MemorySink:
    """Keeps sent records; reported ones count as delivered immediately unless `holds_back`."""

    holds_back: bool = False
    records_in_flight: int = 0
    tuples: list[Sent] = field(default_factory=list)
    reported: list[Sent] = field(default_factory=list)

    def send(self, *record: *Sending) -> None:
        self.tuples.append(Sent(*record))

    def send_reported(self, *record: *Sending) -> None:
        sent = Sent(*record)
        self.reported.append(sent)
        if not self.holds_back:
            sent.deliver()

    def send_record(self, *record: *Sending) -> None:
        self.send_reported(*record)

    def send_records(self, topic: str, keys: Any, values: Any, headers: Any, reported: Any) -> None:
        for at, value in enumerate(values):
            key, each = None if keys is None else keys[at], [] if headers is None else headers[at]
            self.send_record(topic, -1, key, value, each, partial(reported, at))

    def flush_acks(self, _seconds: float) -> int:
        return 0

    def in_flight(self) -> int:
        return self.records_in_flight

    def is_congested(self) -> bool:
        return self.records_in_flight > 4

    def poll(self) -> None:
        """Everything was reported when it was sent."""

    def flush(self, _seconds: float) -> int:
        return 0

    def deliver_all(self, error: object = None) -> None:
        for sent in self.reported:
            sent.deliver(error)

    def to(self, suffix: str) -> list[Sent]:
        return [sent for sent in [*self.tuples, *self.reported] if sent.topic.endswith(suffix)]

    @property
    def batches(self) -> list[AckBatch]:
        """Ack batches, without batches that only open a session."""
        return [batch for batch in self.all_batches if not batch.opens]

    @property
    def all_batches(self) -> list[AckBatch]:
        return [sent.batch for sent in self.to(".acks")]

    def checksums(self) -> dict[int, int]:
        """root → XOR of all its inits and acks."""
        return sums(pair for batch in self.batches for pair in entries_of(batch))

    def edges(self) -> dict[int, int]:
        """root → XOR of the edges of all sent tuples."""
        return sums(pair for sent in self.tuples for pair in sent.edges.items())

    def failed(self) -> dict[int, str]:
        """root → message of its last fail."""
        return {
            root: message
            for batch in self.batches
            for root, message in zip(batch.fail_roots.tolist(), batch.fail_messages, strict=True)
        }


def open_pack(offset: int, size: int = 1) -> InputPack:
    """A record of this number of tuples, none of them settled."""
    return InputPack(MadeRecord(), UNKNOWN_STREAM, offset, size)


def opened(inputs: InputOffsets, pack: InputPack) -> InputPack:
    """A record that is opened, as a task does that reads it."""
    assert inputs.start(pack.offset)
    inputs.open(pack)
    return pack


def execute(task: BoltTask, *records: MemoryRecord) -> None:
    """Executes records one after another."""
    for record in records:
        task.read(record)
        assert task.run(math.inf)


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        self.now += seconds
        return self.now


class Bench:
    """A topology's tasks around a memory sink; each tuple is sent at once, unless records may carry more."""

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 1,
        holds_back: bool = False,
        open_source: Callable[[], KafkaSource] | None = None,
        sink: MemorySink | None = None,
        pack_tuples: int = 1,
    ) -> None:
        self.topology = replace(topology, pack_tuples=pack_tuples)
        self.sink = sink or MemorySink()
        self.clock = ManualClock()
        self.counters = Counters()
        entropy = random.Random(seed).randbytes
        chained = {bolt.name: Counters() for bolt in topology.manifest.bolts if bolt.is_chained}
        self.environment = TaskEnvironment(self.sink, self.counters, self.clock, entropy, open_source, chained=chained)
        self._offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.holds_back = holds_back

    def bolt(self, name: str, task: int = 0) -> BoltTask:
        is_transactional = self.topology.manifest.guarantee_of(name) == "exactly_once"
        made = BoltTask(self.topology, name, task, replace(self.environment, is_transactional=is_transactional))
        made.open_session()
        made.prepare()
        self.sink.holds_back = self.holds_back
        return made

    def spout(self, name: str, task: int = 0) -> SpoutTask:
        made = SpoutTask(self.topology, name, task, self.environment)
        made.open_session()
        made.open()
        self.sink.holds_back = self.holds_back
        return made

    def record(
        self,
        bolt: str,
        values: tuple[Any, ...],
        edges: Edges | None = None,
        *,
        source: str = "lines/default",
        task: int = 0,
    ) -> MemoryRecord:
        """A record in a bolt's inbox, at the next offset."""
        return self.pack(bolt, [values], [edges or {}], source=source, task=task)

    def pack(
        self,
        bolt: str,
        rows: Sequence[tuple[Any, ...]],
        edges: Sequence[Edges],
        *headers: tuple[str, Any],
        source: str = "lines/default",
        task: int = 0,
    ) -> MemoryRecord:
        """A record of several tuples in a bolt's inbox, at the next offset."""
        codec = payload_codec(self.topology.manifest.stream(*source.split("/")))
        named: Headers = [*anchor_headers(edges), (SOURCE_HEADER, source.encode()), *headers]
        return self.raw(bolt, encode_tuples(codec, rows), named, task=task)

    def raw(self, bolt: str, payload: bytes | None, headers: Headers | None, *, task: int = 0) -> MemoryRecord:
        topic = tuples_topic(self.topology.name, bolt)
        offset = self._offsets[topic, task]
        self._offsets[topic, task] += 1
        return MemoryRecord(topic, task, offset, payload, headers)

    def inbox(self, sent: Sent) -> MemoryRecord:
        """The records sent to a bolt, as its task reads them."""
        offset = self._offsets[sent.topic, sent.partition]
        self._offsets[sent.topic, sent.partition] += 1
        return MemoryRecord(sent.topic, sent.partition, offset, sent.value, sent.headers, sent.key)
