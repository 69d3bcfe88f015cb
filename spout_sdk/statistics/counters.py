"""What a process counts while it runs; `stats.Stats` is a snapshot of it."""

from typing import Final

from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason

LARGEST_ERROR: Final = 500
"""Characters of an error that are kept."""

SAMPLE: Final = 20
"""One in so many executions is timed."""


class TaskLoad:
    """What one task of a bolt has done.

    Attributes:
        executed: tuples handed to it.
        busy_seconds: how long it executed tuples; what is emitted and acked meanwhile is part of it.
    """

    __slots__ = ("busy_seconds", "executed")

    def __init__(self) -> None:
        self.executed = 0
        self.busy_seconds = 0.0


class Counters:
    """Plain integers that the tasks of a process raise; not for other threads.

    Attributes:
        emitted: calls of `emit`.
        transferred: records sent for them, one a recipient.
        executed: tuples handed to a bolt.
        acked: trees acked (spout) or inputs acked (bolt).
        failed: trees or inputs failed, by reason.
        ignored_notices: outcomes of roots that the spout does not hold.
        errors: exceptions of `execute`, and what was reported with `report_error`.
        last_error: the latest of them, as one line; empty if there was none.
        dead_letters: records that could not be used.
        undelivered: tuples that Kafka did not take.
        transactions: of a bolt with `exactly_once`, that were committed.
        rollbacks: how often what was not committed was undone.
        users: counters of `TaskContext.count`.
        throttled_seconds: how long spout tasks were not asked for tuples because too many trees were open.
        complete_latency: from emit to ack, at the spout.
        execute_latency: of `execute`; of one call in 20, as in Storm, because a clock costs as much as a small bolt.
        process_latency: from the call of `execute` to the ack; of the same tuples.
        loads: task → what it has done, of the tasks of a bolt that this process has had.
    """

    __slots__ = (
        "acked",
        "complete_latency",
        "dead_letters",
        "emitted",
        "errors",
        "execute_latency",
        "executed",
        "failed",
        "ignored_notices",
        "last_error",
        "loads",
        "process_latency",
        "rollbacks",
        "throttled_seconds",
        "transactions",
        "transferred",
        "undelivered",
        "users",
    )

    def __init__(self) -> None:
        self.emitted = 0
        self.transferred = 0
        self.executed = 0
        self.acked = 0
        self.failed: dict[str, int] = {}
        self.ignored_notices = 0
        self.errors = 0
        self.last_error = ""
        self.dead_letters = 0
        self.undelivered = 0
        self.transactions = 0
        self.rollbacks = 0
        self.users: dict[str, int] = {}
        self.throttled_seconds = 0.0
        self.complete_latency = LatencyHistogram()
        self.execute_latency = LatencyHistogram()
        self.process_latency = LatencyHistogram()
        self.loads: dict[int, TaskLoad] = {}

    def load(self, task: int) -> TaskLoad:
        """The load of a task; one that comes back goes on with it."""
        return self.loads.setdefault(task, TaskLoad())

    def count_error(self, error: BaseException) -> None:
        """Counts an exception of the component's code."""
        self.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"[:LARGEST_ERROR]

    def count_failed(self, reason: FailReason) -> None:
        """Counts a failed tree or input."""
        word = reason.word
        self.failed[word] = self.failed.get(word, 0) + 1
