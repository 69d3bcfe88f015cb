"""The loop of a bolt in coroutines: it reads, ticks and stops while its tasks can take no more."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from spout_sdk import AsyncBolt, AsyncCollector, TaskContext, TopologyBuilder, Tuple
from spout_sdk.runtime.bolt_loop import BoltLoop
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.testing import MemoryRecord
from tests.packs import anchor_headers, under_seed
from tests.unit.sdk.bolt_rig import Lines
from tests.unit.sdk.loop_rig import Consumer, LoopSink, Message
from tests.unit.sdk.memory import Bench
from tests.waiting import eventually
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Guarantee

Place = tuple[int, int, int]  # partition, offset and index of a tuple


class Waits(AsyncBolt):
    """Each input waits until the test releases it."""

    concurrency = 2

    def __init__(self, waiting: dict[Place, Callable[[], object]]) -> None:
        self._waiting = waiting

    async def prepare_async(self, context: TaskContext) -> None:
        self._events = asyncio.get_running_loop()

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        released = asyncio.Event()
        release = partial(self._events.call_soon_threadsafe, released.set)
        self._waiting[tuple_.partition, tuple_.offset, tuple_.index] = release
        await released.wait()


class Partitioned(Consumer):
    """Has `partitions`, and for each the records that a test puts `here`."""

    partitions_there = 1

    def __init__(self, rows: int) -> None:
        super().__init__(rows=rows)
        self.here: dict[int, int] = {}  # partition → records
        self.positions: dict[int, int] = {}
        self.asleep: set[int] = set()

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        super().subscribe(topics, **callbacks)
        self.partitions = [TopicPartition(topics[0], each) for each in range(self.partitions_there)]

    def pause(self, partitions: list[TopicPartition]) -> None:
        super().pause(partitions)
        self.asleep.update(each.partition for each in partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        super().resume(partitions)
        self.asleep.difference_update(each.partition for each in partitions)

    def consume(self, limit: int, _timeout: float) -> list[MemoryRecord]:  # type: ignore[override]
        if not self.limits:
            self.on_assign(self, self.partitions)
        self.limits.append(limit)
        read: list[MemoryRecord] = []
        for partition, records in self.here.items():
            if partition not in self.asleep:
                first = self.positions.get(partition, 0)
                taken = range(first, first + records)
                read += [Message("words.tuples.b", partition, each, self.payload, self.headers) for each in taken]
                self.positions[partition] = first + records
        self.here = {partition: records for partition, records in self.here.items() if partition in self.asleep}
        return read


class Limited(Partitioned):
    """Reads no more records at once than it is asked for."""

    def consume(self, limit: int, timeout: float) -> list[MemoryRecord]:  # type: ignore[override]
        rest = {partition: records - limit for partition, records in self.here.items() if records > limit}
        self.here = {partition: min(limit, records) for partition, records in self.here.items()}
        read = super().consume(limit, timeout)
        self.here = {
            partition: rest.get(partition, 0) + self.here.get(partition, 0) for partition in {*rest, *self.here}
        }
        return read


class Rig:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        rows: int,
        tasks: int = 1,
        guarantee: Guarantee = "at_least_once",
        bolt: type[Waits] = Waits,
        consumer: type[Partitioned] = Partitioned,
    ) -> None:
        monkeypatch.setattr(Partitioned, "partitions_there", tasks)
        self.consumer = consumer(rows)
        self.consumer.headers += anchor_headers(under_seed(range(1, rows + 1)))
        monkeypatch.setattr("kafka_clients.group_consumer.Consumer", self.consumer)
        self.waiting: dict[Place, Callable[[], object]] = {}
        builder = TopologyBuilder("words", guarantee=guarantee, ack_partitions=1)
        builder.set_spout("lines", Lines)
        builder.set_bolt("b", partial(bolt, self.waiting), tasks=tasks).shuffle_grouping("lines")
        bench = Bench(builder.build(), sink=LoopSink())
        self.clock = bench.clock
        self.counters = bench.counters
        self.stops = False
        self.step = 0.0  # how long a turn takes
        self.ticked: list[float] = []  # when statistics may be published
        self.sink = sink = cast(Any, bench.sink)
        self.loop = BoltLoop(
            ComponentProcess(
                *(bench.topology, "b", {"bootstrap.servers": "-"}, bench.clock, bench.environment.entropy),
                *(bench.counters, self.ticked.append),
                lambda: self.stops,
            ),
            sink,
        )
        self.loop.turn()

    def started(self, count: int) -> None:
        """Turns until this number of inputs has begun."""

        def turned() -> bool:
            self.clock.advance(self.step)
            self.loop.turn()
            return len(self.waiting) >= count

        eventually(turned, f"{count} inputs begun")
        assert len(self.waiting) == count

    def turns_until(self, condition: Callable[[], object]) -> None:
        def turned() -> object:
            self.clock.advance(self.step)
            self.loop.turn()
            return condition()

        eventually(turned, "a condition of a turn")

    def stop_at_once(self) -> None:
        for task in self.loop.tasks.values():
            task.adapter.stop_timeout = 0.0

    def release(self, *places: Place) -> None:
        for place in places:
            self.waiting[place]()


def test_a_loop_polls_ticks_and_pauses_once_while_a_task_can_take_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, rows=5)
    consumer = rig.consumer
    consumer.here[0] = 2
    rig.started(2)
    read = len(consumer.limits)
    rig.loop.turn()
    assert (len(consumer.limits), consumer.paused) == (read, []), "it is soon to pause, which drops what was fetched"
    for turn in range(1, 4):
        rig.clock.advance(1.1)
        rig.loop.turn()
        assert (len(consumer.limits), consumer.paused, consumer.resumed[1:]) == (read + turn, [0], [])
    assert rig.loop.has_work
    rig.step = 0.01
    for count, index in enumerate(range(5), 3):
        rig.release((0, 0, index))
        rig.started(min(10, count))
    for count, index in enumerate(range(4), 8):
        rig.release((0, 1, index))
        rig.started(min(10, count))
    rig.turns_until(lambda: consumer.resumed[1:] == [0])
    rig.release((0, 1, 4))
    rig.turns_until(lambda: rig.loop.pending == 0)
    rig.loop.end()
    rig.loop.close()
    assert consumer.commits[-1] == 2


def test_other_tasks_go_on_while_one_can_take_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, rows=3, tasks=2)
    rig.consumer.here |= {0: 1, 1: 1}
    rig.started(4)
    rig.step = 0.01
    rig.release((1, 0, 0), (1, 0, 1))
    rig.started(5)
    rig.release((1, 0, 2))
    rig.consumer.here[1] = 1
    rig.clock.advance(1.1)
    rig.started(7)
    assert (rig.consumer.asleep, rig.counters.acked) == ({0}, 3)
    rig.stop_at_once()
    rig.loop.end()
    rig.loop.close()


class Passing:
    """A clock that advances by a tenth of a second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_stop_waits_once_for_all_hung_coroutines(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    rig = Rig(monkeypatch, rows=3, tasks=tasks)
    rig.consumer.here |= dict.fromkeys(range(tasks), 1)
    rig.started(2 * tasks)
    rig.stops = True
    looked = Passing()
    monkeypatch.setattr(rig.loop, "_clock", looked)
    rig.loop.end()
    assert Waits.stop_timeout <= looked.now < Waits.stop_timeout + 1
    rig.loop.close()
    assert len(rig.waiting) == 2 * tasks
    assert (rig.counters.acked, rig.consumer.commits) == (0, [0] * tasks)


def test_a_stop_executes_the_rest_of_a_record_that_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `at_most_once` it is committed already, and would be lost; records behind it are not."""
    rig = Rig(monkeypatch, rows=5, guarantee="at_most_once")
    rig.consumer.here[0] = 3
    rig.started(2)
    rig.stops = True

    def ticked(tick: Callable[[float], None], now: float) -> None:
        rig.release(*rig.waiting)
        tick(now)

    task = rig.loop.tasks[0]
    monkeypatch.setattr(task, "tick", partial(ticked, task.tick))
    rig.loop.end()
    rig.loop.close()
    assert sorted(rig.waiting) == [(0, 0, index) for index in range(5)]
    assert (rig.counters.acked, rig.consumer.commits[-1]) == (5, 1)


@pytest.mark.parametrize("rows", [2, 5])
def test_a_stop_reports_how_many_committed_inputs_did_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rows: int
) -> None:
    rig = Rig(monkeypatch, rows=rows, guarantee="at_most_once")
    rig.consumer.here[0] = 1
    rig.started(2)
    rig.stop_at_once()
    rig.loop.end()
    rig.loop.close()
    assert f"b: up to {rows} tuples of records that were begun, and 0 records" in caplog.text


def test_a_commit_that_fails_loses_nothing_that_was_committed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `at_most_once` other tasks have a record that was begun, and records behind it."""
    rig = Rig(monkeypatch, rows=5, tasks=2, guarantee="at_most_once")
    rig.consumer.here[0] = 3
    rig.started(2)
    rig.clock.advance(1.1)
    rig.loop.turn()
    task = rig.loop.tasks[0]

    def ticked(tick: Callable[[float], None], now: float) -> None:
        rig.release(*rig.waiting)
        tick(now)

    monkeypatch.setattr(task, "tick", partial(ticked, task.tick))
    rig.consumer.here[1] = 1
    rig.consumer.refused = 1
    rig.loop.turn()
    assert rig.loop.tasks[0] is not task
    assert sorted(rig.waiting) == [(0, 0, index) for index in range(5)]
    assert (rig.counters.acked, rig.consumer.assigned) == (5, [1, 0])
    rig.loop.close()


class One(Waits):
    concurrency = 1
    time_limit = 1_800.0


def test_a_coroutine_of_twenty_minutes_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is polled, and statistics are published, every second; its trees and waiting trees are kept alive."""
    rig = Rig(monkeypatch, rows=2, bolt=One)
    consumer, task = rig.consumer, rig.loop.tasks[0]
    consumer.here[0] = 2
    rig.started(1)
    timeout = rig.loop._topology.manifest.spouts[0].timeout_ms / 1000
    polled, began = len(consumer.limits), rig.clock()
    seconds = 1_200
    for _ in range(0, seconds, 5):
        rig.clock.advance(5)
        rig.loop.turn()
    assert len(consumer.limits) - polled >= seconds / 5
    assert len([at for at in rig.ticked if at > began]) >= seconds / 5
    task.flush()
    resets = Counter(root for batch in rig.sink.batches for root in batch.reset_roots.tolist())
    assert resets.keys() == {1, 2}, "of the record that was begun"
    assert min(resets.values()) >= 3 * seconds / timeout
    assert (task.adapter.running_inputs, rig.sink.failed()) == (1, {})
    assert [*rig.loop.stalls(rig.clock())] == [(0.0, "records wait, and none was executed")]
    rig.step = 0.01
    for count, place in enumerate(((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)), 1):
        rig.release(place)
        rig.started(min(4, count + 1))
    rig.turns_until(lambda: rig.counters.acked == 4)
    rig.loop.end()
    rig.loop.close()
    assert (consumer.commits[-1], rig.counters.executed) == (2, 4)


@pytest.mark.parametrize("rows", [1, 2])
def test_inputs_that_take_long_stall_a_task_that_has_no_time_limit_if_others_wait(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(One, "time_limit", None)
    rig = Rig(monkeypatch, rows=rows, bolt=One)
    rig.consumer.here[0] = 1
    rig.started(1)
    for _ in range(3):
        [(seconds, _)] = rig.loop.stalls(rig.clock.advance(60))
    assert seconds == (120 if rows == 2 else 0)
    rig.stop_at_once()
    rig.loop.end()
    rig.loop.close()


def test_a_task_that_can_take_no_more_leaves_large_packs_in_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, rows=1_000, consumer=Limited)
    rig.consumer.here[0] = 200
    rig.started(2)
    rig.step = 0.5
    for _ in range(20):
        rig.clock.advance(rig.step)
        rig.loop.turn()
    task = rig.loop.tasks[0]
    assert (task.adapter.running_inputs, task.open_inputs, task.inputs.open_tuples) == (2, 1, 1_000)
    assert rig.consumer.here[0] >= 198, "records that are read and not begun"
    rig.stop_at_once()
    rig.loop.end()
    rig.loop.close()


class Keyed(Waits):
    ordered_by = "line"


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_stop_commits_what_ends_meanwhile_and_begins_nothing_that_is_read_again(
    monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee
) -> None:
    rig = Rig(monkeypatch, rows=3, bolt=Keyed, guarantee=guarantee)
    rig.consumer.here[0] = 1
    rig.started(1)
    task = rig.loop.tasks[0]
    assert task.adapter.running_inputs == 3
    rig.stops = True

    def ticked(tick: Callable[[float], None], now: float) -> None:
        rig.release(*rig.waiting)
        tick(now)

    monkeypatch.setattr(task, "tick", partial(ticked, task.tick))
    before = len(rig.ticked)
    rig.loop.end()
    rig.loop.close()
    assert len(rig.ticked) > before, "statistics are published during a stop, too"
    last = rig.consumer.kept[0]
    if guarantee == "at_most_once":
        assert (len(rig.waiting), rig.counters.acked, last.offset) == (3, 3, 1)
    else:
        assert (len(rig.waiting), rig.counters.acked, last.offset) == (1, 1, 0)
        assert DoneSet.read(0, (last.metadata or "").partition("done=")[2]).tuples == {0: [(0, 1)]}
