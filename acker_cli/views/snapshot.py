"""The figures of a running topology, as the views show them."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from acker_worker.stats import WorkerStats
from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram

ACKER_LOOP: Final = "acker"
"""The name of the loop of acker workers; the others have the name of their component."""
_WINDOW_SECONDS: Final = 3.0
REPLAYED: Final = "replayed"
"""The counter of a spout for what it has emitted again."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of something that ends is done; `unit` in the plural."""

    done: int
    total: int
    unit: str


@dataclass(frozen=True, slots=True)
class TopologySnapshot:
    """A topology at work."""

    seconds: float  # since it was started
    spouts: frozenset[str]  # their names
    components: Mapping[str, Stats]  # by component, in the topology's order
    rate: float = 0.0  # tuple deliveries executed a second, over the last seconds
    acker_pids: tuple[int, ...] = ()  # of the acker workers started here
    ackers: WorkerStats | None = None  # their sum; None if none was started here
    progress: Progress | None = None  # of a topology that comes to an end

    @property
    def at_spouts(self) -> Stats:
        """The sum over the spouts."""
        return reduce(Stats.merge, (self.components[name] for name in self.spouts), Stats("spouts"))

    @property
    def replayed(self) -> int:
        """Tuples emitted again, where spouts count them."""
        return self.at_spouts.counters.get(REPLAYED, 0)

    @property
    def executed(self) -> int:
        """Tuple deliveries executed by bolts."""
        return sum(stats.executed for stats in self.components.values())

    @property
    def stalls(self) -> dict[str, tuple[float, str]]:
        """Component, and `acker` → for how many seconds nothing was done though there was work, and what that is."""
        stalls = {name: (stats.stalled_seconds, stats.stalled_by) for name, stats in self.components.items()}
        return stalls if self.ackers is None else {**stalls, ACKER_LOOP: self.ackers.stalled}


class Rate:
    """A rate over the last few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: deque[tuple[float, int]] = deque()

    def update(self, count: int) -> float:
        """Takes the count so far; returns the rate over the window."""
        now = self._clock()
        self._counts.append((now, count))
        while len(self._counts) > 2 and now - self._counts[1][0] >= _WINDOW_SECONDS:
            self._counts.popleft()
        since, before = self._counts[0]
        return (count - before) / (now - since) if now > since else 0.0


def by_reason(failed: Mapping[str, int]) -> str:
    """Failures in words, such as `12 (10 failed, 2 timeout)`."""
    if not failed:
        return "0"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(failed.items()))
    return f"{sum(failed.values()):,} ({reasons})"


def latency_in_words(latency: LatencyHistogram) -> str:
    """Complete latencies in words; a dash where no tree was acked yet."""
    if not latency.total:
        return "complete latency -"
    return f"complete latency p50 {latency.quantile(0.5) * 1e3:,.0f} ms, p99 {latency.quantile(0.99) * 1e3:,.0f} ms"


def in_words(snapshot: TopologySnapshot) -> str:
    progress, trees = snapshot.progress, snapshot.at_spouts
    parts = [] if progress is None else [f"{progress.done:,} of {progress.total:,} {progress.unit}"]
    parts += [
        f"emitted {trees.emitted:,}",
        f"pending {trees.pending:,}",
        f"acked {trees.acked:,}",
        f"failed {by_reason(trees.failed)}",
        f"replayed {snapshot.replayed:,}",
        f"{snapshot.rate:,.0f} tuples/s",
        latency_in_words(trees.complete_latency),
    ]
    return f"{snapshot.seconds:5.1f} s  " + ", ".join(parts)
