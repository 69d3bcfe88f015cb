"""Bolts that raise, wait and hold inputs now and then, and a hook that raises."""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Final

from spout_sdk import AsyncBolt, AsyncCollector, Bolt, OutputCollector, TaskContext, Tuple, declare
from spout_sdk.hooks import TaskHook
from tests.chaos.arena import PARTS

RARELY: Final = 0.005
_FAST: Final = 0.005
_SLOW: Final = 2.0
_LONG: Final = 1.2
HELD_SECONDS: Final = 5.0
"""How long a `Gather` holds inputs: longer than a transaction with other effects may be open."""
_BAD: Final = 1_000


class InjectedError(Exception):
    pass


def raise_rarely() -> None:
    if random.random() < RARELY:
        raise InjectedError("now and then")


def wait_rarely() -> None:
    """Waits for so long that a bolt polls its group after it, in the middle of a record."""
    if random.random() < RARELY / 2:
        time.sleep(_LONG)


async def work() -> None:
    """Waits some milliseconds, rarely some seconds, and rarely raises then."""
    await asyncio.sleep(_SLOW if random.random() < RARELY else random.expovariate(1 / _FAST))
    raise_rarely()


class AsyncSplit(AsyncBolt):
    """As `split`, for many inputs at a time."""

    concurrency = 50
    streams = (declare({"number": int, "part": int}),)

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        for part in range(PARTS):
            collector.emit((tuple_["number"], part))
        await work()


class Fetch(AsyncBolt):
    """Passes tuples."""

    concurrency = 50
    streams = (declare({"number": int}),)

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        collector.emit(tuple_.values)
        await work()


class Gather(Bolt):
    """Holds inputs for seconds, and passes them together; raises for some of them, each time that they are read."""

    tick_interval = 1.0
    streams = (declare({"number": int, "part": int}),)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.held: list[Tuple] = []
        self.since = 0.0

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.is_tick:
            if self.held and time.monotonic() - self.since > HELD_SECONDS:
                self.pass_all()
            return
        # A replay has another root.
        if any(root % _BAD == 0 for root in tuple_.roots):
            raise InjectedError("a bad tuple")
        self.since = self.since if self.held else time.monotonic()
        self.held.append(tuple_)

    def pass_all(self) -> None:
        while self.held:
            # A hook that raises leaves the others held, until the next tick.
            each = self.held.pop()
            self.collector.emit(each.values, anchors=each)
            self.collector.ack(each)


class RaisingHook(TaskHook):
    """Raises rarely where a bolt acks or fails, and also after `execute` where no inputs are held."""

    def __init__(self, holding: Sequence[str] = ()) -> None:
        self._holding = holding

    def prepare(self, context: TaskContext) -> None:
        self.component = context.component

    def bolt_execute(self, tuple_: Tuple, seconds: float) -> None:
        if self.component not in self._holding:
            raise_rarely()

    def bolt_ack(self, tuple_: Tuple) -> None:
        raise_rarely()

    def bolt_fail(self, tuple_: Tuple, message: str) -> None:
        raise_rarely()
