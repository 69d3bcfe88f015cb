"""Inputs that stay open: what is done around them is committed, and nothing that is done happens twice."""

import asyncio
import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from spout_sdk import AsyncBolt, AsyncCollector, TaskContext, Tuple, declare
from spout_sdk.testing import MemoryRecord
from tests.components import ByHand
from tests.packs import under_seed
from tests.unit.sdk.bolt_rig import Split, rig
from tests.unit.sdk.memory import Bench, execute
from tuple_tree.commit_metadata import Commit
from tuple_tree.done_sets import DoneSet


class Collects(ByHand):
    """Holds its inputs until one says go; then emits and acks for all at once."""

    streams = (declare({"word": str}), declare(["raw"], name="raw", codec="bytes"))

    def execute(self, tuple_: Tuple) -> None:
        match tuple_["line"]:
            case "fail":
                self.collector.fail(tuple_, "no use")
            case "raise":
                raise ValueError("a bad line")
            case line:
                self.held.append(tuple_)
                if line == "go":
                    self.go()

    def go(self) -> None:
        held, self.held = self.held, []
        for tuple_ in held:
            self.collector.emit((tuple_["line"],), anchors=tuple_)
        self.collector.ack_all(held)


def pack(bench: Bench, roots: dict[int, str]) -> MemoryRecord:
    """A record of a line for each root; it cannot be read if one is `unreadable`."""
    record = bench.pack("split", [(line,) for line in roots.values()], under_seed(roots), task=1)
    value = record.value() or b""
    return replace(record, value_=value.replace(b"unreadable", b"\xff" * 10))


def dead_letters(bench: Bench) -> int:
    return len(bench.sink.to(".dead-letters"))


def deliver(bench: Bench) -> None:
    """Reports what was held back."""
    for sent in bench.sink.reported:
        sent.deliver()
        sent.on_delivery = None


def outputs(bench: Bench) -> Counter[int]:
    return Counter(root for sent in bench.sink.to(".count") for root in sent.edges)


@pytest.mark.parametrize("line", ["fail", "raise", "unreadable"])
def test_a_failure_is_committed_although_an_older_input_is_held(line: str) -> None:
    bench, task, _ = rig(Collects, guarantee="exactly_once")
    execute(task, *(pack(bench, {root: each}) for root, each in enumerate(("a", line, "b"), 1)))
    done = DoneSet(0, [(1, 2)])
    if line != "unreadable":  # one tuple of a record that cannot be read makes all of it unreadable
        execute(task, pack(bench, {4: "a", 5: line, 6: "b"}))
        done = DoneSet(0, [(1, 2)], {3: [(1, 2)]})
    task.flush()
    assert bench.sink.failed().keys() == ({2} if line == "unreadable" else {2, 5})
    assert (dead_letters(bench), outputs(bench)) == (line == "unreadable", {})
    assert task.inputs.is_repeatable
    assert task.commit(in_transaction=True) == Commit.of(done)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_dead_letter_is_done_when_it_is_delivered(guarantee: Any) -> None:
    bench, task, _ = rig(Collects, guarantee=guarantee, on_exception="dead_letter")
    bench.sink.holds_back = True
    execute(task, *(pack(bench, {root: line}) for root, line in enumerate(("a", "raise", "unreadable"), 1)))
    task.note_done()
    assert (dead_letters(bench), task.commit()) == (2, Commit(0, ""))
    deliver(bench)
    task.note_done()
    deliver(bench)
    assert task.commit() == Commit.of(DoneSet(0, [(1, 3)]))


def test_acks_of_tuples_whose_record_is_open_are_committed_when_they_are_delivered() -> None:
    bench, task, bolt = rig(Collects)
    execute(task, pack(bench, dict.fromkeys(range(6), "a")))
    bench.sink.holds_back = True
    bolt.collector.ack_all(bolt.held[2:4])
    task.note_done()
    bolt.collector.ack(bolt.held[0])
    task.flush()
    assert task.commit() == Commit(0, "")
    deliver(bench)
    assert task.commit() == Commit.of(DoneSet(0, tuples={0: [(2, 4)]})), "the ack of the first was sent after that"
    task.note_done()
    assert task.commit() == Commit.of(DoneSet(0, tuples={0: [(0, 1), (2, 4)]}))


@pytest.mark.parametrize("columns", [False, True])
def test_what_is_done_is_not_executed_again(columns: bool) -> None:
    bench, task, _ = rig(Collects)
    task.resume(0, Commit.of(DoneSet(0, [(1, 2)], {0: [(0, 2), (3, 4)]})).metadata)
    records = [pack(bench, {root: f"line {root}" for root in roots}) for roots in (range(5), range(5, 6), range(6, 7))]
    if columns:
        read = [[] if rows is None else [row[0] for row in rows] for rows in map(task.read_columns, records)]
    else:
        read = [[tuple_[0] for tuple_ in task.read(record)] for record in records]
    assert read == [["line 2", "line 4"], [], ["line 6"]]
    assert task.commit() == Commit.of(DoneSet(0, [(1, 2)], {0: [(0, 2), (3, 4)]}))


def test_a_transaction_waits_for_an_open_input_that_has_emitted() -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    execute(task, *(pack(bench, {root: "a"}) for root in range(3)))
    bolt.collector.emit(("child",), anchors=bolt.held[1])
    task.flush()
    assert not task.inputs.is_repeatable
    bolt.collector.ack(bolt.held[1])
    task.flush()
    assert task.inputs.is_repeatable
    assert task.commit(in_transaction=True) == Commit.of(DoneSet(0, [(1, 2)]))
    bolt.collector.emit(("alone",), anchors=())
    assert not task.inputs.is_repeatable, "it may have been emitted for an input that is open"
    bolt.collector.ack_all([bolt.held[0], bolt.held[2]])
    task.flush()
    assert (task.inputs.is_repeatable, task.committable) == (True, 3)


class Writes(Collects):
    def execute(self, tuple_: Tuple) -> None:
        if tuple_["line"] == "raise":
            self.collector.write(tuple_, "results", b"")
        super().execute(tuple_)


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_a_record_that_was_written_while_an_input_is_open_is_not_committed(on_exception: str) -> None:
    bench, task, _ = rig(Writes, guarantee="exactly_once", on_exception=on_exception)
    execute(task, pack(bench, {1: "a"}), pack(bench, {2: "raise"}))
    task.flush()
    assert (task.committable, task.inputs.is_repeatable) == (0, False)
    execute(task, pack(bench, {3: "go"}))
    task.flush()
    assert (task.committable, task.inputs.is_repeatable, dead_letters(bench)) == (3, True, on_exception != "fail")


def test_a_failure_of_an_input_that_has_expired_is_sent() -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    execute(task, pack(bench, {1: "a"}))
    for _ in range(3):
        task.tick(bench.clock.advance(2 * bench.topology.manifest.max_tree_age_ms / 1000))
    execute(task, pack(bench, {2: "b"}))
    bolt.collector.fail(bolt.held[0], "too late")
    task.flush()
    assert (bench.sink.failed(), task.committable, task.inputs.is_repeatable) == ({1: "too late"}, 1, True)


class Coroutines(AsyncBolt):
    """Each input waits for its outcome."""

    streams = Collects.streams
    concurrency = 5

    async def prepare_async(self, context: TaskContext) -> None:
        self.events = asyncio.get_running_loop()
        self.waiting: dict[int, tuple[asyncio.Future[bool], Any]] = {}

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        future = self.events.create_future()
        self.waiting[tuple_.roots[0]] = future, asyncio.current_task()
        collector.emit((tuple_["line"],))
        if not await future:
            raise ValueError("a bad line")

    async def _end(self, chance: random.Random, raises: float) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        if not self.waiting:
            return
        future, coroutine = self.waiting.pop(chance.choice(list(self.waiting)))
        future.set_result(chance.random() >= raises)
        await asyncio.wait([coroutine])

    def end_one(self, chance: random.Random, raises: float) -> None:
        asyncio.run_coroutine_threadsafe(self._end(chance, raises), self.events).result(30)


class World:
    """A task with transactions, whose processes die and stop."""

    LINES: ClassVar = ("a", "a", "a", "a", "fail", "raise", "unreadable", "go")

    def __init__(self, bolt: Any, seed: int, on_exception: Any) -> None:
        self.chance = random.Random(seed)
        self.bench, task, _ = rig(bolt, guarantee="exactly_once", on_exception=on_exception)
        task.cleanup()
        self.bench.environment = replace(self.bench.environment, kafka={"bootstrap.servers": "-"})
        self.records, self.roots = list[MemoryRecord](), 0
        for _ in range(self.chance.randint(3, 12)):
            roots = range(self.roots, self.roots + self.chance.choice((1, 1, 1, 2, 5)))
            self.records.append(pack(self.bench, {root: self.chance.choice(self.LINES) for root in roots}))
            self.roots = roots.stop
        self.settled, self.fails, self.emits = Counter[int](), Counter[int](), Counter[int]()
        self.committed: tuple[int, str] = (0, "")
        self.begin()

    def begin(self) -> None:
        """A process begins; what the one before has sent since its last commit is gone."""
        self.bench.sink.tuples.clear()
        self.bench.sink.reported.clear()
        self.task: Any = self.bench.bolt("split", 1)
        self.task.resume(*self.committed)
        self.next = self.committed[0]
        self.rest: Any = None

    def turn(self) -> None:
        """Executes some of the next record."""
        if self.rest is None and self.next < len(self.records):
            self.rest = iter(self.task.read(self.records[self.next]))
            self.next += 1
        if self.rest is not None and self.task.execute(self.rest, math.inf):
            self.rest = None

    def commit(self) -> None:
        self.task.flush()
        commit = self.task.commit(in_transaction=True)
        if not self.task.inputs.is_repeatable or commit is None or commit.left_out:
            return
        sink = self.bench.sink
        for batch in sink.batches:
            self.settled.update([*batch.ack_roots.tolist(), *batch.fail_roots.tolist()])
            self.fails.update(batch.fail_roots.tolist())
        self.emits += outputs(self.bench)
        sink.tuples.clear()
        sink.reported.clear()
        self.committed = commit.offset, commit.metadata

    def stop(self) -> None:
        self.task.cleanup()
        self.commit()
        self.begin()

    def work(self, raises: float) -> None:
        """Lets the bolt end one of what it holds."""
        bolt = self.task.bolt
        if isinstance(bolt, Coroutines):
            bolt.end_one(self.chance, raises)
        self.task.tick(self.bench.clock.advance(0.01))

    def live(self) -> None:
        for _ in range(60):
            step = self.chance.random()
            if step < 0.4:
                self.turn()
            elif step < 0.75:
                self.work(0.3)
            elif step < 0.9:
                self.commit()
            elif step < 0.95:
                self.stop()
            else:
                self.task.cleanup()  # only the thread is to end: what is sent is not committed
                self.begin()
        for _ in range(400):
            self.turn()
            self.work(0.0)
            bolt: Any = self.task.bolt
            if self.next == len(self.records) and self.rest is None and isinstance(bolt, Collects):
                bolt.go()
            self.commit()
            if self.committed[0] == len(self.records):
                break
        self.task.cleanup()


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
@pytest.mark.parametrize("bolt", [Collects, Coroutines, Split])
def test_each_input_is_settled_once_whatever_dies_stops_and_raises(bolt: Any, on_exception: str) -> None:
    for seed in range(25):
        world = World(bolt, seed, on_exception)
        world.live()
        assert world.committed[0] == len(world.records), f"seed {seed}: never committed"
        assert world.settled == dict.fromkeys(range(world.roots), 1), f"seed {seed}"
        assert set(world.emits.values()) <= {1}, f"seed {seed}: emitted twice"
        assert not world.emits.keys() & world.fails.keys(), f"seed {seed}: emitted and failed"
