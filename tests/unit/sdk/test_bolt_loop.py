"""How much a bolt's process reads at once, and what it gives back when it is told to stop."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from spout_sdk import BatchBolt, Bolt, OutputCollector, TaskContext, TopologyBuilder, Tuple
from spout_sdk.bolt_loop import BoltLoop
from spout_sdk.bolt_task import BoltTask
from spout_sdk.commits import LARGEST_READ
from spout_sdk.records import TaskEnvironment
from spout_sdk.testing import MemoryRecord
from tests.unit.sdk.bolt_rig import Lines
from tests.unit.sdk.memory import Bench, ManualClock

LARGEST = 10_000


class Slow(Bolt):
    """Takes its time."""

    clock: ManualClock
    seconds: float
    executed: int

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        Slow.executed += 1
        Slow.clock.advance(Slow.seconds)
        self.collector.ack(tuple_)


class SlowBatches(BatchBolt):
    """Takes its time for each tuple of a batch."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        Slow.executed += len(tuples)
        Slow.clock.advance(Slow.seconds * len(tuples))
        self.collector.ack_all(tuples)


class Commits:
    """Says what it was told of."""

    largest_read = LARGEST

    def __init__(self, bench: Bench) -> None:
        self._environment = bench.environment
        self.given_back: list[int | None] = []

    def attach(self, reader: Any, tasks: Mapping[int, BoltTask]) -> None: ...

    def environment(self, partition: int) -> TaskEnvironment:
        return self._environment

    def opened(self, tasks: Mapping[int, BoltTask]) -> None: ...

    def before(self, records: Sequence[Any]) -> None: ...

    def unexecuted(self, records: Sequence[Any]) -> None:
        self.given_back = [record.offset() for record in records]

    def tick(self, now: float) -> None: ...

    def dry(self, now: float) -> None: ...

    def release(self, partitions: Sequence[int]) -> None: ...

    def dropped(self, partitions: Sequence[int]) -> None: ...

    def begin_again(self, why: str) -> None: ...

    def uncommitted(self) -> None: ...

    def close(self) -> None: ...


class Rig:
    """A loop whose inbox says how many records are there for each of its reads, and ends with them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bolt: type[Any], there: list[int]) -> None:
        builder = TopologyBuilder("words", guarantee="at_most_once")
        builder.set_spout("lines", Lines)
        builder.set_bolt("split", bolt).shuffle_grouping("lines")
        self.bench = Bench(builder.build())
        self.there = there
        self.limits: list[int] = []
        self.stopped = False
        self.commits = Commits(self.bench)
        Slow.clock, Slow.seconds, Slow.executed = self.bench.clock, 0.0, 0
        monkeypatch.setattr("spout_sdk.bolt_loop.KafkaReader", self._reader)
        commits: Any = self.commits
        self.loop = BoltLoop(
            self.bench.topology, "split", {}, commits, self.bench.clock, lambda _: None, lambda: self.stopped
        )

    def _reader(self, *_: Any, on_assigned: Any, **__: Any) -> "Rig":
        on_assigned([0])
        return self

    def read(self, limit: int) -> list[MemoryRecord]:
        self.limits.append(limit)
        if not self.there:
            self.stopped = True
            return []
        return [self.bench.record("split", ("a",)) for _ in range(min(limit, self.there.pop(0)))]

    def wait(self, _seconds: float) -> list[MemoryRecord]:
        return []

    def close(self) -> None: ...


def test_reads_grow_while_they_are_full_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Slow, [20_000] * 7)
    rig.loop.run()
    assert rig.limits == [500, 1_000, 2_000, 4_000, 8_000, LARGEST, LARGEST, LARGEST]


def test_a_slow_bolt_is_never_given_a_large_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Quick reads of a few records say nothing of how long a full one would take.
    rig = Rig(monkeypatch, Slow, [1] * 8 + [20_000] * 12 + [1] * 8 + [20_000])
    Slow.seconds = 0.2
    longest, before = 0.0, rig.bench.clock.now
    read = rig.read

    def timed(limit: int) -> list[MemoryRecord]:
        nonlocal longest, before
        longest, before = max(longest, rig.bench.clock.now - before), rig.bench.clock.now
        return read(limit)

    monkeypatch.setattr(rig, "read", timed)
    rig.loop.run()
    assert longest == pytest.approx(LARGEST_READ * Slow.seconds)
    assert rig.limits[-1] <= 8


@pytest.mark.parametrize("bolt", [Slow, SlowBatches])
def test_who_is_told_to_stop_gives_back_what_was_not_executed(monkeypatch: pytest.MonkeyPatch, bolt: type[Any]) -> None:
    rig = Rig(monkeypatch, bolt, [500, 1_000, 2_000, 4_000])
    seconds = iter([0.0] * 3)
    read = rig.read

    def last_is_slow(limit: int) -> list[MemoryRecord]:
        Slow.seconds = next(seconds, 0.01)
        return read(limit)

    monkeypatch.setattr(rig, "read", last_is_slow)
    ended = rig.bench.clock.now + 3
    monkeypatch.setattr(rig.loop, "_stopping", lambda: rig.bench.clock.now >= ended)
    rig.loop.run()
    assert Slow.executed + len(rig.commits.given_back) == 7_500
    assert rig.commits.given_back == list(range(Slow.executed, 7_500))
    assert Slow.executed < 3_500 + 2 * LARGEST_READ
