"""A bolt in coroutines: many inputs at a time, each settled in the task's thread, and the inputs of a commit."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    FailTupleError,
    TaskContext,
    TopologyBuilder,
    TopologyError,
    Tuple,
    declare,
)
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.bolt_rig import Lines, rig
from tests.unit.sdk.memory import Bench, execute
from tests.waiting import eventually
from tuple_tree.anchors import SOURCE_HEADER, anchor_headers
from tuple_tree.manifest import Guarantee
from tuple_tree.payloads import encode_tuples, payload_codec


class Waits(AsyncBolt):
    """Each line waits until the test releases it, with its outcome."""

    streams = (declare({"word": str}), declare(["raw"], name="raw", codec="bytes"))
    concurrency = 3

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[str]] = {}
        self.threads: set[int] = set()
        self.collectors: dict[str, AsyncCollector] = {}

    async def prepare_async(self, context: TaskContext) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads.add(threading.get_ident())

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        self.threads.add(threading.get_ident())
        self.collectors[tuple_["line"]] = collector
        collector.reset_timeout()
        self.waiting[tuple_["line"]] = self.loop.create_future()
        outcome = await self.waiting[tuple_["line"]]
        collector.emit((tuple_["line"],))
        if outcome == "raise":
            raise ValueError("refused")
        if outcome == "fail":
            raise FailTupleError("try later")

    async def cleanup_async(self) -> None:
        self.threads.add(threading.get_ident())


@contextmanager
def running(guarantee: Guarantee = "at_least_once", **options: Any) -> Iterator[tuple[Bench, Any, Waits]]:
    bench, task, _ = rig(Waits, guarantee=guarantee, **options)
    task.cleanup()
    # With Kafka's settings, so that it really works on several at a time.
    bench.environment = replace(bench.environment, kafka={"bootstrap.servers": "-"})
    task = bench.bolt("split", 1)
    bolt: Any = task.bolt
    try:
        yield bench, task, bolt
    finally:
        task.cleanup()


def feed(bench: Bench, task: Any, *lines: str, first_root: int = 1) -> None:
    """One record with these lines, each of a tree of its own."""
    codec = payload_codec(bench.topology.manifest.stream("lines", "default"))
    headers = [*anchor_headers([{first_root + n: 100} for n in range(len(lines))]), (SOURCE_HEADER, b"lines/default")]
    execute(task, bench.raw("split", encode_tuples(codec, [(line,) for line in lines]), headers, task=1))


def release(bench: Bench, task: Any, bolt: Waits, line: str, outcome: str = "done") -> None:
    """Ends a line, and waits until the event loop has reported it to the task."""
    eventually(lambda: line in bolt.waiting, f"{line} at work")
    bolt.loop.call_soon_threadsafe(bolt.waiting[line].set_result, outcome)
    eventually(lambda: bolt.collectors[line].is_done, f"{line} ended")
    done = threading.Event()
    bolt.loop.call_soon_threadsafe(done.set)
    assert done.wait(30), "the event loop is stuck"
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


def test_concurrency_limits_running_inputs() -> None:
    with running() as (bench, task, bolt):
        feeding = threading.Thread(target=feed, args=(bench, task, "a", "b", "c", "d"))
        feeding.start()
        eventually(lambda: len(bolt.waiting) == 3, "three at work")
        bolt.loop.call_soon_threadsafe(bolt.waiting["b"].set_result, "done")
        eventually(lambda: "d" in bolt.waiting, "the fourth at work")
        bolt.loop.call_soon_threadsafe(bolt.waiting["d"].set_result, "done")
        feeding.join(30)
        for line in "ac":
            release(bench, task, bolt, line)
        assert acked(bench, task) == {1, 2, 3, 4}


def test_with_exactly_once_records_are_settled_whole_and_in_order() -> None:
    """Inputs after the committed offset have had no effect."""
    with running("exactly_once") as (bench, task, bolt):
        feed(bench, task, "a", "b")
        release(bench, task, bolt, "b")
        feed(bench, task, "c", first_root=3)
        release(bench, task, bolt, "c")
        assert (acked(bench, task), words(bench), task.committable) == (set(), 0, 0)
        release(bench, task, bolt, "a", "fail")
        assert (acked(bench, task), words(bench), task.committable) == ({2, 3}, 2, 2)
        assert bench.sink.failed() == {1: "try later"}


def test_a_stop_waits_for_running_coroutines_and_leaves_the_rest_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spout_sdk.bolts.async_bolt._FINISH_SECONDS", 0.3)
    with running() as (bench, task, bolt):
        feed(bench, task, "a", "b")
        eventually(lambda: len(bolt.waiting) == 2, "both at work")
        bolt.loop.call_soon_threadsafe(bolt.waiting["a"].set_result, "done")
        task.cleanup()
        monkeypatch.setattr(task, "cleanup", lambda: None)
        assert (acked(bench, task), task.open_inputs, bench.sink.failed()) == ({1}, 1, {})
    assert bolt.loop.is_closed()


def test_concurrency_is_a_number() -> None:
    class Never(Waits):
        concurrency = 0

    with pytest.raises(Exception, match="concurrency of an AsyncBolt is 0: it must be a whole number of at least 1"):
        rig(Never)
    with pytest.raises(TopologyError, match="is an AsyncBolt, which has no tick tuples"):
        rig(Waits, tick_interval=1.0)


class Upper(AsyncBolt):
    streams = Waits.streams

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        collector.emit((await asyncio.to_thread(tuple_["line"].upper),))


class Keep(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None: ...


def test_a_simulated_cluster_waits_for_each() -> None:
    builder = TopologyBuilder("upper")
    builder.set_spout("lines", Lines)
    builder.set_bolt("upper", Upper).shuffle_grouping("lines")
    builder.set_bolt("keep", Keep).shuffle_grouping("upper")
    with SimulatedCluster(builder.build(), sources={"lines": [("a",), ("b",)]}) as cluster:
        cluster.run_until_idle()
        assert cluster.executed("keep") == [("A",), ("B",)]
        assert len(cluster.acked("lines")) == 2
