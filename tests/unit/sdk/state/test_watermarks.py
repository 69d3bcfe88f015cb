"""Watermarks by source partition: nothing is late while partitions are in order, and windows close all the same."""

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spout_sdk.state.watermarks import SourceOffsets, Watermarks
from tuple_tree.errors import StateRecordError

IDLE = 20.0


def watermarks(*, lag_ms: int = 0, now: float = 0.0, streams: tuple[str, ...] = ()) -> Watermarks:
    return Watermarks(lag_ms, IDLE, streams=streams, spouts=() if streams else (0,), now=now)


Seen = dict[int, tuple[int, int]]  # partition → offset and time of a tuple
Offsets = dict[int, tuple[int, int]]  # partition → committed offset and end
Step = tuple[float, Seen, Offsets, int | None]  # now, and the watermark after it

SCENARIOS: dict[str, Iterable[Step]] = {
    "the greatest time before the committed offset": [
        (0, {0: (4, 1_000)}, {}, None),
        (0, {0: (9, 2_000)}, {}, None),
        (1, {}, {0: (5, 20)}, 1_000),
        (2, {}, {0: (9, 20)}, 1_000),
        (3, {}, {0: (10, 20)}, 2_000),
    ],
    "a partition without a tuple so far holds everything back": [
        (0, {0: (0, 5_000)}, {0: (1, 9), 1: (0, 3)}, None),
        (500, {}, {}, None),
    ],
    "a partition whose messages are all done holds nothing back after a while, until it has a message again": [
        (0, {0: (0, 5_000)}, {0: (1, 9), 1: (3, 3)}, None),
        (IDLE - 1, {}, {}, None),
        (IDLE, {}, {}, 5_000),
        (IDLE, {0: (1, 6_000)}, {0: (2, 9), 1: (3, 4)}, 5_000),
        (5 * IDLE, {}, {}, 5_000),
    ],
    "the partition that is behind, and the greatest while all are idle": [
        (0, {0: (0, 5_000), 1: (0, 8_000)}, {0: (1, 1), 1: (1, 1)}, 5_000),
        (IDLE, {}, {}, 8_000),
    ],
    "a partition whose tuples go to other tasks holds back what is younger than its last end that is done": chain(
        (
            (at, {0: (at, at)}, {0: (at + 1, 900), 1: (2 * at, 2 * at + 4)}, None if at < 20 else at - 2)
            for at in range(23)
        ),
        # It has a message that fails, and may be one for this task.
        ((at, {0: (at, 10 * at)}, {0: (at + 1, 900), 1: (45, 900)}, 20) for at in range(30, 130)),
    ),
    "a backlog whose tuples go to other tasks holds everything back until it is read": (
        (at, {0: (at, at)}, {0: (at + 1, 900), 1: (at + 1, 100)}, None if at < 99 else at) for at in range(100)
    ),
    # Three minutes later, its first message that is done has no tuple for this task.
    "a partition that continues after an outage holds back what is younger": [
        (0, {0: (0, 5_000), 1: (0, 1_000)}, {0: (1, 1), 1: (1, 90)}, 1_000),
        (180, {}, {0: (1, 1), 1: (2, 90)}, 1_000),
        (181, {}, {}, 1_000),
    ],
}


@pytest.mark.parametrize("steps", SCENARIOS.values(), ids=SCENARIOS)
def test_the_watermark_is(steps: Iterable[Step]) -> None:
    marks = watermarks()
    for now, seen, offsets, expected in steps:
        for partition, (offset, time) in seen.items():
            marks.see(partition, offset, time, now)
        if offsets:
            marks.learn({partition: SourceOffsets(*each) for partition, each in offsets.items()}, now)
        before = marks.value
        assert (marks.advance(now), marks.value) == (expected != before, expected), now


def test_a_stream_without_identities_is_a_source() -> None:
    marks = watermarks(streams=("a/default", "b/default"), lag_ms=100)
    marks.see_stream("a/default", 4_000, 1.0)
    assert not marks.advance(1.0)
    marks.see_stream("b/default", 3_000, 2.0)
    assert marks.advance(2.0)
    assert marks.value == 2_900
    assert marks.advance(1.5 + IDLE + 1.0)
    assert marks.value == 3_900


def test_it_continues_from_its_record() -> None:
    marks = watermarks()
    marks.see(7, 0, 1_000, 0.0)
    marks.see(7, 5, 1_500, 0.0)
    marks.see_stream("a/default", 1_200, 0.0)
    marks.learn({7: SourceOffsets(1, 9)}, 0.0)
    assert marks.advance(0.0)
    after = watermarks(now=50.0)
    after.restore(marks.to_json(), 50.0)
    assert after.value == 1_000
    assert not after.advance(51.0)
    after.learn({7: SourceOffsets(6, 9)}, 60.0)
    after.see_stream("a/default", 1_300, 60.0)
    assert after.advance(60.0)
    assert after.value == 1_300


@pytest.mark.parametrize(
    ("partition", "watermark"),
    [(7, None), (1 << 12, 2_000)],
    ids=["without a leader: it holds everything back", "of a spout that the topology does not have any more"],
)
def test_a_partition_of_the_record_without_offsets(partition: int, watermark: int | None) -> None:
    marks, after = watermarks(), watermarks()
    marks.see(partition, 0, 1_000, 0.0)
    after.restore(marks.to_json(), 0.0)
    after.see(8, 0, 2_000, 0.0)
    after.learn({8: SourceOffsets(1, 1)}, 0.0)
    assert (after.advance(0.0), after.value) == (watermark is not None, watermark)


@pytest.mark.parametrize(
    "record", [b"", b"[]", b'{"version":2}', b'{"version":1,"watermark":"x","partitions":{},"streams":{}}']
)
def test_a_record_that_cannot_be_read_is_an_error(record: bytes) -> None:
    with pytest.raises(StateRecordError, match="not a watermark"):
        watermarks().restore(record, 0.0)


def test_memory_is_bounded_while_a_message_is_stuck() -> None:
    marks = watermarks()
    for offset in range(1, 20_000):
        marks.see(0, offset, offset * 10, 0.0)
    assert len(marks._partitions[0].offsets) <= 1_100
    marks.learn({0: SourceOffsets(10_000, 30_000)}, 0.0)
    assert marks.advance(0.0)
    assert 90_000 < (marks.value or 0) < 100_000, "a little less than without the bound"
    marks.learn({0: SourceOffsets(20_000, 30_000)}, 0.0)
    assert marks.advance(0.0)
    assert marks.value == 199_990


@dataclass
class Partition:
    times: list[int] = field(default_factory=list)
    has_tuple: list[bool] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    started: int = 0
    waiting: list[int] = field(default_factory=list)  # tuples on their way to the task, in any order

    @property
    def committed(self) -> int:
        offset = 0
        while offset in self.done:
            offset += 1
        return offset


class History:
    """Partitions whose messages have the time at which they were sent, a spout, and a task in transactions."""

    def __init__(self, seed: int, partitions: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.partitions = [Partition() for _ in range(partitions)]
        # Tuples of some partitions are rare: most go to other tasks.
        self.shares = [self.chance.choice((0.8, 0.8, 0.03)) for _ in range(partitions)]
        self.applied: set[tuple[int, int]] = set()  # as committed
        self.uncommitted: list[tuple[int, int]] = []
        self.record: bytes | None = None
        self.begin()

    def begin(self) -> None:
        self.marks = watermarks(now=self.now)
        if self.record is not None:
            self.marks.restore(self.record, self.now)

    def send(self) -> None:
        for partition, share in zip(self.partitions, self.shares, strict=True):
            for _ in range(self.chance.choice((0, 0, 1, 3))):
                partition.times.append(int(self.now * 1000))
                partition.has_tuple.append(self.chance.random() < share)

    def emit(self, number: int) -> None:
        partition = self.partitions[number]
        # A failed message is emitted again, long after its successors.
        open_ = [each for each in range(partition.started) if each not in partition.done]
        for offset in self.chance.sample(open_, min(len(open_), self.chance.randrange(3))):
            partition.waiting.append(offset)
        for _ in range(self.chance.randrange(4)):
            if partition.started < len(partition.times):
                partition.waiting.append(partition.started)
                partition.started += 1

    def execute(self, number: int) -> None:
        partition = self.partitions[number]
        self.chance.shuffle(partition.waiting)
        for _ in range(self.chance.randrange(5)):
            if not partition.waiting:
                return
            offset = partition.waiting.pop()
            if self.chance.random() < 0.2:
                continue  # it fails
            if not partition.has_tuple[offset]:
                partition.done.add(offset)
                continue
            at = number, offset
            if at not in self.applied and at not in self.uncommitted:
                late = self.marks.value is not None and partition.times[offset] < self.marks.value
                assert not late, f"partition {number}, offset {offset}"
            self.marks.see(number, offset, partition.times[offset], self.now)
            self.uncommitted.append(at)

    def commit(self) -> None:
        self.applied.update(self.uncommitted)
        for number, offset in self.uncommitted:
            if self.chance.random() < 0.9:  # else its tree fails elsewhere
                self.partitions[number].done.add(offset)
        self.uncommitted = []
        self.record = self.marks.to_json()

    def crash(self) -> None:
        for number, offset in self.uncommitted:
            self.partitions[number].waiting.append(offset)
        self.uncommitted = []
        self.begin()

    def learn(self) -> None:
        commits = [each.committed for each in self.partitions]
        if self.chance.random() < 0.3:
            self.send()
        ends = [len(each.times) for each in self.partitions]
        offsets = {at: SourceOffsets(*each) for at, each in enumerate(zip(commits, ends, strict=True))}
        self.marks.learn(offsets, self.now)

    def step(self, stopped: Collection[int] = ()) -> None:
        self.now += self.chance.choice((0.01, 0.1, 0.5))
        match self.chance.randrange(9):
            case 0 | 1:
                if "producers" not in self.paused:
                    self.send()
            case 2 | 3:
                self.emit(self.chance.randrange(len(self.partitions)))
            case 4 | 5:
                if (number := self.chance.randrange(len(self.partitions))) not in stopped:
                    self.execute(number)
            case 6:
                self.commit()
            case 7:
                self.learn()
                self.marks.advance(self.now)
            case 8:
                if self.chance.random() < 0.1:
                    self.crash()

    paused: frozenset[str] = frozenset()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_nothing_is_late_while_partitions_are_in_order(seed: int, partitions: int) -> None:
    history = History(seed, partitions)
    for round_ in range(12):
        # An outage in which a partition does not advance, and one in which nothing is sent.
        stopped = {history.chance.randrange(partitions)} if round_ % 3 == 1 else set()
        history.paused = frozenset({"producers"}) if round_ % 4 == 3 else frozenset()
        for step in range(100):
            history.step(stopped)
            if step == 30 and round_ % 3 == 1:
                history.now += 3 * IDLE


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_it_reaches_the_last_message_within_the_idle_time_of_the_last_commit(seed: int, partitions: int) -> None:
    history = History(seed, partitions)
    for _ in range(200):
        history.step()
    for number, partition in enumerate(history.partitions):
        for offset in range(len(partition.times)):
            if partition.has_tuple[offset] and (number, offset) not in history.applied:
                history.marks.see(number, offset, partition.times[offset], history.now)
        partition.done.update(range(len(partition.times)))
        partition.started = len(partition.times)
    history.commit()
    if history.chance.random() < 0.5:
        history.crash()
    history.learn()
    for partition in history.partitions:
        partition.done.update(range(len(partition.times)))
    history.now += 1.0
    commits = {at: SourceOffsets(len(each.times), len(each.times)) for at, each in enumerate(history.partitions)}
    history.marks.learn(commits, history.now)
    history.marks.advance(history.now + IDLE + 0.01)  # differences of times are rounded
    with_tuples = [
        (at, offset)
        for at, each in enumerate(history.partitions)
        for offset in range(len(each.times))
        if each.has_tuple[offset]
    ]
    seen = [history.partitions[at].times[offset] for at, offset in with_tuples if (at, offset) in history.applied]
    assert not seen or (history.marks.value or 0) >= max(seen)
