"""The loop of a bolt in coroutines: it reads, ticks and stops while its tasks can take no more."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from spout_sdk import AsyncBolt, AsyncCollector, TaskContext, Tuple
from spout_sdk.runtime import task_loop
from tests.unit.sdk import loop_rig
from tests.waiting import eventually
from tuple_tree.done_sets import DoneSet
from tuple_tree.manifest import Guarantee

Place = tuple[int, int, int]  # partition, offset and index of a tuple


class Waits(AsyncBolt):
    """Each input waits until the test releases it."""

    concurrency = 2

    def __init__(self, work: Callable[[Tuple, Any], None]) -> None:
        self._work = work

    async def prepare_async(self, context: TaskContext) -> None:
        self._events = asyncio.get_running_loop()

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        released = asyncio.Event()
        self._work(tuple_, partial(self._events.call_soon_threadsafe, released.set))
        await released.wait()


class Rig(loop_rig.Rig):
    """A loop that the test turns, with `reads` of each task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *reads: int, **options: Any) -> None:
        self.waiting: dict[Place, Callable[[], object]] = {}
        self.stops = False
        monkeypatch.setattr(task_loop, "CLIENT_CLASSES", "none")  # as with Kafka, coroutines run at the same time
        settings = {"guarantee": "at_least_once", "bolt": Waits, **options}
        super().__init__([0, *reads], tracked=True, **settings)
        self.step = 0.0  # how long a turn takes
        self.loop.turn()

    def _is_over(self) -> bool:
        return self.stops

    def work(self, tuple_: Tuple, release: Any) -> None:
        self.waiting[tuple_.partition, tuple_.offset, tuple_.index] = release

    def started(self, count: int) -> None:
        """Turns until this number of inputs has begun."""
        self.turns_until(lambda: len(self.waiting) >= count)
        assert len(self.waiting) == count

    def turns_until(self, condition: Callable[[], object]) -> None:
        def turned() -> object:
            self.clock.advance(self.step)
            self.loop.turn()
            return condition()

        eventually(turned, "a condition of a turn")

    def turn(self, seconds: float, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            self.loop.turn()

    def release(self, *places: Place) -> None:
        for place in places:
            self.waiting[place]()

    def release_at_each_tick(self) -> None:
        task = self.loop.tasks[0]
        tick = task.tick

        def ticked(now: float) -> None:
            self.release(*self.waiting)
            tick(now)

        task.tick = ticked  # type: ignore[method-assign]

    def end(self, *, at_once: bool = False) -> None:
        """Ends the loop, with as much time for coroutines as they have, or none."""
        for task in self.loop.tasks.values() if at_once else ():
            task.first.operator.stop_timeout = 0.0
        self.loop.end()
        self.loop.close()


def test_a_loop_polls_ticks_and_pauses_once_while_a_task_can_take_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 2, rows=5)
    consumer = rig.consumer
    rig.started(2)
    read = len(consumer.limits)
    rig.loop.turn()
    assert (len(consumer.limits), consumer.paused) == (read, []), "it is soon to pause, which drops what was fetched"
    for turn in range(1, 4):
        rig.turn(1.1)
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
    rig.end()
    assert consumer.commits[-1] == 2


def test_other_tasks_go_on_while_one_can_take_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 1, rows=3, tasks=2)
    rig.started(4)
    rig.step = 0.01
    rig.release((1, 0, 0), (1, 0, 1))
    rig.started(5)
    rig.release((1, 0, 2))
    rig.consumer.there[1] = [1]
    rig.clock.advance(1.1)
    rig.started(7)
    assert (rig.consumer.asleep, rig.counters.acked) == ({0}, 3)
    rig.end(at_once=True)


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_stop_waits_once_for_all_hung_coroutines(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    rig = Rig(monkeypatch, 1, rows=3, tasks=tasks)
    rig.started(2 * tasks)
    rig.stops = True
    clock = itertools.count(0.0, 0.1).__next__  # advances each time it is read
    monkeypatch.setattr(rig.loop, "_clock", clock)
    rig.loop.end()
    assert Waits.stop_timeout <= clock() < Waits.stop_timeout + 1
    rig.loop.close()
    assert len(rig.waiting) == 2 * tasks
    assert (rig.counters.acked, rig.consumer.commits) == (0, [0] * tasks)


@pytest.mark.parametrize("rows", [2, 5])
def test_a_stop_reports_how_many_committed_inputs_did_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rows: int
) -> None:
    rig = Rig(monkeypatch, 1, rows=rows, guarantee="at_most_once")
    rig.started(2)
    rig.end(at_once=True)
    assert f"b: up to {rows} tuples of records that were begun, and 0 records" in caplog.text


def test_a_commit_that_fails_loses_nothing_that_was_committed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `at_most_once` other tasks have a record that was begun, and records behind it."""
    rig = Rig(monkeypatch, rows=5, tasks=2, guarantee="at_most_once")
    rig.consumer.is_limited = False
    rig.consumer.there[0] = [3]
    rig.started(2)
    rig.turn(1.1)
    task = rig.loop.tasks[0]
    rig.release_at_each_tick()
    rig.consumer.there[1] = [1]
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
    rig = Rig(monkeypatch, 2, rows=2, bolt=One)
    consumer, task = rig.consumer, rig.loop.tasks[0]
    rig.started(1)
    timeout = rig.topology.manifest.spouts[0].timeout_ms / 1000
    polled, began = len(consumer.limits), rig.clock()
    seconds = 1_200
    rig.turn(5, times=seconds // 5)
    assert len(consumer.limits) - polled >= seconds / 5
    assert len([at for at in rig.ticked if at > began]) >= seconds / 5
    task.flush()
    resets = Counter(root for batch in rig.sink.batches for root in batch.reset_roots.tolist())
    assert resets.keys() == {1, 2}, "of the record that was begun"
    assert min(resets.values()) >= 3 * seconds / timeout
    assert (task.first.operator.running_inputs, rig.sink.failed()) == (1, {})
    assert [*rig.loop.stalls(rig.clock())] == [(0.0, "records wait, and none was executed")]
    rig.step = 0.01
    for count, place in enumerate(((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)), 1):
        rig.release(place)
        rig.started(min(4, count + 1))
    rig.turns_until(lambda: rig.counters.acked == 4)
    rig.end()
    assert (consumer.commits[-1], rig.counters.executed) == (2, 4)


@pytest.mark.parametrize("rows", [1, 2])
def test_inputs_that_take_long_stall_a_task_that_has_no_time_limit_if_others_wait(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(One, "time_limit", None)
    rig = Rig(monkeypatch, 1, rows=rows, bolt=One)
    rig.started(1)
    for _ in range(3):
        [(seconds, _)] = rig.loop.stalls(rig.clock.advance(60))
    assert seconds == (120 if rows == 2 else 0)
    rig.end(at_once=True)


def test_a_task_that_can_take_no_more_leaves_large_packs_in_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 200, rows=1_000)
    rig.started(2)
    rig.turn(0.5, times=20)
    task = rig.loop.tasks[0]
    assert (task.first.operator.running_inputs, task.open_inputs, task.inputs.open_tuples) == (2, 1, 1_000)
    assert rig.consumer.there[0][0] >= 198, "records that are read and not begun"
    rig.end(at_once=True)


class Keyed(Waits):
    ordered_by = "line"


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_stop_commits_what_ends_meanwhile_and_begins_nothing_that_is_read_again(
    monkeypatch: pytest.MonkeyPatch, guarantee: Guarantee
) -> None:
    rig = Rig(monkeypatch, 1, rows=3, bolt=Keyed, guarantee=guarantee)
    rig.started(1)
    task = rig.loop.tasks[0]
    assert task.first.operator.running_inputs == 3
    rig.stops = True
    rig.release_at_each_tick()
    before = len(rig.ticked)
    rig.end()
    assert len(rig.ticked) > before, "statistics are published during a stop, too"
    last = rig.consumer.kept[0]
    if guarantee == "at_most_once":
        assert (len(rig.waiting), rig.counters.acked, last.offset) == (3, 3, 1)
    else:
        assert (len(rig.waiting), rig.counters.acked, last.offset) == (1, 1, 0)
        assert DoneSet.read(0, (last.metadata or "").partition("done=")[2]).tuples == {0: [(0, 1)]}
