"""Reading the ends of partitions: what is kept, what happens without a leader, and one read for many browsers."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, TopicPartition

from acker_worker.errors import BrokerUnreachableError
from inspection.dashboard import recent
from inspection.dashboard.kafka_source import _Cached
from inspection.dashboard.recent import KEPT, RecentFailures, Tail
from inspection.dashboard.source import Shown
from spout_sdk import TopologyBuilder
from tests.unit.sdk.kit_words import Lines
from tuple_tree.codec import encode_notice_batch
from tuple_tree.messages import FailReason, NoticeBatch

TOPIC = "t.notices.lines"


class Ended:
    """The end of a partition."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._partition


class Failed(Ended):
    """A notice of trees that have failed."""

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
    for name in ("errors", "assigned", "records"):
        monkeypatch.setattr(Electing, name, [], raising=False)


def test_a_missing_leader_is_waited_for_and_other_errors_are_raised() -> None:
    """A topic that is new, or whose broker has gone, has no leader for a moment."""
    tail = Tail({}, [(TOPIC, 0)], 10, lambda _message: None)
    Electing.errors.extend([KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
    tail.read()
    ((partition,),) = Electing.assigned
    assert partition.offset == 7
    Electing.errors.append(KafkaError._TIMED_OUT)
    with pytest.raises(BrokerUnreachableError, match=r"the end of t\.notices\.lines could not be read"):
        Tail({}, [(TOPIC, 0)], 10, lambda _message: None).read()


def test_the_latest_failures_are_kept_whichever_partition_is_read_last() -> None:
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


@pytest.mark.parametrize("problem", [None, BrokerUnreachableError("no broker answers")])
def test_what_browsers_ask_for_while_it_is_read_is_read_once(problem: Exception | None) -> None:
    """Else each of them would wait for those before it."""
    begun, go_on, now, reads = threading.Event(), threading.Event(), 0.0, 0

    def read() -> Sequence[Shown]:
        nonlocal now, reads
        reads += 1
        begun.set()
        assert go_on.wait(60)
        now += 7.0
        if problem is not None:
            raise problem
        return [{"read": reads}]

    cached, answers = _Cached(read, lambda: now), list[object]()

    def ask() -> None:
        try:
            answers.append(cached.read())
        except BrokerUnreachableError as error:
            answers.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
        assert begun.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert answers == [[{"read": 1}] if problem is None else "no broker answers"] * 4
    assert reads == 1
    now += 1.0
    ask()
    assert reads == 2
