"""Statistics of the processes of a component: live counters, and snapshots of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from spout_sdk.errors import SpoutSdkError
from spout_sdk.statistics.state_stats import StateStats, merged_states
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason
from tuple_tree.process_stats import LARGEST_ERROR, filter_known_fields, metric_field

SAMPLE: Final = 20  # one in 20 executions is timed, as in Storm, because a clock costs as much as a small bolt
NO_INPUT: Final = (0.0, "")  # seconds and position of the oldest open input where none is open


PREFIX: Final = "acker_component_"


def _latency(text: str, powers: range, *, of_spouts: bool = False) -> dict[str, Any]:
    """A latency that is also the metric `acker_component_{name}_seconds`, with buckets up to `2 ** power` µs."""
    return {"help": text, "powers": powers, "of_spouts": of_spouts}


_SHORT: Final = range(4, 24)  # what a bolt takes: 16 µs to 8.4 s


@dataclass(slots=True, kw_only=True)
class Counts:
    """Everything that a process counts: the one list from which `Stats` and the metrics are made."""

    emitted: int = metric_field(f"{PREFIX}emitted_total", "Calls of emit.")
    # One a recipient, so a stream with two subscribers transfers twice what it emits.
    transferred: int = metric_field(f"{PREFIX}transferred_total", "Tuples that were sent.")
    executed: int = metric_field(f"{PREFIX}executed_total", "Tuples that a bolt executed.")
    acked: int = metric_field(f"{PREFIX}acked_total", "Trees of a spout, inputs of a bolt that were acked.")
    # Late outcomes: of a tree that was lost, or of a task that has moved since.
    ignored_notices: int = metric_field(
        f"{PREFIX}ignored_notices_total", "Outcomes of trees that the spout no longer holds; harmless."
    )
    errors: int = metric_field(f"{PREFIX}errors_total", "Exceptions of execute, and errors that were reported.")
    # A spout that waits for its bolts nearly all of the time is not what limits the topology.
    throttled_seconds: float = metric_field(
        f"{PREFIX}throttled_seconds_total", "How long spout tasks waited because max_spout_pending trees were open."
    )
    dead_letters: int = metric_field(f"{PREFIX}dead_letters_total", "Records and tuples that could not be used.")
    retried: int = metric_field(f"{PREFIX}retried_total", "Executions of tuples that a bolt executed before.")
    # Their trees fail at once, so these are replays, not losses.
    undelivered: int = metric_field(
        f"{PREFIX}undelivered_total", "Tuples that Kafka rejected; their trees fail at once."
    )
    transactions: int = metric_field(f"{PREFIX}transactions_total", "Transactions that were committed.")
    # A few whenever processes join or leave; many, where nothing of the kind happens, are work for nothing.
    rollbacks: int = metric_field(
        f"{PREFIX}rollbacks_total", "Transactions that were aborted and repeated; a few when processes join or leave."
    )
    failed: dict[str, int] = field(default_factory=dict)  # trees or inputs, by `FailReason.word`
    last_error: str = ""  # the latest of `errors`, as one line
    complete_latency: LatencyHistogram = field(
        default_factory=LatencyHistogram, metadata=_latency("From emit to ack.", range(10, 28), of_spouts=True)
    )  # 1 ms to 134 s
    execute_latency: LatencyHistogram = field(
        default_factory=LatencyHistogram, metadata=_latency("Of execute; of one call in 20.", _SHORT)
    )
    process_latency: LatencyHistogram = field(
        default_factory=LatencyHistogram, metadata=_latency("From execute to ack; of one call in 20.", _SHORT)
    )


@dataclass(slots=True)
class TaskLoad:
    """The load of one task of a bolt; emits and acks during `execute` are part of `busy_seconds`.

    A second in which half of the `concurrency` of an `AsyncBolt` runs is half a busy one.
    """

    executed: int = 0
    busy_seconds: float = 0.0
    retried: int = 0


@dataclass(slots=True)
class Counters(Counts):
    """Counters that the tasks of a process raise; not for other threads.

    Attributes:
        users: counters of `TaskContext.count`.
        loads: task → what it has done, of the tasks of a bolt that this process has had.
    """

    users: dict[str, int] = field(default_factory=dict)
    loads: dict[int, TaskLoad] = field(default_factory=dict)

    def load(self, task: int) -> TaskLoad:
        """The load of a task; one that is assigned again continues it."""
        return self.loads.setdefault(task, TaskLoad())

    def count_error(self, error: BaseException) -> None:
        """Counts an exception of the component's code."""
        self.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"[:LARGEST_ERROR]

    def count_failed(self, reason: FailReason) -> None:
        """Counts a failed tree or input."""
        word = reason.word
        self.failed[word] = self.failed.get(word, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        """A copy of the counters, for `Stats`."""
        values = {each.name: getattr(self, each.name) for each in fields(Counts)}
        return {
            **{name: value.copy() if hasattr(value, "copy") else value for name, value in values.items()},
            "task_executed": {str(task): load.executed for task, load in self.loads.items()},
            "task_busy_ms": {str(task): round(load.busy_seconds * 1000) for task, load in self.loads.items()},
            "counters": dict(self.users),
        }


@dataclass(slots=True)
class Stats(Counts):
    """A snapshot; it also has all that `Counts` lists, since the start of the process.

    Attributes:
        component: whose.
        pids: of the processes that it sums up.
        tasks: that they own now.
        task_executed: of a bolt, task → tuples that it executed.
        task_busy_ms: of a bolt, task → milliseconds for which it executed tuples.
        task_waiting: of a bolt, task that the process owns → tuples of its inbox that it has not executed, as far as
            is known: records that are not read count as those before. Shuffle groupings follow it.
        sources: topics that a `KafkaSpout` reads, in its order.
        pending: trees of a spout that are open now; for a bolt, inputs that are neither acked nor failed.
        in_windows: of a bolt with windows that hold its inputs, how many these hold; they are part of `pending`.
        retrying: of a bolt, tuples that wait to be executed again; they are part of `pending`. Of a `KafkaSpout`,
            failed messages that wait to be emitted again, which are not.
        control: of a spout, the requested states that its processes have read; empty for bolts.
        paused_seconds: of a bolt, for how long a task has paused, because its calls raise; 0 if none has.
        paused_by: which task, the exception, and when it tries again; empty if none has.
        unread: of a bolt, records of its inbox that it has not read, as the client knew up to a second ago. Records
            that the bolt holds are part of the lag of its group, and not of this.
        oldest_input: of a bolt, the input that is open for longest, as `topic[partition] offset N`; it holds the
            committed offset. Empty if none is open.
        oldest_input_seconds: for how long, to within a second.
        stalled_seconds: seconds without progress although there is work; 0 where all is done. Of a spout it
            is counted from the message timeout on.
        stalled_by: what that is; empty where all is done.
        execute_seconds: of a bolt, for how long a call of `execute` has been running; 0 if that is not long.
        execute_at: its first tuple, as `topic[partition] offset N`, and the line of code; empty if it is not long.
        counters: your own, from `TaskContext.count`.
        state: of a bolt with a state, its figures; else None.
    """

    component: str
    # Fewer than were started: some are down, or have just started.
    pids: tuple[int, ...] = metric_field(f"{PREFIX}processes", "Processes that it runs in here.", default=())
    # Over all processes, the sum has to be the component's number of tasks.
    tasks: tuple[int, ...] = metric_field(f"{PREFIX}tasks_owned", "Tasks that these processes own.", default=())
    task_executed: Mapping[str, int] = field(default_factory=dict)
    task_busy_ms: Mapping[str, int] = field(default_factory=dict)
    task_waiting: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    pending: int = metric_field(
        f"{PREFIX}pending", "Open trees of a spout; inputs of a bolt that are neither acked nor failed."
    )
    in_windows: int = 0
    retrying: int = metric_field(
        f"{PREFIX}retrying",
        "Tuples of a bolt that wait to be executed again; failed messages of a spout.",
        default=0,
    )
    control: tuple[str, ...] = ()
    # Its calls raise: what waits for it is kept, and nothing of it is executed but one call now and then.
    paused_seconds: float = metric_field(
        f"{PREFIX}paused_seconds",
        "Seconds for which a task of a bolt has paused, because its calls raise; 0 if none has.",
        default=0.0,
    )
    paused_by: str = ""
    unread: int = 0
    oldest_input: str = ""
    # It holds the committed offset: what lies after it is executed again after a restart.
    oldest_input_seconds: float = metric_field(
        f"{PREFIX}oldest_input_seconds",
        "How long the oldest input of a bolt that is neither acked nor failed is open.",
        default=0.0,
    )
    # Records wait and none is executed, no outcome comes for open trees, or no broker answers; /health judges by it.
    stalled_seconds: float = metric_field(
        f"{PREFIX}stalled_seconds",
        "Seconds for which there has been work and no progress; 0 if all is done.",
        default=0.0,
    )
    stalled_by: str = ""
    execute_seconds: float = metric_field(
        f"{PREFIX}execute_running_seconds",
        "For how long a call of execute has been running; 0 if that is not long.",
        default=0.0,
    )
    execute_at: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    state: StateStats | None = None

    def merge(self, other: "Stats") -> "Stats":
        """The sum of two snapshots of different processes of a component."""
        oldest = max(self, other, key=lambda each: each.oldest_input_seconds)
        stalled = max(self, other, key=lambda each: each.stalled_seconds)
        paused = max(self, other, key=lambda each: each.paused_seconds)
        executing = max(self, other, key=lambda each: each.execute_seconds)
        added = (
            *(each.name for each in fields(Counts)),
            "pending",
            "in_windows",
            "retrying",
            "unread",
            "counters",
            "task_executed",
            "task_busy_ms",
            "task_waiting",
        )
        return replace(
            self,
            pids=self.pids + other.pids,
            tasks=tuple(sorted({*self.tasks, *other.tasks})),
            sources=other.sources or self.sources,
            control=tuple(sorted({*self.control, *other.control})),
            oldest_input=oldest.oldest_input,
            oldest_input_seconds=oldest.oldest_input_seconds,
            paused_seconds=paused.paused_seconds,
            paused_by=paused.paused_by,
            stalled_seconds=stalled.stalled_seconds,
            stalled_by=stalled.stalled_by,
            execute_seconds=executing.execute_seconds,
            execute_at=executing.execute_at,
            state=merged_states(self.state, other.state),
            **{name: _sum(getattr(self, name), getattr(other, name)) for name in added},
        )

    def retired(self) -> "Stats":
        """The statistics of a process that has ended: counts, without pids, tasks and open inputs."""
        ended = replace(self, pids=(), tasks=(), pending=0, in_windows=0, unread=0, task_waiting={})
        ended = replace(ended, retrying=0, control=(), paused_seconds=0.0, paused_by="", state=None)
        ended = replace(ended, execute_seconds=0.0, execute_at="")
        return replace(ended, oldest_input="", oldest_input_seconds=0.0, stalled_by="", stalled_seconds=0.0)

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as an object for JSON; a latency is bucket → count. Without a state it has no member for one."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        state: StateStats | None = values.pop("state")
        for name, value in values.items():
            if isinstance(value, LatencyHistogram):
                values[name] = dict(value.counts)
        return values if state is None else {**values, "state": state.to_dict()}

    def to_json(self) -> str:
        """The snapshot as one line of JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> "Stats":
        """The snapshot behind the object that `to_dict` made; members that are not known here are skipped.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: if it is something else.
        """
        read = filter_known_fields(members, _EMPTY)
        for name, value in read.items():
            match getattr(_EMPTY, name):
                case LatencyHistogram():
                    read[name] = LatencyHistogram({int(bucket): int(count) for bucket, count in value.items()})
                case dict():
                    read[name] = {str(word): int(count) for word, count in value.items()}
                case tuple():
                    read[name] = tuple(value)
                case None if value is not None:
                    read[name] = StateStats.of(value)
        return cls(**read)

    @classmethod
    def from_json(cls, line: str | bytes) -> "Stats":
        """Reads what `to_json` wrote.

        Raises:
            SpoutSdkError: if it is something else.
        """
        try:
            return cls.of(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            advice = "do both ends run the same version?"
            raise SpoutSdkError(f"not a line of stats ({error!r}): {line[:80]!r}; {advice}") from error


_EMPTY: Final = Stats("")


def _sum(left: Any, right: Any) -> Any:
    """The sum of two counts, mappings of counts, or histograms; of two texts the later one that is not empty."""
    if isinstance(left, LatencyHistogram):
        return left.merged(right)
    if isinstance(left, str):
        return right or left
    if isinstance(left, Mapping):
        return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
    return left + right
