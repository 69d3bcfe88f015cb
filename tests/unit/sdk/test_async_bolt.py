"""A bolt in coroutines: many inputs at a time, each settled in the task's thread, and the inputs of a commit."""

import asyncio
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    ComponentError,
    FailTupleError,
    TaskContext,
    TopologyError,
    Tuple,
    declare,
)
from spout_sdk.testing import MemoryRecord
from tests.packs import under_seed
from tests.unit.sdk.bolt_rig import rig
from tests.unit.sdk.memory import Bench, execute
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import payload_codec


class Waits(AsyncBolt):
    """Each line waits until the test releases it, with its outcome."""

    streams = (declare({"word": str}), declare(["raw"], name="raw", codec="bytes"))
    concurrency = 4

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[str]] = {}
        self.threads: set[int] = set()
        self.collectors: dict[str, AsyncCollector] = {}
        self.coroutines: dict[str, asyncio.Task[Any] | None] = {}

    async def prepare_async(self, context: TaskContext) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads.add(threading.get_ident())

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        self.threads.add(threading.get_ident())
        self.collectors[tuple_["line"]] = collector
        self.coroutines[tuple_["line"]] = asyncio.current_task()
        collector.reset_timeout()
        self.waiting[tuple_["line"]] = self.loop.create_future()
        outcome = await self.waiting[tuple_["line"]]
        collector.emit((tuple_["line"],))
        if outcome == "raise":
            raise ValueError("refused")
        if outcome == "fail":
            raise FailTupleError("try later")
        if outcome == "cancel":
            raise asyncio.CancelledError

    async def cleanup_async(self) -> None:
        self.threads.add(threading.get_ident())


@contextmanager
def running(
    guarantee: Guarantee = "at_least_once", bolt: type[Waits] = Waits, **options: Any
) -> Iterator[tuple[Bench, Any, Any]]:
    bench, task, _ = rig(bolt, guarantee=guarantee, **options)
    task.cleanup()
    # With Kafka's settings, so that it really works on several at a time.
    bench.environment = replace(bench.environment, kafka={"bootstrap.servers": "-"})
    task = bench.bolt("split", 1)
    try:
        yield bench, task, task.bolt
    finally:
        task.cleanup()


@contextmanager
def again(bench: Bench, commit: Any) -> Iterator[tuple[Any, Any]]:
    """The next owner of the task, which continues from a commit."""
    task = bench.bolt("split", 1)
    task.resume(commit.offset, commit.metadata)
    try:
        yield task, task.bolt
    finally:
        task.cleanup()


def record(bench: Bench, *lines: str, first_root: int = 1) -> MemoryRecord:
    """One record with these lines, each of a tree of its own."""
    edges = under_seed(range(first_root, first_root + len(lines)))
    return bench.pack("split", [(line,) for line in lines], edges, task=1)


def feed(bench: Bench, task: Any, *lines: str, first_root: int = 1) -> None:
    execute(task, record(bench, *lines, first_root=first_root))


def settle_reported(bolt: Waits) -> None:
    """Waits until the event loop has reported what has ended."""
    done = threading.Event()
    bolt.loop.call_soon_threadsafe(done.set)
    assert done.wait(30), "the event loop is stuck"


def has_ended(bolt: Waits, line: str) -> bool:
    coroutine = bolt.coroutines[line]
    return coroutine is not None and coroutine.done()


def release(bench: Bench, task: Any, bolt: Waits, line: str, outcome: str = "done") -> None:
    """Ends a line, and waits until the event loop has reported it to the task."""
    eventually(lambda: line in bolt.waiting, f"{line} at work")
    bolt.loop.call_soon_threadsafe(bolt.waiting[line].set_result, outcome)
    eventually(lambda: has_ended(bolt, line), f"{line} ended")
    settle_reported(bolt)
    task.tick(bench.clock.advance(0.01))


def acked(bench: Bench, task: Any) -> set[int]:
    task.flush()
    return {root for batch in bench.sink.batches for root in batch.ack_roots.tolist()}


def words(bench: Bench) -> int:
    return len({sent.value for sent in bench.sink.to(".count")})


def test_inputs_end_in_any_order_and_are_acked_with_their_emits() -> None:
    with running() as (bench, task, bolt):
        feed(bench, task, "a", "b")
        release(bench, task, bolt, "b")
        assert (acked(bench, task), words(bench), task.committable) == ({2}, 1, 0)
        release(bench, task, bolt, "a")
        assert (acked(bench, task), words(bench), task.committable) == ({1, 2}, 2, 1)
        assert {root for batch in bench.sink.batches for root in batch.reset_roots.tolist()} == {1, 2}
        assert bench.sink.failed() == {}
        with pytest.raises(RuntimeError, match="has ended, and its input is acked: await"):
            bolt.collectors["a"].emit(("late",))
    assert len(bolt.threads) == 1
    assert threading.get_ident() not in bolt.threads


def test_an_input_that_raises_fails_and_emits_nothing() -> None:
    with running() as (bench, task, bolt):
        feed(bench, task, "a", "b")
        release(bench, task, bolt, "a", "raise")
        release(bench, task, bolt, "b", "fail")
        task.flush()
        assert bench.sink.failed() == {1: "ValueError: refused", 2: "try later"}
        assert (words(bench), task.committable) == (0, 1)


def test_a_task_with_as_many_running_inputs_as_it_may_have_takes_no_more() -> None:
    with running() as (bench, task, bolt):
        rest = iter(task.read(record(bench, "a", "b", "c", "d", "e")))
        for _ in range(3):
            assert not task.execute(rest, math.inf)
            assert (task.adapter.is_busy, task.adapter.running_inputs, bench.counters.executed) == (True, 4, 4)
        release(bench, task, bolt, "b")
        assert not task.adapter.is_busy
        assert not task.execute(rest, math.inf)
        for line in "cdea":
            release(bench, task, bolt, line)
        assert task.execute(rest, math.inf)
        assert acked(bench, task) == {1, 2, 3, 4, 5}
        assert not task.adapter.running_inputs


def test_values_that_change_after_an_emit_are_sent_as_they_were() -> None:
    values: list[Any] = [""]

    class Reuses(Waits):
        async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
            for number in range(3):
                values[0] = str(number)
                collector.emit(values)
            await super().execute_async(tuple_, collector)

    with running(bolt=Reuses) as (bench, task, bolt):
        feed(bench, task, "a")
        release(bench, task, bolt, "a")
        task.flush()
        codec = payload_codec(Waits.streams[0])
        sent = [codec.decode(each.value or b"")[0] for each in bench.sink.to(".count")]
        assert sent == [[("0",)], [("1",)], [("2",)], [("a",)]]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_inputs_are_settled_as_they_end_and_are_in_the_committed_set(guarantee: Guarantee) -> None:
    """Open inputs have had no effect, so a transaction may end; the next owner executes these only."""
    with running(guarantee) as (bench, task, bolt):
        first, second = record(bench, "a", "b"), record(bench, "c", first_root=3)
        execute(task, first, second)
        release(bench, task, bolt, "b")
        release(bench, task, bolt, "c")
        assert (acked(bench, task), words(bench), task.inputs.is_repeatable) == ({2, 3}, 2, True)
        task.note_done()
        commit = task.commit(in_transaction=guarantee == "exactly_once")
        assert commit.offset == 0
        with again(bench, commit) as (next_task, next_bolt):
            execute(next_task, first, second)
            assert next_task.adapter.running_inputs == 1
            release(bench, next_task, next_bolt, "a", "fail")
            assert (acked(bench, next_task), words(bench), next_task.committable) == ({2, 3}, 2, 2)
        assert bench.sink.failed() == {1: "try later"}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_an_input_that_was_cancelled_has_no_outcome_and_one_that_raised_has(guarantee: Guarantee) -> None:
    with running(guarantee) as (bench, task, bolt):
        first, second = record(bench, "a"), record(bench, "b", "c", first_root=2)
        execute(task, first, second)
        for line in "abc":
            eventually(lambda line=line: line in bolt.waiting, line)  # type: ignore[misc]
        bolt.loop.call_soon_threadsafe(bolt.waiting["a"].set_result, "raise")
        bolt.loop.call_soon_threadsafe(bolt.waiting["b"].set_result, "raise")
        for line in "ab":
            eventually(lambda line=line: has_ended(bolt, line), line)  # type: ignore[misc]
        settle_reported(bolt)
        task.cleanup()
        task.note_done()
        assert bench.sink.failed() == dict.fromkeys({1, 2}, "ValueError: refused")
        assert (task.open_inputs, task.committable, words(bench)) == (1, 1, 0)
        assert task.inputs.is_repeatable
        with again(bench, task.commit(in_transaction=guarantee == "exactly_once")) as (next_task, next_bolt):
            execute(next_task, first, second)
            assert next_task.adapter.running_inputs == 1
            release(bench, next_task, next_bolt, "c")
            assert acked(bench, next_task) == {3}
    assert bolt.loop.is_closed()


def test_a_coroutine_that_ends_as_cancelled_fails_its_input() -> None:
    with running() as (bench, task, bolt):
        feed(bench, task, "a")
        release(bench, task, bolt, "a", "cancel")
        task.flush()
        assert bench.sink.failed() == {1: "execute_async() ended with CancelledError"}


def test_an_exception_that_ends_the_process_ends_it_while_it_stops_as_well() -> None:
    """What the input emitted before must not be committed, as it is read again."""
    with running("exactly_once", on_exception="crash") as (bench, task, bolt):
        feed(bench, task, "a")
        eventually(lambda: "a" in bolt.waiting, "at work")
        bolt.loop.call_soon_threadsafe(bolt.waiting["a"].set_result, "raise")
        eventually(lambda: has_ended(bolt, "a"), "ended")
        settle_reported(bolt)
        with pytest.raises(ComponentError, match="ValueError: refused"):
            task.cleanup()
    assert bolt.loop.is_closed()


def test_concurrency_is_a_number() -> None:
    class Never(Waits):
        concurrency = 0

    with pytest.raises(
        Exception, match="concurrency of bolt 'split', an AsyncBolt, is 0: it must be a whole number of at least 1"
    ):
        rig(Never)
    with pytest.raises(TopologyError, match="is an AsyncBolt, which has no tick tuples"):
        rig(Waits, tick_interval=1.0)
