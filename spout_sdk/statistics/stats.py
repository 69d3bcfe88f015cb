"""What a process, or all processes of a component together, have done so far."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from spout_sdk.errors import SpoutSdkError
from spout_sdk.statistics.counters import Counters
from tuple_tree.latency import LatencyHistogram
from tuple_tree.process_stats import filter_known_fields

NO_INPUT: Final = (0.0, "")
"""Seconds and place of the oldest open input where none is open."""


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot; counts are since the start of the process.

    Attributes:
        component: whose.
        pids: of the processes that it sums up.
        tasks: that they own now.
        task_executed: of a bolt, task → tuples handed to it.
        task_busy_ms: of a bolt, task → milliseconds for which it executed tuples.
        sources: topics that a `KafkaSpout` reads, in its order.
        emitted: calls of `emit`.
        transferred: records sent for them, one a recipient.
        executed: tuples handed to a bolt.
        acked: trees acked (spout) or inputs acked (bolt).
        failed: trees or inputs failed, by reason: `failed`, `timeout`, `too_old`, `lost`.
        pending: trees of a spout that are open now; for a bolt, inputs that are neither acked nor failed.
        oldest_input: of a bolt, the input that is open for longest, as `topic[partition] offset N`; it holds the
            committed offset. Empty if none is open.
        oldest_input_seconds: for how long, to within a second.
        stalled_seconds: for how long there has been work of which nothing was done; 0 where all is done. Of a spout it
            is counted from the message timeout on.
        stalled_by: what that is; empty where all is done.
        ignored_notices: outcomes of roots that the spout does not hold.
        errors: exceptions of `execute`, and what was reported with `report_error`.
        last_error: the latest of them; empty if there was none.
        dead_letters: records that could not be used.
        undelivered: tuples that Kafka did not take.
        transactions: of a bolt with `exactly_once`, that were committed.
        rollbacks: how often what was not committed was undone, and done again.
        counters: your own, from `TaskContext.count`.
        throttled_seconds: how long spout tasks waited because too many trees were open.
        complete_latency: from emit to ack, at the spout.
        execute_latency: of `execute`; of one call in 20.
        process_latency: from the call of `execute` to the ack, of the same tuples.
    """

    component: str
    pids: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    task_executed: Mapping[str, int] = field(default_factory=dict)
    task_busy_ms: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    emitted: int = 0
    transferred: int = 0
    executed: int = 0
    acked: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0
    oldest_input: str = ""
    oldest_input_seconds: float = 0.0
    stalled_seconds: float = 0.0
    stalled_by: str = ""
    ignored_notices: int = 0
    errors: int = 0
    last_error: str = ""
    dead_letters: int = 0
    undelivered: int = 0
    transactions: int = 0
    rollbacks: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    throttled_seconds: float = 0.0
    complete_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    execute_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    process_latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @classmethod
    def snapshot(
        cls,
        component: str,
        pid: int,
        tasks: Iterable[int],
        pending: int,
        counters: Counters,
        oldest_input: tuple[float, str] = NO_INPUT,
        sources: Iterable[str] = (),
        stalled: tuple[float, str] = (0.0, ""),
    ) -> "Stats":
        """Copies the counters of a process."""
        return cls(
            component=component,
            pids=(pid,),
            tasks=tuple(sorted(tasks)),
            task_executed={str(task): load.executed for task, load in counters.loads.items()},
            task_busy_ms={str(task): round(load.busy_seconds * 1000) for task, load in counters.loads.items()},
            sources=tuple(sources),
            emitted=counters.emitted,
            transferred=counters.transferred,
            executed=counters.executed,
            acked=counters.acked,
            failed=dict(counters.failed),
            pending=pending,
            oldest_input=oldest_input[1],
            oldest_input_seconds=oldest_input[0],
            stalled_seconds=stalled[0],
            stalled_by=stalled[1],
            ignored_notices=counters.ignored_notices,
            errors=counters.errors,
            last_error=counters.last_error,
            dead_letters=counters.dead_letters,
            undelivered=counters.undelivered,
            transactions=counters.transactions,
            rollbacks=counters.rollbacks,
            counters=dict(counters.users),
            throttled_seconds=counters.throttled_seconds,
            complete_latency=counters.complete_latency.copy(),
            execute_latency=counters.execute_latency.copy(),
            process_latency=counters.process_latency.copy(),
        )

    def merge(self, other: "Stats") -> "Stats":
        """The sum of two snapshots of different processes of a component."""
        oldest = max(self, other, key=lambda each: each.oldest_input_seconds)
        stalled = max(self, other, key=lambda each: each.stalled_seconds)
        return Stats(
            component=self.component,
            pids=self.pids + other.pids,
            tasks=tuple(sorted({*self.tasks, *other.tasks})),
            task_executed=_sum(self.task_executed, other.task_executed),
            task_busy_ms=_sum(self.task_busy_ms, other.task_busy_ms),
            sources=other.sources or self.sources,
            emitted=self.emitted + other.emitted,
            transferred=self.transferred + other.transferred,
            executed=self.executed + other.executed,
            acked=self.acked + other.acked,
            failed=_sum(self.failed, other.failed),
            pending=self.pending + other.pending,
            oldest_input=oldest.oldest_input,
            oldest_input_seconds=oldest.oldest_input_seconds,
            stalled_seconds=stalled.stalled_seconds,
            stalled_by=stalled.stalled_by,
            ignored_notices=self.ignored_notices + other.ignored_notices,
            errors=self.errors + other.errors,
            last_error=other.last_error or self.last_error,
            dead_letters=self.dead_letters + other.dead_letters,
            undelivered=self.undelivered + other.undelivered,
            transactions=self.transactions + other.transactions,
            rollbacks=self.rollbacks + other.rollbacks,
            counters=_sum(self.counters, other.counters),
            throttled_seconds=self.throttled_seconds + other.throttled_seconds,
            complete_latency=self.complete_latency.merged(other.complete_latency),
            execute_latency=self.execute_latency.merged(other.execute_latency),
            process_latency=self.process_latency.merged(other.process_latency),
        )

    def retired(self) -> "Stats":
        """What remains true after the process has ended: the counts, but no pids, tasks and open inputs."""
        none: dict[str, Any] = {"oldest_input": "", "oldest_input_seconds": 0.0, "stalled_seconds": 0.0}
        return replace(self, pids=(), tasks=(), pending=0, stalled_by="", **none)

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as an object for JSON; a latency is bucket → count."""
        latencies = {name: dict(getattr(self, name).counts) for name in _LATENCIES}
        return {**asdict(replace(self, **_NO_LATENCIES)), **latencies}

    def to_json(self) -> str:
        """The snapshot as one line of JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Stats":
        """The snapshot behind the object that `to_dict` made; members that are not known here are skipped.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: if it is something else.
        """
        read = filter_known_fields(said, _EMPTY)
        for name in _LATENCIES:
            read[name] = LatencyHistogram({int(bucket): int(count) for bucket, count in read[name].items()})
        read["pids"] = tuple(read["pids"])
        read["tasks"] = tuple(read["tasks"])
        read["sources"] = tuple(str(topic) for topic in read.get("sources", ()))
        for name in ("failed", "counters", "task_executed", "task_busy_ms"):
            read[name] = {str(word): int(count) for word, count in read.get(name, {}).items()}
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
            raise SpoutSdkError(
                f"not a line of stats ({error!r}): {line[:80]!r}; do both ends run the same version?"
            ) from error


_EMPTY: Final = Stats("")
_LATENCIES: Final = ("complete_latency", "execute_latency", "process_latency")
_NO_LATENCIES: Final[dict[str, Any]] = {name: LatencyHistogram() for name in _LATENCIES}


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
