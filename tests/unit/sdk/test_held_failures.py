"""With `exactly_once`: a failure behind an input that is held waits for it, and nothing happens twice."""

import asyncio
import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    Bolt,
    FailTupleError,
    OutputCollector,
    TaskContext,
    Tuple,
    TupleAlreadyDoneError,
    declare,
)
from spout_sdk.testing import MemoryRecord
from tests.packs import anchor_headers, under_seed
from tests.unit.sdk.bolt_rig import Lines, Split, rig
from tests.unit.sdk.memory import Bench, execute
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.payloads import encode_tuples, payload_codec


class Collects(Bolt):
    """Holds its inputs until one says go; then emits and acks for all at once."""

    streams = (declare({"word": str}), declare(["raw"], name="raw", codec="bytes"))

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        line = tuple_["line"]
        if line == "fail":
            self.collector.fail(tuple_, "no use")
            return
        if line == "raise":
            raise ValueError("a bad line")
        if line == "raise FailTupleError":
            raise FailTupleError("try later")
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
    codec = payload_codec(Lines.streams[0])
    headers = [*anchor_headers(under_seed(roots)), (SOURCE_HEADER, b"lines/default")]
    payload = encode_tuples(codec, [(line,) for line in roots.values()])
    if "unreadable" in roots.values():
        payload = payload.replace(b"unreadable", b"\xff" * 10)
    return bench.raw("split", payload, headers, task=1)


def dead_letters(bench: Bench) -> int:
    return len(bench.sink.to(".dead-letters"))


def outputs(bench: Bench) -> Counter[int]:
    return Counter(root for sent in bench.sink.to(".count") for root in sent.edges)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fail", "no use"),
        ("raise", "ValueError: a bad line"),
        ("raise FailTupleError", "try later"),
        ("unreadable", "dead letter"),
    ],
)
@pytest.mark.parametrize("in_one_record", [False, True])
def test_a_failure_waits_for_the_inputs_that_are_held_before_it(line: str, reason: str, in_one_record: bool) -> None:
    bench, task, _ = rig(Collects, guarantee="exactly_once")
    if in_one_record and line != "unreadable":  # one tuple of a record that cannot be read makes all of it unreadable
        execute(task, pack(bench, {1: "a", 2: line, 3: "b"}))
    else:
        execute(task, *(pack(bench, {root: each}) for root, each in enumerate(("a", line, "b"), 1)))
    task.flush()
    assert (bench.sink.failed(), dead_letters(bench), task.committable, task.inputs.is_repeatable) == ({}, 0, 0, True)
    timeout = bench.topology.manifest.spouts[0].timeout_ms / 1000
    for _ in range(2):
        task.tick(bench.clock.advance(timeout / 3 + 0.1))
    task.flush()
    resets = Counter(root for batch in bench.sink.batches for root in batch.reset_roots.tolist())
    assert (resets, task.inputs.is_repeatable) == ({2: 2}, True)
    execute(task, pack(bench, {4: "go"}))
    task.flush()
    assert bench.sink.failed().keys() == {2}
    assert bench.sink.failed()[2].startswith(reason) or "dead letter" in bench.sink.failed()[2]
    assert dead_letters(bench) == (line == "unreadable")
    assert (task.committable, task.inputs.is_repeatable) == (task.inputs.last_started + 1, True)
    assert outputs(bench) == {1: 1, 3: 1, 4: 1}


def test_a_dead_letter_of_an_exception_waits_as_well() -> None:
    bench, task, _ = rig(Collects, guarantee="exactly_once", on_exception="dead_letter")
    execute(task, *(pack(bench, {root: line}) for root, line in enumerate(("a", "raise", "raise"), 1)))
    task.flush()
    assert (dead_letters(bench), task.committable, task.inputs.is_repeatable) == (0, 0, True)
    execute(task, pack(bench, {4: "go"}))
    task.flush()
    assert (dead_letters(bench), task.committable, bench.sink.failed()) == (2, 4, {})


class Writes(Collects):
    def execute(self, tuple_: Tuple) -> None:
        if tuple_["line"] == "raise":
            self.collector.write(tuple_, "results", b"")
        super().execute(tuple_)


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_a_record_that_was_written_for_a_failure_that_waits_is_not_committed(on_exception: str) -> None:
    """The input is read again, and the record would be written twice."""
    bench, task, _ = rig(Writes, guarantee="exactly_once", on_exception=on_exception)
    execute(task, pack(bench, {1: "a"}), pack(bench, {2: "raise"}))
    task.flush()
    assert (task.committable, task.inputs.is_repeatable) == (0, False)
    execute(task, pack(bench, {3: "go"}))
    task.flush()
    assert (task.committable, task.inputs.is_repeatable, dead_letters(bench)) == (3, True, on_exception != "fail")


def test_a_failure_whose_record_expires_is_settled() -> None:
    bench, task, _ = rig(Collects, guarantee="exactly_once", on_exception="dead_letter")
    execute(task, pack(bench, {1: "a"}), pack(bench, {2: "raise"}))
    for _ in range(3):
        task.tick(bench.clock.advance(2 * bench.topology.manifest.max_tree_age_ms / 1000))
    task.flush()
    assert (dead_letters(bench), task.open_inputs, task.committable) == (1, 0, 2)


def test_a_failure_of_an_input_that_has_expired_waits_for_nothing() -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    execute(task, pack(bench, {1: "a"}))
    for _ in range(3):
        task.tick(bench.clock.advance(2 * bench.topology.manifest.max_tree_age_ms / 1000))
    execute(task, pack(bench, {2: "b"}))
    bolt.collector.fail(bolt.held[0], "too late")
    task.flush()
    assert (bench.sink.failed(), list(task.outcomes.held)) == ({1: "too late"}, [])
    assert (task.committable, task.inputs.is_repeatable) == (1, True)


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_failures_wait_for_nothing_with_other_guarantees(guarantee: Any) -> None:
    bench, task, _ = rig(Collects, guarantee=guarantee)
    execute(task, pack(bench, {1: "a", 2: "raise"}), pack(bench, {3: "unreadable"}))
    assert (dead_letters(bench), bench.counters.errors, sum(bench.counters.failed.values())) == (1, 1, 1)


class Coroutines(AsyncBolt):
    """Each input waits for its outcome."""

    streams = Collects.streams
    concurrency = 5

    async def prepare_async(self, context: TaskContext) -> None:
        self.events = asyncio.get_running_loop()
        self.waiting: dict[int, tuple[asyncio.Future[bool], Any]] = {}

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        future = asyncio.get_running_loop().create_future()
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
        while not coroutine.done():
            await asyncio.sleep(0)

    def end_one(self, chance: random.Random, raises: float) -> None:
        asyncio.run_coroutine_threadsafe(self._end(chance, raises), self.events).result(30)


class World:
    """A task with transactions, of which processes die and stop."""

    LINES: ClassVar = ("a", "a", "a", "a", "fail", "raise", "unreadable", "go")

    def __init__(self, bolt: Any, seed: int, on_exception: str) -> None:
        self.chance = random.Random(seed)
        options: Any = {"on_exception": on_exception}
        self.bench, task, _ = rig(bolt, guarantee="exactly_once", **options)
        task.cleanup()
        self.bench.environment = replace(self.bench.environment, kafka={"bootstrap.servers": "-"})
        self.records, self.roots = list[MemoryRecord](), 0
        for _ in range(self.chance.randint(3, 12)):
            size = self.chance.choice((1, 1, 1, 2, 5))
            roots = range(self.roots, self.roots + size)
            self.records.append(pack(self.bench, {root: self.chance.choice(self.LINES) for root in roots}))
            self.roots += size
        self.acks, self.fails, self.emits, self.letters = Counter[int](), Counter[int](), Counter[int](), 0
        self.committed: tuple[int, str] = (0, "")
        self.begin()

    def begin(self) -> None:
        """A process begins; what the one before has sent since its last commit is gone."""
        self.bench.sink.tuples.clear()
        self.bench.sink.reported.clear()
        self.task: Any = self.bench.bolt("split", 1)
        offset, metadata = self.committed
        self.task.resume(offset, metadata)
        self.next = offset
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
        if not self.task.inputs.is_repeatable or self.task.committable is None:
            return
        sink = self.bench.sink
        for batch in sink.batches:
            self.acks.update(batch.ack_roots.tolist())
            self.fails.update(batch.fail_roots.tolist())
        self.emits += outputs(self.bench)
        self.letters += dead_letters(self.bench)
        sink.tuples.clear()
        sink.reported.clear()
        self.committed = self.task.committable, self.task.progress

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
        settled = world.acks + world.fails
        assert settled == dict.fromkeys(range(world.roots), 1), f"seed {seed}"
        assert set(world.emits.values()) <= {1}, f"seed {seed}: emitted twice"
        assert not world.emits.keys() & world.fails.keys(), f"seed {seed}: emitted and failed"


def test_an_emit_that_is_anchored_to_a_failed_input_does_not_send_its_fail_earlier() -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    execute(task, pack(bench, {1: "held"}))
    (failed,) = task.read(pack(bench, {2: "fail"}))
    assert task.execute(iter([failed]), math.inf)
    with pytest.raises(TupleAlreadyDoneError):
        bolt.collector.emit(("late",), anchors=failed)
    task.flush()
    assert not bench.sink.batches
    execute(task, pack(bench, {3: "go"}))
    task.flush()
    assert bench.sink.failed() == {2: "no use"}
    assert outputs(bench) == {1: 1, 3: 1}
