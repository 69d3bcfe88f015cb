"""Reading the ends of partitions: what is kept of them, and what happens while they have no leader."""

from typing import Any

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, TopicPartition

from acker_worker.errors import BrokerUnreachableError
from inspection.dashboard import recent
from inspection.dashboard.recent import KEPT, RecentFailures, Tail
from spout_sdk import TopologyBuilder
from tests.unit.sdk.kit_words import Lines
from tuple_tree.codec import encode_notice_batch
from tuple_tree.messages import FailReason, NoticeBatch

TOPIC = "t.notices.lines"


class Ended:
    """Says that there is no more."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._partition


class Failed(Ended):
    """A record that says that so many trees have failed."""

    def __init__(self, partition: int, at: int, roots: list[int]) -> None:
        super().__init__(partition)
        self._at = at
        reasons = np.full(len(roots), FailReason.TIMEOUT, np.uint8)
        failed = np.array(roots, np.uint64)
        self._batch = NoticeBatch(0, 0, failed_roots=failed, fail_reasons=reasons, fail_messages=("",) * len(roots))

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self._at

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, self._at

    def value(self) -> bytes:
        return encode_notice_batch(self._batch)


class Electing:
    """A consumer whose brokers answer with errors first."""

    errors: list[int]
    assigned: list[list[TopicPartition]]
    records: list[Ended]

    def __init__(self, _settings: object) -> None:
        pass

    def get_watermark_offsets(self, _partition: TopicPartition, **_: Any) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 5, 17

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned.append(partitions)

    def consume(self, _records: int, _seconds: float) -> list[Ended]:
        return [*self.records, *(Ended(each.partition) for each in self.assigned[-1])]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def electing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "Consumer", Electing)
    monkeypatch.setattr(Electing, "errors", [], raising=False)
    monkeypatch.setattr(Electing, "assigned", [], raising=False)
    monkeypatch.setattr(Electing, "records", [], raising=False)


def tail() -> Tail:
    return Tail({}, [(TOPIC, 0)], 10, lambda _message: None)


def test_a_leader_is_waited_for() -> None:
    """A topic that is new, or whose broker has gone, has none for a moment."""
    Electing.errors.extend([KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
    tail().read()
    ((partition,),) = Electing.assigned
    assert partition.offset == 7


def test_other_errors_are_told() -> None:
    Electing.errors.append(KafkaError._TIMED_OUT)
    with pytest.raises(BrokerUnreachableError, match=r"the end of t\.notices\.lines could not be read"):
        tail().read()


def test_the_latest_failures_are_kept_whichever_partition_is_read_last() -> None:
    """Partitions are fetched one after the other, and each is read from a while ago on."""
    builder = TopologyBuilder("t")
    builder.set_spout("lines", Lines, tasks=2)
    Electing.records.append(Failed(0, 9_000, [1, 2]))
    Electing.records.extend(Failed(1, 1_000 + at, [10 + at]) for at in range(KEPT))
    failures = RecentFailures({}, builder.build().manifest)
    found = failures.read()
    assert len(found) == KEPT
    assert [(each["root"], each["task"]) for each in found[:3]] == [
        (f"{2:016x}", 0),
        (f"{1:016x}", 0),
        (f"{9 + KEPT:016x}", 1),
    ]
    Electing.records[:] = [Failed(0, 9_001, [3])]
    assert [each["root"] for each in failures.read()[:2]] == [f"{3:016x}", f"{2:016x}"]
