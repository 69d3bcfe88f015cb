"""What a component in Spark has done since its driver started it, in the form of `{topology}.stats`.

The members are those of `spout_sdk.Stats`. What Spark does not tell is left out, and so is not known to whoever reads:
how many inputs of a bolt are neither acked nor failed, say. A micro-batch counts when it is written. One that a driver
wrote, and died before Spark noted its end, is written and counted by the next driver as well: it was done twice.
Latencies always stand there, empty where they are not measured, because readers of an earlier version want them.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from spark_jobs.delivering import SourceRange, totals
from spark_jobs.micro_batch import BatchResult
from spark_jobs.outcomes import Outcomes
from tuple_tree.manifest import Component
from tuple_tree.messages import FailReason


class BoltTally:
    """What a bolt has written; thread-safe.

    Args:
        bolt: what the manifest says of it.
    """

    def __init__(self, bolt: Component) -> None:
        self._who = _who(bolt)
        self._lock = threading.Lock()
        self._transferred = self._executed = self._failed = self._dead = 0
        # None from the first micro-batch on that does not tell.
        self._emitted: int | None = 0
        self._acked: int | None = 0

    def add(self, written: BatchResult) -> None:
        """Takes a micro-batch that is written."""
        with self._lock:
            self._transferred += written.tuples
            self._executed += written.rows - written.dead
            self._failed += written.failed
            self._dead += written.dead
            self._emitted = _sum(self._emitted, written.emitted)
            self._acked = _sum(self._acked, written.acked)

    def stats(self) -> dict[str, Any]:
        """The counts; failed are rows of the result; `emitted` and `acked` are left out where they are not known."""
        with self._lock:
            return {
                **self._who,
                **({} if self._emitted is None else {"emitted": self._emitted}),
                "transferred": self._transferred,
                "executed": self._executed,
                **({} if self._acked is None else {"acked": self._acked}),
                "failed": {FailReason.FAILED.word: self._failed} if self._failed else {},
                "dead_letters": self._dead,
            }


class SpoutTally:
    """What a spout has written, and the outcomes of it; thread-safe.

    Args:
        spout: what the manifest says of it.
        acking: whether trees are followed; if not, what is emitted is acked.
        outcomes: of its trees; what was read before, while the books were rebuilt, the last driver has counted.
    """

    def __init__(self, spout: Component, acking: bool, outcomes: Outcomes) -> None:
        self._who = _who(spout)
        self._acking = acking
        self._outcomes = outcomes
        self._before = outcomes.counts()
        self._lock = threading.Lock()
        self._emitted = self._transferred = self._dead = 0

    def add(self, found: Sequence[SourceRange]) -> None:
        """Takes what a micro-batch, or a round of replays, has written."""
        rows, dead, tuples = totals(found)
        with self._lock:
            self._emitted += rows - dead
            self._transferred += tuples
            self._dead += dead

    def stats(self) -> dict[str, Any]:
        """The counts; each delivery of a message is emitted, and a tree that begins."""
        now = self._outcomes.counts()
        failed = {reason: count - self._before.failed.get(reason, 0) for reason, count in now.failed.items()}
        with self._lock:
            return {
                **self._who,
                "emitted": self._emitted,
                "transferred": self._transferred,
                "executed": 0,
                "acked": now.acked - self._before.acked if self._acking else self._emitted,
                "failed": {reason: count for reason, count in failed.items() if count},
                "pending": now.pending,
                "ignored_notices": now.ignored - self._before.ignored,
                "dead_letters": self._dead,
                "complete_latency": now.complete_latency,
            }


def _who(component: Component) -> Mapping[str, Any]:
    # One driver does the work of all tasks.
    return {
        "component": component.name,
        "pids": [os.getpid()],
        "tasks": list(range(component.tasks)),
        "complete_latency": {},
        "execute_latency": {},
        "process_latency": {},
    }


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
