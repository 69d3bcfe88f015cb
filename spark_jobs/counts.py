"""What micro-batches have written, and what a component has done since its driver started."""

import os
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pyspark import Accumulator, SparkContext

from spark_jobs.outcomes import Outcomes
from tuple_tree.manifest import Component
from tuple_tree.messages import FailReason

_COUNTED = ("executed", "acks", "dead", "emitted", "transferred", "failed")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of a micro-batch.

    Attributes:
        rows: inputs.
        tuples: deliveries, one for each recipient of each row.
        acks: anchors of the inputs, each with an entry in the ack log.
        failed: rows that `transform` marked, or that could not be encoded.
        dead: inputs that could not be used.
        seconds: how long writing took.
        emitted: rows that were emitted; None where the deliveries do not tell, because some rows have more than others,
            or none.
        acked: inputs of a bolt that were acked; None where rows failed, and it is not known how many inputs these are.
    """

    rows: int
    tuples: int
    acks: int
    failed: int
    dead: int
    seconds: float
    emitted: int | None = None
    acked: int | None = None


class Counts:
    """What executors count; a task that is tried again may be counted twice."""

    def __init__(self, spark: SparkContext) -> None:
        self._counted: dict[str, Accumulator[int]] = {name: spark.accumulator(0) for name in _COUNTED}

    def __call__(self, name: str, more: int) -> None:
        """Called on executors."""
        self._counted[name].add(more)

    def values(self) -> dict[str, int]:
        return {name: each.value for name, each in self._counted.items()}


class Tally:
    """The totals of a component, in the form of `spout_sdk.Stats`; thread-safe.

    A micro-batch counts when it is written. One that a driver wrote, and died before Spark noted its end, is written
    and counted by the next driver as well.
    """

    def __init__(self, component: Component) -> None:
        self._component = component
        self._lock = threading.Lock()
        self._transferred = self._executed = self._failed = self._dead = 0
        # None from the first micro-batch on whose count is not known.
        self._emitted: int | None = 0
        self._acked: int | None = 0

    def add(self, result: BatchResult) -> None:
        with self._lock:
            self._transferred += result.tuples
            self._executed += result.rows - result.dead
            self._failed += result.failed
            self._dead += result.dead
            self._emitted = _sum(self._emitted, result.emitted)
            self._acked = _sum(self._acked, result.acked)

    def stats(self) -> dict[str, Any]:
        """The counts, without those that are not known; `failed` are rows of the result."""
        with self._lock:
            stats = {
                "component": self._component.name,
                "pids": [os.getpid()],
                # One driver does the work of all tasks.
                "tasks": list(range(self._component.tasks)),
                # Readers of earlier versions need latencies, also where none are measured.
                "complete_latency": {},
                "execute_latency": {},
                "process_latency": {},
                "emitted": self._emitted,
                "transferred": self._transferred,
                "executed": self._executed,
                "acked": self._acked,
                "failed": {FailReason.FAILED.word: self._failed} if self._failed else {},
                "dead_letters": self._dead,
            }
        return {name: count for name, count in stats.items() if count is not None}


class SpoutTally(Tally):
    """The totals of a spout, with the outcomes of its trees; without acking, what is emitted is acked."""

    def __init__(self, component: Component, acking: bool, outcomes: Outcomes) -> None:
        super().__init__(component)
        self._acking = acking
        self._outcomes = outcomes
        # The driver before has counted what was read in recovery.
        self._before = outcomes.stats()

    def stats(self) -> dict[str, Any]:
        before, now, stats = self._before, self._outcomes.stats(), super().stats()
        return {
            **stats,
            **now,
            "executed": 0,
            "acked": now["acked"] - before["acked"] if self._acking else stats["emitted"],
            "failed": dict(Counter(now["failed"]) - Counter(before["failed"])),
            "ignored_notices": now["ignored_notices"] - before["ignored_notices"],
        }


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
