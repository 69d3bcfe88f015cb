"""What a process, or all processes of a component together, have done so far."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from spout_sdk.errors import SpoutSdkError
from spout_sdk.statistics.counters import Counters, Counts
from tuple_tree.latency import LatencyHistogram
from tuple_tree.process_stats import filter_known_fields

NO_INPUT: Final = (0.0, "")
"""Seconds and place of the oldest open input where none is open."""


@dataclass(slots=True)
class Stats(Counts):
    """A snapshot; it also has all that `Counts` lists, since the start of the process.

    Attributes:
        component: whose.
        pids: of the processes that it sums up.
        tasks: that they own now.
        task_executed: of a bolt, task → tuples handed to it.
        task_busy_ms: of a bolt, task → milliseconds for which it executed tuples.
        sources: topics that a `KafkaSpout` reads, in its order.
        pending: trees of a spout that are open now; for a bolt, inputs that are neither acked nor failed.
        oldest_input: of a bolt, the input that is open for longest, as `topic[partition] offset N`; it holds the
            committed offset. Empty if none is open.
        oldest_input_seconds: for how long, to within a second.
        stalled_seconds: for how long there has been work of which nothing was done; 0 where all is done. Of a spout it
            is counted from the message timeout on.
        stalled_by: what that is; empty where all is done.
        counters: your own, from `TaskContext.count`.
    """

    component: str
    pids: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    task_executed: Mapping[str, int] = field(default_factory=dict)
    task_busy_ms: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    pending: int = 0
    oldest_input: str = ""
    oldest_input_seconds: float = 0.0
    stalled_seconds: float = 0.0
    stalled_by: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)

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
            component,
            (pid,),
            tuple(sorted(tasks)),
            task_executed={str(task): load.executed for task, load in counters.loads.items()},
            task_busy_ms={str(task): round(load.busy_seconds * 1000) for task, load in counters.loads.items()},
            sources=tuple(sources),
            pending=pending,
            oldest_input=oldest_input[1],
            oldest_input_seconds=oldest_input[0],
            stalled_seconds=stalled[0],
            stalled_by=stalled[1],
            counters=dict(counters.users),
            **counters.copied(),
        )

    def merge(self, other: "Stats") -> "Stats":
        """The sum of two snapshots of different processes of a component."""
        oldest = max(self, other, key=lambda each: each.oldest_input_seconds)
        stalled = max(self, other, key=lambda each: each.stalled_seconds)
        added = (*(each.name for each in fields(Counts)), "pending", "counters", "task_executed", "task_busy_ms")
        return replace(
            self,
            pids=self.pids + other.pids,
            tasks=tuple(sorted({*self.tasks, *other.tasks})),
            sources=other.sources or self.sources,
            oldest_input=oldest.oldest_input,
            oldest_input_seconds=oldest.oldest_input_seconds,
            stalled_seconds=stalled.stalled_seconds,
            stalled_by=stalled.stalled_by,
            **{name: _sum(getattr(self, name), getattr(other, name)) for name in added},
        )

    def retired(self) -> "Stats":
        """What remains true after the process has ended: the counts, but no pids, tasks and open inputs."""
        ended = replace(self, pids=(), tasks=(), pending=0)
        return replace(ended, oldest_input="", oldest_input_seconds=0.0, stalled_by="", stalled_seconds=0.0)

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as an object for JSON; a latency is bucket → count."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: dict(value.counts) if isinstance(value, LatencyHistogram) else value for name, value in values}

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
    """Of two counts, of two mappings of counts, or of two histograms; of two texts the later one that is not empty."""
    if isinstance(left, LatencyHistogram):
        return left.merged(right)
    if isinstance(left, str):
        return right or left
    if isinstance(left, Mapping):
        return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
    return left + right
