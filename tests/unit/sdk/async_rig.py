"""A task of an `AsyncBolt` that really works on several inputs at a time, whose coroutines the test ends."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from spout_sdk import AsyncBolt, AsyncCollector, FailTupleError, TaskContext, TopologyBuilder, Tuple, declare
from tests.components import Sink, source
from tests.packs import under_seed
from tests.unit.sdk.bench import Bench
from tests.waiting import eventually
from tuple_tree.manifest import Guarantee

LIMIT = 60.0


Jobs = source(declare({"user": str, "n": int}), declare({"user": str, "n": int}, name="json", codec="json"))


class Works(AsyncBolt):
    """Each input runs until the test ends it with an outcome; those of a stubborn user ignore their cancellation."""

    streams = (declare({"n": int}),)
    concurrency = 2
    time_limit = LIMIT
    stop_timeout = 0.0  # no time passes while a task ends

    async def prepare_async(self, context: TaskContext) -> None:
        self.events = asyncio.get_running_loop()
        self.begun: list[int] = []
        self.futures: dict[int, asyncio.Future[str]] = {}
        self.collectors: dict[int, AsyncCollector] = {}
        self.coroutines: dict[int, Any] = {}
        self.threads = {threading.get_ident()}
        self.refused: list[str] = []

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        n = tuple_["n"]
        self.futures[n], self.coroutines[n] = self.events.create_future(), asyncio.current_task()
        self.collectors[n] = collector
        self.threads.add(threading.get_ident())
        if tuple_["user"] == "resetting":
            collector.reset_timeout()
        self.begun.append(n)
        while not self.futures[n].done():
            try:
                await asyncio.shield(self.futures[n])
            except asyncio.CancelledError:
                if tuple_["user"] != "stubborn":
                    raise
        try:
            collector.emit((n,))
        except RuntimeError as error:
            self.refused.append(str(error))
        match self.futures[n].result():
            case "raise":
                raise ValueError("refused")
            case "fail":
                raise FailTupleError("try later")
            case "cancel":
                raise asyncio.CancelledError

    def end_all(self) -> None:
        """Runs in the event loop, where futures are created."""
        for future in self.futures.values():
            if not future.done():
                future.set_result("done")


class Rig:
    """A task that executes records with the users of `jobs`, and numbers and roots from 1 on."""

    def __init__(self, bolt: type[Works], guarantee: Guarantee, stream: str, **options: Any) -> None:
        builder = TopologyBuilder("work", guarantee=guarantee, ack_partitions=1)
        builder.set_spout("jobs", Jobs)
        builder.set_bolt("work", bolt, **options).shuffle_grouping("jobs", stream)
        builder.set_bolt("next", Sink).shuffle_grouping("work")
        self.stream, self.jobs = stream, 0
        self.bench = Bench(builder.build(), is_live=True)
        self.task = self.bench.bolt("work")

    @property
    def bolt(self) -> Works:
        return cast(Works, self.task.bolt)

    def feed(self, *users: Any) -> None:
        """Each in a record."""
        for user in users:
            self.record(user)

    def record(self, *users: Any) -> None:
        """Executes a record."""
        numbers = range(self.jobs + 1, self.jobs + 1 + len(users))
        self.jobs += len(users)
        self.bench.pack("work", [*zip(users, numbers, strict=True)], under_seed(numbers), source=f"jobs/{self.stream}")
        self.task.flush()

    def begun(self, *numbers: int) -> None:
        """Waits until exactly these inputs were begun, in any order."""
        self.turn_until(lambda: len(self.bolt.begun) >= len(numbers))
        assert sorted(self.bolt.begun) == sorted(numbers)

    def pass_time(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)
        self.task.flush()

    def end(self, n: int, outcome: str = "done") -> None:
        """Ends the coroutine of an input, and has the task see it."""
        self.turn_until(lambda: n in self.bolt.begun)
        settled = self.settled
        self.bolt.events.call_soon_threadsafe(self.bolt.futures[n].set_result, outcome)
        self.turn_until(lambda: self.settled > settled)

    def end_unseen(self, *numbers: int, outcome: str) -> None:
        """Ends coroutines, and waits until the event loop has reported it, which the task does not see."""
        for n in numbers:
            self.bolt.events.call_soon_threadsafe(self.bolt.futures[n].set_result, outcome)
        coroutines = [self.bolt.coroutines[n] for n in numbers]
        eventually(lambda: all(each is not None and each.done() for each in coroutines), f"{numbers} ended")
        reported = threading.Event()
        self.bolt.events.call_soon_threadsafe(reported.set)
        assert reported.wait(30), "the event loop is stuck"

    @property
    def settled(self) -> int:
        stats = self.task.stats
        return stats.acked + sum(stats.failed.values())

    @property
    def running(self) -> int:
        """Inputs that have begun, or wait for an earlier one with their key."""
        return self.task.stats.pending

    def turn_until(self, condition: Any) -> None:
        """Has the task see what has ended, while hardly any time passes."""

        def turned() -> Any:
            self.pass_time(0.01)
            return condition()

        eventually(turned, "a condition of a turn")

    @property
    def sent(self) -> int:
        """How many tuples were sent."""
        return len(self.bench.sink.to(".next"))

    def acked(self) -> set[int]:
        self.task.flush()
        return {root for batch in self.bench.sink.batches for root in batch.ack_roots.tolist()}

    def failed(self) -> dict[int, str]:
        self.task.flush()
        return self.bench.sink.failed()

    def resets(self) -> Counter[int]:
        self.task.flush()
        return Counter(root for batch in self.bench.sink.batches for root in batch.reset_roots.tolist())


@contextmanager
def running(
    bolt: type[Works] = Works, guarantee: Guarantee = "at_least_once", stream: str = "default", **options: Any
) -> Iterator[Rig]:
    rig = Rig(bolt, guarantee, stream, **options)
    try:
        yield rig
    finally:
        if not rig.bolt.events.is_closed():
            rig.bolt.events.call_soon_threadsafe(rig.bolt.end_all)
        rig.bench.cluster.close()
