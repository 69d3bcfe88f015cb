"""What a process counts while it runs; `stats.Stats` is a snapshot of it."""

from dataclasses import dataclass, field, fields
from typing import Any, Final

from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason

LARGEST_ERROR: Final = 500  # characters of an error that are kept
SAMPLE: Final = 20  # one in so many executions is timed, as in Storm, because a clock costs as much as a small bolt


def _total(text: str) -> Any:
    """A count that is also the metric `acker_component_{name}_total`, with this help text."""
    return field(default=0, metadata={"help": text})


@dataclass(slots=True, kw_only=True)
class Counts:
    """Everything that a process counts: the one list, of which `Stats` and the metrics are made."""

    emitted: int = _total("Calls of emit.")
    # One a recipient, so a stream with two subscribers transfers twice what it emits.
    transferred: int = _total("Tuples that were sent.")
    executed: int = _total("Tuples that were handed to a bolt.")
    acked: int = _total("Trees of a spout, inputs of a bolt that were acked.")
    # Late outcomes: of a tree that was given up, or of a task that has moved since.
    ignored_notices: int = _total("Outcomes of trees that the spout does not hold.")
    errors: int = _total("Exceptions of execute, and errors that were reported.")
    # A spout that waits for its bolts nearly all of the time is not what limits the topology.
    throttled_seconds: float = _total("How long spout tasks waited because max_spout_pending trees were open.")
    dead_letters: int = _total("Records that could not be used.")
    # Their trees fail at once, so these are replays, not losses.
    undelivered: int = _total("Tuples that Kafka did not take.")
    transactions: int = _total("Transactions that were committed.")
    # A few whenever processes join or leave; many, where nothing of the kind happens, are work for nothing.
    rollbacks: int = _total("How often what was not committed was undone, and done again.")
    failed: dict[str, int] = field(default_factory=dict)
    """Trees or inputs failed, by reason: `failed`, `timeout`, `too_old`, `lost`."""
    last_error: str = ""
    """The latest of `errors`, as one line."""
    complete_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """From emit to ack, at the spout."""
    execute_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """Of `execute`; of one call in 20."""
    process_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """From the call of `execute` to the ack, of the same tuples."""


@dataclass(slots=True)
class TaskLoad:
    """What one task of a bolt has done: what is emitted and acked meanwhile is part of `busy_seconds`."""

    executed: int = 0
    busy_seconds: float = 0.0


@dataclass(slots=True)
class Counters(Counts):
    """What the tasks of a process raise; not for other threads.

    Attributes:
        users: counters of `TaskContext.count`.
        loads: task → what it has done, of the tasks of a bolt that this process has had.
    """

    users: dict[str, int] = field(default_factory=dict)
    loads: dict[int, TaskLoad] = field(default_factory=dict)

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

    def copied(self) -> dict[str, Any]:
        """Name → value of all `Counts`, which change no more."""
        values = {each.name: getattr(self, each.name) for each in fields(Counts)}
        return {name: value.copy() if hasattr(value, "copy") else value for name, value in values.items()}
