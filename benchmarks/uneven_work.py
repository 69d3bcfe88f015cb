"""Uneven work in an `AsyncBolt`: what `exactly_once` costs where inputs end in another order than they began.

    python -m benchmarks.uneven_work
    python -m benchmarks.uneven_work --slow-ms 2000 --share 0.02 --rounds 7
    python -m benchmarks.uneven_work --quick

A spout, an `AsyncBolt` whose inputs take some milliseconds, but for a share that takes a second, and a bolt that does
nothing, a process each, and an acker worker. The guarantees take turns, round by round. A round counts the trees that
are acked within its seconds after a start of three. At best, the slots of the bolt are always in use.
"""

import asyncio
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.processes import RunningTopology, running_topology
from benchmarks.topics import Topics, broker
from spout_sdk import (
    AsyncBolt,
    AsyncCollector,
    BasicBolt,
    BasicCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from tuple_tree.manifest import Guarantee

GUARANTEES: Final[tuple[Guarantee, ...]] = ("at_least_once", "exactly_once")
_WORK: Final = "UNEVEN_WORK"
_STREAM: Final = declare({"number": int})
_START_SECONDS: Final = 3.0
_EVERY: Final = 1_000_003  # a prime: a share of the products of numbers with it is slow, without a pattern
_A_CALL: Final = 100  # emits


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a round, and its guarantee."""

    name: str
    guarantee: Guarantee
    concurrency: int
    pending: int
    fast_ms: float
    slow_ms: float
    share: float

    @property
    def most_per_second(self) -> float:
        """Inputs a second of slots that are always in use."""
        mean_ms = (1 - self.share) * self.fast_ms + self.share * self.slow_ms
        return self.concurrency * 1000 / mean_ms

    def seconds(self, number: int) -> float:
        """How long an input takes."""
        is_slow = number * 7_919 % _EVERY < self.share * _EVERY
        return (self.slow_ms if is_slow else self.fast_ms) / 1000


def _work() -> Work:
    return Work(**json.loads(os.environ[_WORK]))


class Numbers(Spout):
    streams = (_STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self._collector, self._next = collector, 0

    def next_tuple(self) -> None:
        for _ in range(_A_CALL):
            self._collector.emit((self._next,), message_id=self._next)
            self._next += 1


class Uneven(AsyncBolt):
    streams = (_STREAM,)

    def __init__(self) -> None:
        self._work = _work()
        self.concurrency = self._work.concurrency

    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        await asyncio.sleep(self._work.seconds(tuple_["number"]))
        collector.emit((tuple_["number"],))


class End(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


def topology() -> Topology:
    work = _work()
    builder = TopologyBuilder(work.name, guarantee=work.guarantee, max_spout_pending=work.pending, message_timeout=60)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("uneven", Uneven).shuffle_grouping("numbers")
    builder.set_bolt("end", End).shuffle_grouping("uneven")
    return builder.build()


def measure(topics: Topics, work: Work, seconds: float) -> dict[str, float]:
    work = Work(**{**asdict(work), "name": f"uneven-{uuid.uuid4().hex[:8]}"})
    variables = {_WORK: json.dumps(asdict(work))}
    with running_topology(topics, "benchmarks.uneven_work:topology", variables) as running:
        _acked_within(running, _START_SECONDS)
        acked, took = _acked_within(running, seconds)
        if failures := running.failures():
            raise BenchmarkError(f"trees failed, so this measures nothing: {failures}")
        stats = running.runner.stats()
    rate = acked / took
    return {
        "trees_per_s": rate,
        "share_of_slots": rate / work.most_per_second,
        "transactions": stats["uneven"].transactions,
        "rollbacks": stats["uneven"].rollbacks,
    }


def _acked_within(running: RunningTopology, seconds: float) -> tuple[int, float]:
    """How many trees are acked within some seconds, and how many seconds it were."""
    began, before = time.monotonic(), running.runner.stats()["numbers"].acked
    while (took := time.monotonic() - began) < seconds:
        running.check()
        time.sleep(0.2)
    return running.runner.stats()["numbers"].acked - before, took


def main() -> None:
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--rounds", type=int, help="5 unless given")
    parser.add_argument("--seconds", type=float, help="of a round; 15 unless given")
    parser.add_argument("--concurrency", type=int, default=100, help="slots of the bolt's task")
    parser.add_argument("--pending", type=int, default=5_000, help="open trees of the spout")
    parser.add_argument("--fast-ms", type=float, default=20.0, help="what most inputs take")
    parser.add_argument("--slow-ms", type=float, default=1_000.0, help="what a share of them takes")
    parser.add_argument("--share", type=float, default=0.01, help="of slow inputs")
    given = parser.parse_args()
    given.rounds = given.rounds or (1 if given.quick else 5)
    given.seconds = given.seconds or (4.0 if given.quick else 15.0)
    kept_in = harness.directory(given)
    harness.await_idle(kept_in)
    host = harness.machine()
    of = (given.concurrency, given.pending, given.fast_ms, given.slow_ms, given.share)
    with broker() as topics:
        contestants = {each: partial(measure, topics, Work("", each, *of), given.seconds) for each in GUARANTEES}
        results = harness.in_turn(contestants, given.rounds, shown="{0[trees_per_s]:,.0f}/s".format)
    rows: list[dict[str, Any]] = [
        {"guarantee": guarantee, **{key: Spread.of([each[key] for each in rounds], 3) for key in rounds[0]}}
        for guarantee, rounds in results.items()
    ]
    at_least, exactly = (row["trees_per_s"].median for row in rows)
    ratios = {"exactly_once to at_least_once": round(exactly / at_least, 3)}
    settings = {name: getattr(given, name) for name in ("rounds", "seconds", "concurrency", "pending")}
    settings |= {name: getattr(given, name) for name in ("fast_ms", "slow_ms", "share")}
    harness.publish("uneven_work", host, rows, settings, kept_in, ratios=ratios)


if __name__ == "__main__":
    harness.run(main)
