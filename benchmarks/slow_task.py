"""A bolt with one slow task, behind a shuffle grouping: with shares by the load of the tasks, and in turn.

    python -m benchmarks.slow_task
    python -m benchmarks.slow_task --tasks 8 --slower 100 --rounds 5
    python -m benchmarks.slow_task --quick

A spout keeps `max_spout_pending` trees open, by default the SDK's 10,000. A bolt has four tasks, each in a process of
its own, that wait for a millisecond a tuple; one of them waits ten times as long. Throughput is compared with the sum
of what the tasks can do: what each has executed, by the time in which it was not idle. It is idle between two calls of
`execute` unless the tuple of the second was emitted a tenth of a second before the first ended, or earlier. Busy is the
part of the time in `execute`. Waiting is the time from the emit of a tuple until it is executed. The first seconds,
until the backlogs of the start are gone, are measured apart: until the first statistics are published, every task is
sent as much as the others.
"""

import json
import os
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Self

from benchmarks import harness
from benchmarks.harness import BenchmarkError, Spread
from benchmarks.latency import quantiles
from benchmarks.processes import running_topology
from benchmarks.topics import Topics, broker
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Failure,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)

TOPOLOGY: Final = "benchmarks.slow_task:topology"
_PLAN: Final = "ACKER_BENCHMARK_SLOW_TASK"
_STREAM: Final = declare({"emitted": float})
_TIMEOUT: Final = 120.0  # of a message; the first tuples of the slow task wait for long
_UNDER_WAY: Final = 0.1
_FIGURES: Final = ("tuples_per_second", "of_what_tasks_can_do", "busy", "waiting_p50_ms", "waiting_p99_ms")
_SIDES: Final = {"load aware": True, "in turn": False}


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a round: it takes `seconds` from the first emit, and the last `steady` are the steady state."""

    name: str
    directory: str
    load_aware: bool
    tasks: int
    cost_ms: float
    slower: float
    pending: int | None
    seconds: float
    steady: float

    @classmethod
    def from_environment(cls) -> Self:
        return cls(**json.loads(os.environ[_PLAN]))


def topology() -> Topology:
    plan = Plan.from_environment()
    builder = TopologyBuilder(plan.name, max_spout_pending=plan.pending, message_timeout=_TIMEOUT)
    builder.set_spout("source", Source)
    builder.set_bolt("work", Work, tasks=plan.tasks).shuffle_grouping("source", load_aware=plan.load_aware)
    return builder.build()


class Source(Spout):
    """Emits as fast as `max_spout_pending` lets it, once all processes run."""

    streams = (_STREAM,)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        plan = Plan.from_environment()
        self.collector = collector
        self.go = Path(plan.directory, "go")
        self.ends = 0.0
        self.seconds = plan.seconds
        self.failed = 0

    def next_tuple(self) -> None:
        now = time.monotonic()
        if not self.ends:
            if not self.go.exists():
                return
            self.ends = now + self.seconds
        if now < self.ends:
            self.collector.emit((now,), message_id=1)

    def fail(self, message_id: Any, reason: Failure) -> None:
        self.failed += 1

    def close(self) -> None:
        plan = Plan.from_environment()
        Path(plan.directory, "source").write_text(json.dumps({"ends": self.ends, "failed": self.failed}))


class Work(BasicBolt):
    """Waits for so long a tuple; the last task waits longer."""

    def prepare(self, context: TaskContext) -> None:
        plan = Plan.from_environment()
        slower = plan.slower if context.task == context.tasks - 1 else 1.0
        # A task that moves to another process continues there.
        self.file = Path(plan.directory, f"task-{context.task}-{uuid.uuid4().hex}")
        self.cost = slower * plan.cost_ms / 1e3
        self.calls: list[tuple[float, float, float]] = []

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        began = time.monotonic()
        time.sleep(self.cost)
        self.calls.append((began, began - tuple_.values[0], time.monotonic() - began))

    def cleanup(self) -> None:
        self.file.write_text(json.dumps(self.calls))


def measure(topics: Topics, plan: Plan) -> dict[str, Any]:
    """A round of a plan."""
    with tempfile.TemporaryDirectory() as directory:
        settings = {**asdict(plan), "name": f"slow-{uuid.uuid4().hex[:8]}", "directory": directory}
        with running_topology(topics, TOPOLOGY, {_PLAN: json.dumps(settings)}, {"work": plan.tasks}) as running:
            Path(directory, "go").touch()
            deadline = time.monotonic() + plan.seconds + 1
            while time.monotonic() < deadline:
                running.check()
                time.sleep(0.2)
        topics.delete(settings["name"])
        source = json.loads(Path(directory, "source").read_text())
        tasks = [
            sorted(call for file in Path(directory).glob(f"task-{task}-*") for call in json.loads(file.read_text()))
            for task in range(plan.tasks)
        ]
    ends = source["ends"]
    rows = {"whole": ends - plan.seconds, "steady": ends - plan.steady}
    return {"failed": source["failed"], **{name: _figures(tasks, begins, ends) for name, begins in rows.items()}}


def _figures(tasks: list[list[tuple[float, float, float]]], begins: float, ends: float) -> dict[str, Any]:
    within = [[call for call in calls if begins <= call[0] < ends] for calls in tasks]
    if not all(within):
        raise BenchmarkError("a task executed nothing: make the round longer")
    rates = [len(calls) / (ends - begins) for calls in within]
    able = [len(calls) / (ends - begins - _idle(calls, begins, ends)) for calls in within]
    waited = quantiles([1e3 * waited for calls in within for _, waited, _ in calls])
    return {
        "tuples_per_second": sum(rates),
        "of_what_tasks_can_do": sum(rates) / sum(able),
        "busy": sum(took for calls in within for _, _, took in calls) / (ends - begins) / len(within),
        "waiting_p50_ms": waited["p50"],
        "waiting_p99_ms": waited["p99"],
        "rates": [round(rate, 1) for rate in rates],
    }


def _idle(calls: list[tuple[float, float, float]], begins: float, ends: float) -> float:
    """Seconds in which a task had nothing to execute: what is under way from the spout does not wait for it."""
    idle, free_at = 0.0, begins
    for began, waited, took in calls:
        if waited < began - free_at + _UNDER_WAY:
            idle += began - free_at
        free_at = began + took
    return idle + max(0.0, ends - free_at)


def main() -> None:
    parser = harness.parser(__doc__, "one short round")
    parser.add_argument("--tasks", type=int, default=4, help="4 unless given")
    parser.add_argument("--cost-ms", type=float, default=1.0, help="of a tuple in the other tasks; 1 ms unless given")
    parser.add_argument("--slower", type=float, default=10.0, help="times that the last task needs; 10 unless given")
    parser.add_argument("--pending", type=int, help="max_spout_pending; the default of the SDK unless given")
    parser.add_argument("--seconds", type=float, help="of a round; 90 unless given")
    parser.add_argument("--steady", type=float, help="the last seconds of a round, as steady state; 45 unless given")
    parser.add_argument("--rounds", type=int, help="3 unless given")
    given = parser.parse_args()
    seconds = given.seconds or (40.0 if given.quick else 90.0)
    steady = given.steady or seconds / 2
    rounds = given.rounds or (1 if given.quick else 3)
    host = harness.machine()
    with broker() as topics:
        plans = {
            name: Plan("", "", aware, given.tasks, given.cost_ms, given.slower, given.pending, seconds, steady)
            for name, aware in _SIDES.items()
        }
        taken = harness.in_turn(
            {name: lambda plan=plan: measure(topics, plan) for name, plan in plans.items()},  # type: ignore[misc]
            rounds,
            shown=lambda result: f"{result['steady']['of_what_tasks_can_do']:.3f} of what the tasks can do",
        )
    rows = [
        {
            "shuffle": name,
            "part": part,
            **{key: Spread.of([result[part][key] for result in results], 3) for key in _FIGURES},
            "tuples_per_second_of_tasks": [result[part]["rates"] for result in results],
            "failed": [result["failed"] for result in results],
        }
        for name, results in taken.items()
        for part in ("steady", "whole")
    ]
    aware, in_turn = (median(each["steady"]["tuples_per_second"] for each in taken[name]) for name in _SIDES)
    settings = {"tasks": given.tasks, "cost_ms": given.cost_ms, "slower": given.slower, "seconds": seconds}
    settings |= {"steady": steady, "rounds": rounds, "max_spout_pending": given.pending}
    ratios = {"load aware against in turn": round(aware / in_turn, 2)}
    harness.publish("slow_task", host, rows, settings, harness.directory(given), ratios=ratios)


if __name__ == "__main__":
    harness.run(main)
