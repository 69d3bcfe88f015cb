"""The records that a task under test has sent, and their delivery reports, which the test holds."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from spout_sdk.testing import MemoryRecord, clients
from tests.packs import edges_in
from tuple_tree.anchors import Edges
from tuple_tree.messages import AckBatch, decode_ack_batch

NOT_DELIVERED = KafkaError(KafkaError._MSG_TIMED_OUT)


@dataclass
class Sent:
    """A record as it was sent."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, Any]]
    on_delivery: Callable[[Any, Any], object] | None
    delivered_at: int | None = None  # how many records had been sent when its delivery was reported

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

    def deliver(self, error: KafkaError | None = None) -> None:
        """Reports the delivery, once; or that the record was not delivered."""
        report, self.on_delivery = self.on_delivery, None
        if report is not None:
            report(error, MemoryRecord(self.topic, self.partition, 0, self.value))


@dataclass
class SentRecords:
    """The records that were sent, in their order; reports are held while it `holds_back`, but those of tuples."""

    holds_back: bool = False
    refuses: KafkaError | None = None  # of the next record, but for tuples
    full_for: set[str] = field(default_factory=set)  # topics for whose next record there is no room at once
    all: list[Sent] = field(default_factory=list)

    def to(self, suffix: str) -> list[Sent]:
        return [sent for sent in self.all if sent.topic.endswith(suffix)]

    @property
    def tuples(self) -> list[Sent]:
        return [sent for sent in self.all if ".tuples." in sent.topic]

    @property
    def batches(self) -> list[AckBatch]:
        """Ack batches, without batches that only open a session."""
        return [batch for batch in (sent.batch for sent in self.to(".acks")) if not batch.opens]

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

    def deliver_all(self) -> None:
        for sent in [*self.all]:
            sent.deliver()


class HoldingProducer(clients.MemoryProducer):
    """Its records are kept, and their reports may be held."""

    def __init__(self, sent: SentRecords, *given: Any) -> None:
        super().__init__(*given)
        self.sent = sent

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Any = None,
        _timestamp: Any = None,
        _unused: int = 0,
        headers: Any = None,
    ) -> None:
        if topic in self.sent.full_for:
            self.sent.full_for.remove(topic)
            raise BufferError
        if self.sent.refuses is not None and ".tuples." not in topic:
            refused, self.sent.refuses = self.sent.refuses, None
            raise KafkaException(refused)
        record = Sent(topic, partition, key, value, [*(headers or [])], on_delivery)

        def report(*given: Any) -> None:
            if not is_held:
                record.delivered_at = len(self.sent.all)
                on_delivery(*given)

        is_held = self.sent.holds_back and ".tuples." not in topic
        super().produce(topic, value, key, partition, on_delivery and report, headers=headers)
        self.sent.all.append(record)


def entries_of(batch: AckBatch) -> Iterator[tuple[int, int]]:
    """Root and val of its inits, acks and marks."""
    for kind in ("init", "ack", "mark"):
        roots, vals = getattr(batch, f"{kind}_roots"), getattr(batch, f"{kind}_vals")
        yield from zip(roots.tolist(), vals.tolist(), strict=True)


def sums(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """root → XOR of its values."""
    found: dict[int, int] = defaultdict(int)
    for root, value in pairs:
        found[root] ^= value
    return dict(found)
