"""Statistics of the processes of a component: live counters, and snapshots of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

from spout_sdk.errors import SpoutSdkError
from spout_sdk.statistics.state_stats import StateStats, merged_states
from tuple_tree.errors import describe
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason
from tuple_tree.process_stats import LARGEST_ERROR, filter_known_fields, metric_field

SAMPLE: Final = 20  # one in 20 executions is timed, as in Storm, because reading a clock costs as much as a small bolt
NO_INPUT: Final = (0.0, "")  # seconds and position of the oldest open input if none is open


PREFIX: Final = "acker_component_"


def _latency(text: str, powers: range, *, of_spouts: bool = False) -> dict[str, Any]:
    """Metadata of a latency, whose metric is `acker_component_{name}_seconds` with buckets up to `2 ** power` µs."""
    return {"help": text, "powers": powers, "of_spouts": of_spouts}


_SHORT: Final = range(4, 24)  # latencies of bolts: 16 µs to 8.4 s


@dataclass(slots=True, kw_only=True)
class Counts:
    """All counters of a process; `Stats` and the metrics are derived from this list."""

    emitted: int = metric_field(f"{PREFIX}emitted_total", "Calls of emit.")
    # One for each recipient, so a stream with two subscribers transfers each emitted tuple twice.
    transferred: int = metric_field(f"{PREFIX}transferred_total", "Tuples that were sent.")
    executed: int = metric_field(f"{PREFIX}executed_total", "Tuples that a bolt executed.")
    acked: int = metric_field(f"{PREFIX}acked_total", "Trees of a spout, inputs of a bolt that were acked.")
    dead_lettered: int = metric_field(
        f"{PREFIX}dead_lettered_total", "Acked trees of a spout in which a tuple became a dead letter."
    )
    # Late outcomes, of a lost tree or of a task that has moved.
    ignored_notices: int = metric_field(
        f"{PREFIX}ignored_notices_total", "Outcomes of trees that the spout no longer holds; harmless."
    )
    errors: int = metric_field(f"{PREFIX}errors_total", "Exceptions of execute, and errors that were reported.")
    # If a spout waits for its bolts nearly all of the time, the bolts limit the throughput.
    throttled_seconds: float = metric_field(
        f"{PREFIX}throttled_seconds_total", "Seconds that spout tasks waited because max_spout_pending trees were open."
    )
    dead_letters: int = metric_field(f"{PREFIX}dead_letters_total", "Records and tuples that could not be used.")
    retried: int = metric_field(f"{PREFIX}retried_total", "Executions of tuples that a bolt executed before.")
    # Their trees fail at once, so these are replays, not losses.
    undelivered: int = metric_field(
        f"{PREFIX}undelivered_total", "Tuples that Kafka rejected; their trees fail at once."
    )
    transactions: int = metric_field(f"{PREFIX}transactions_total", "Transactions that were committed.")
    # A few are normal when processes join or leave; many at other times waste work.
    rollbacks: int = metric_field(
        f"{PREFIX}rollbacks_total", "Transactions that were aborted and repeated; a few when processes join or leave."
    )
    failed: dict[str, int] = field(default_factory=dict)  # trees or inputs, by `FailReason.word`
    last_error: str = ""  # the last error, in one line
    last_failure: str = ""  # why a bolt failed its last input
    last_dead_letter: str = ""  # the record of the last dead letter, and why it became one
    complete_latency: LatencyHistogram = field(
        default_factory=LatencyHistogram, metadata=_latency("From emit to ack.", range(10, 28), of_spouts=True)
    )  # 1 ms to 134 s
    execute_latency: LatencyHistogram = field(
        default_factory=LatencyHistogram, metadata=_latency("Of execute; of one call in 20.", _SHORT)
    )
    process_latency: LatencyHistogram = field(
        default_factory=LatencyHistogram, metadata=_latency("From execute to ack; of one call in 20.", _SHORT)
    )


class MostFailed(NamedTuple):
    """The tuple of a bolt that has failed most often and is executed again, or the message of a `KafkaSpout`.

    Attributes:
        place: its record, as `topic[partition] offset N`; empty if none has failed.
        times: how often it has failed.
        error: its last failure.
        component: what failed it.
        seconds: since its first failure; 0 for a message.
    """

    place: str = ""
    times: int = 0
    error: str = ""
    component: str = ""
    seconds: float = 0.0


NOT_FAILED: Final = MostFailed()


def worst_of(failed: Iterable[MostFailed]) -> MostFailed:
    return max(failed, key=lambda each: each.times, default=NOT_FAILED)


@dataclass(slots=True)
class TaskLoad:
    """The load of one task of a bolt; `busy_seconds` include emits and acks during `execute`.

    A second in which half of the `concurrency` of an `AsyncBolt` runs counts as half a busy second.
    """

    executed: int = 0
    busy_seconds: float = 0.0
    retried: int = 0


@dataclass(slots=True)
class Counters(Counts):
    """Counters that the tasks of a process increment; not for other threads.

    Attributes:
        users: counters of `TaskContext.count`.
        loads: task → its load, for all tasks of a bolt that this process has had.
    """

    users: dict[str, int] = field(default_factory=dict)
    loads: dict[int, TaskLoad] = field(default_factory=dict)

    def load(self, task: int) -> TaskLoad:
        """The load of a task; it continues when a task is assigned again."""
        return self.loads.setdefault(task, TaskLoad())

    def count_error(self, error: BaseException) -> None:
        """Counts an exception of the component's code."""
        self.errors += 1
        self.last_error = describe(error)[:LARGEST_ERROR]

    def count_failed(self, reason: FailReason, why: str = "") -> None:
        """Counts a failed tree, or an input with the reason of its bolt."""
        word = reason.word
        self.failed[word] = self.failed.get(word, 0) + 1
        self.last_failure = why[:LARGEST_ERROR]

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
    """A snapshot of the statistics of a component, with all `Counts` since the start of the process.

    Attributes:
        component: the name of the component.
        pids: ids of the processes that the snapshot covers.
        tasks: numbers of the tasks that they own now.
        task_executed: for a bolt, task → number of tuples that it executed.
        task_busy_ms: for a bolt, task → milliseconds for which it executed tuples.
        task_waiting: for a bolt, owned task → estimated number of tuples in its inbox that it has not executed; unread
            records are taken to have as many tuples as earlier records. Shuffle groupings use it.
        sources: topics that a `KafkaSpout` reads, in its order.
        pending: number of open trees of a spout, or of inputs of a bolt that are neither acked nor failed.
        retrying: for a bolt, the number of tuples that wait to be executed again, which `pending` includes; for a
            `KafkaSpout`, the number of open messages without a tree, which `pending` does not include: they are emitted
            again, or become dead letters.
        most_failed: the tuple or message that has failed most often and is tried again.
        settings: settings of the component's code that a reader needs to judge it, as `Topology.settings` has them.
        programs: fingerprints of the manifests of the code that runs.
        control: for a spout, the requested states that its processes have read; empty for bolts.
        paused_seconds: for a bolt, seconds for which a task has paused because its calls raise; 0 if none has.
        paused_by: the paused task, the exception, and when it tries again; empty if none has paused.
        unread: for a bolt, the number of records in its inbox that it has not read, as the client knew at most a second
            ago. Records that the bolt holds are part of the lag of its group, but not of this number.
        oldest_input: for a bolt, the oldest open input, as `topic[partition] offset N`, which holds back the committed
            offset; empty if none is open.
        oldest_input_seconds: seconds for which that input has been open, to within a second.
        stalled_seconds: seconds without progress although there is work; 0 if all work is done. For a spout, counted
            from the message timeout on.
        stalled_by: the work without progress; empty if all work is done.
        execute_seconds: for a bolt, seconds for which a long call of `execute` has been running; 0 without one.
        execute_at: the first tuple of that call, as `topic[partition] offset N`, and the line of code; empty without
            one.
        counters: your own counters, from `TaskContext.count`.
        state: for a bolt with a state, the statistics of its states; otherwise None.
    """

    component: str
    # Fewer than were started: some have ended, or have just started.
    pids: tuple[int, ...] = metric_field(f"{PREFIX}processes", "Processes that it runs in here.", default=())
    # The sum over all processes should be the component's number of tasks.
    tasks: tuple[int, ...] = metric_field(f"{PREFIX}tasks_owned", "Tasks that these processes own.", default=())
    task_executed: Mapping[str, int] = field(default_factory=dict)
    task_busy_ms: Mapping[str, int] = field(default_factory=dict)
    task_waiting: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    pending: int = metric_field(
        f"{PREFIX}pending", "Open trees of a spout; inputs of a bolt that are neither acked nor failed."
    )
    retrying: int = metric_field(
        f"{PREFIX}retrying",
        "Tuples of a bolt that wait to be executed again; failed messages of a spout.",
        default=0,
    )
    most_failed: MostFailed = NOT_FAILED
    settings: Mapping[str, int] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    # The calls of the task raise: its inputs are kept, and only a single call is tried from time to time.
    paused_seconds: float = metric_field(
        f"{PREFIX}paused_seconds",
        "Seconds for which a task of a bolt has paused, because its calls raise; 0 if none has.",
        default=0.0,
    )
    paused_by: str = ""
    unread: int = 0
    oldest_input: str = ""
    # It holds back the committed offset: later tuples are executed again after a restart.
    oldest_input_seconds: float = metric_field(
        f"{PREFIX}oldest_input_seconds",
        "Seconds for which the oldest input of a bolt has been open, that is, neither acked nor failed.",
        default=0.0,
    )
    # Records wait and none is executed, no outcome comes for open trees, or no broker answers; /health uses it.
    stalled_seconds: float = metric_field(
        f"{PREFIX}stalled_seconds",
        "Seconds for which there has been work and no progress; 0 if all work is done.",
        default=0.0,
    )
    stalled_by: str = ""
    execute_seconds: float = metric_field(
        f"{PREFIX}execute_running_seconds",
        "Seconds for which a long call of execute has been running; 0 without one.",
        default=0.0,
    )
    execute_at: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    state: StateStats | None = None

    def merge(self, other: "Stats") -> "Stats":
        """The sum of two snapshots of different processes of a component."""
        added: dict[str, Any] = {name: _sum(getattr(self, name), getattr(other, name)) for name in _ADDED}
        united: dict[str, Any] = {
            name: tuple(sorted({*getattr(self, name), *getattr(other, name)})) for name in _UNITED
        }
        longest: dict[str, Any] = {}
        for seconds, what in _LONGEST:
            of = max(self, other, key=attrgetter(seconds))
            longest |= {seconds: getattr(of, seconds), what: getattr(of, what)}
        return replace(
            self,
            **added,
            **united,
            **longest,
            pids=self.pids + other.pids,
            sources=other.sources or self.sources,
            settings=other.settings or self.settings,
            most_failed=worst_of((self.most_failed, other.most_failed)),
            state=merged_states(self.state, other.state),
        )

    def retired(self) -> "Stats":
        """The statistics after the process has ended: counts, without pids, tasks and open inputs."""
        gauges = ("pids", "pending", "retrying", "unread", "task_waiting", "most_failed", "state")
        names = (*gauges, *_UNITED, *(name for pair in _LONGEST for name in pair))
        return replace(self, **{name: getattr(_EMPTY, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as an object for JSON; a latency is bucket → count. `state` only if it has one."""
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
        """Creates a snapshot from an object of `to_dict`; unknown members are skipped.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: if the object has another form.
        """
        read = filter_known_fields(members, _EMPTY)
        for name, value in read.items():
            match getattr(_EMPTY, name):
                case LatencyHistogram():
                    read[name] = LatencyHistogram({int(bucket): int(count) for bucket, count in value.items()})
                case dict():
                    read[name] = {str(word): int(count) for word, count in value.items()}
                case MostFailed():
                    read[name] = MostFailed(*value)
                case tuple():
                    read[name] = tuple(value)
                case None if value is not None:
                    read[name] = StateStats.of(value)
        return cls(**read)

    @classmethod
    def from_json(cls, line: str | bytes) -> "Stats":
        """Creates a snapshot from a line of `to_json`.

        Raises:
            SpoutSdkError: if the line has another form.
        """
        try:
            return cls.of(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            advice = "do both ends run the same version?"
            raise SpoutSdkError(f"not a line of stats ({error!r}): {line[:80]!r}; {advice}") from error


_EMPTY: Final = Stats("")
# How the statistics of processes become those of their component: sums, unions, and the longest time with its text.
_TASKS: Final = ("task_executed", "task_busy_ms", "task_waiting")
_ADDED: Final = (*(each.name for each in fields(Counts)), "pending", "retrying", "unread", "counters", *_TASKS)
_UNITED: Final = ("tasks", "programs", "control")
_LONGEST: Final = (
    ("oldest_input_seconds", "oldest_input"),
    ("paused_seconds", "paused_by"),
    ("stalled_seconds", "stalled_by"),
    ("execute_seconds", "execute_at"),
)


def _sum(left: Any, right: Any) -> Any:
    """The sum of two counts, mappings of counts, or histograms; for texts, `right` unless it is empty."""
    if isinstance(left, LatencyHistogram):
        return left.merged(right)
    if isinstance(left, str):
        return right or left
    if isinstance(left, Mapping):
        return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
    return left + right
