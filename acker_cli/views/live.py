"""The figures of a topology at work on this machine: a live table on a terminal, plain lines anywhere else."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from acker_worker.stats import WorkerStats
from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.timing import Interval

PLAIN_SECONDS: Final = 2.0
_STDERR: Final = 2
_REPLAYED: Final = "replayed"
"""The counter of a spout for what it has emitted again."""


@dataclass(frozen=True, slots=True)
class TopologySnapshot:
    """A topology at work."""

    seconds: float  # since it was started
    spouts: frozenset[str]  # the names of all
    components: Mapping[str, Stats]  # of those that run here, in the topology's order
    rate: float = 0.0  # tuple deliveries executed a second, over the last seconds
    acker_pids: tuple[int, ...] = ()  # of the acker workers started here
    ackers: WorkerStats | None = None  # their sum; None if none was started here
    lines: tuple[int, int] | None = None  # of the demo's text: how many are acked, and how many there are

    @property
    def at_spouts(self) -> Stats:
        """The sum over the spouts."""
        spouts = (stats for name, stats in self.components.items() if name in self.spouts)
        return reduce(Stats.merge, spouts, Stats("spouts"))

    @property
    def replayed(self) -> int:
        """Tuples emitted again, where spouts count them."""
        return self.at_spouts.counters.get(_REPLAYED, 0)

    @property
    def executed(self) -> int:
        """Tuple deliveries executed by bolts."""
        return sum(stats.executed for stats in self.components.values())


class View:
    """Lines every few seconds, or a table that is drawn again and again, with notes above it."""

    def __init__(self, console: Console, live: Live | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._live = live
        self._lines = Interval(PLAIN_SECONDS, clock)

    def show(self, snapshot: TopologySnapshot) -> None:
        if self._live is not None:
            self._live.update(drawn(snapshot))
        elif self._lines.due():
            self._console.print(in_words(snapshot))

    def note(self, text: str) -> None:
        self._console.print(text)


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    if not console.is_terminal or console.is_dumb_terminal:
        yield View(console)
        return
    # On a descriptor of its own, because standard error is captured and the console may be on it.
    with open(os.dup(console.file.fileno()), "w", encoding="utf-8") as screen:
        own = Console(file=screen, force_terminal=True, markup=False, highlight=False, emoji=False)
        with Live(console=own, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False) as live:
            view = View(own, live)
            with _captured_stderr(view.note):
                yield view


@contextmanager
def _captured_stderr(on_line: Callable[[str], None]) -> Iterator[None]:
    """Redirects the file descriptor, so that child processes and C libraries are caught as well.

    `on_line` is called for each line, in a thread of its own; it must not write to standard error itself.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    incoming, outgoing = os.pipe()
    os.dup2(outgoing, _STDERR)
    os.close(outgoing)

    def read() -> None:
        # A child that outlives the view holds the pipe open, so the thread is a daemon and is not waited for long.
        with open(incoming, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                on_line(line.rstrip("\n"))

    reader = threading.Thread(target=read, name="captured-stderr", daemon=True)
    reader.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, _STDERR)
        os.close(original)
        reader.join(1.0)


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
    trees = snapshot.at_spouts
    parts = [
        *(["{:,} of {:,} lines".format(*snapshot.lines)] if snapshot.lines else []),
        f"emitted {trees.emitted:,}",
        f"pending {trees.pending:,}",
        f"acked {trees.acked:,}",
        f"failed {by_reason(trees.failed)}",
        f"replayed {snapshot.replayed:,}",
        f"{snapshot.rate:,.0f} tuples/s",
        latency_in_words(trees.complete_latency),
    ]
    return f"{snapshot.seconds:5.1f} s  " + ", ".join(parts)


def drawn(snapshot: TopologySnapshot) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("component", style="cyan")
    for heading in ("processes", "tasks", "emitted", "executed", "acked", "failed", "pending"):
        table.add_column(heading, justify="right")
    for name, stats in snapshot.components.items():
        is_spout = name in snapshot.spouts
        table.add_row(
            name,
            str(len(stats.pids)),
            str(len(stats.tasks)),
            f"{stats.emitted:,}",
            "" if is_spout else f"{stats.executed:,}",
            f"{stats.acked:,}",
            by_reason(stats.failed) if is_spout else f"{sum(stats.failed.values()):,}",
            f"{stats.pending:,}",
        )
    lines: list[RenderableType] = [
        table,
        "",
        _row(
            f"{snapshot.seconds:.0f} s",
            Text(f"{snapshot.rate:,.0f} tuples/s", "bold"),
            f"replayed {snapshot.replayed:,}",
            latency_in_words(snapshot.at_spouts.complete_latency),
        ),
    ]
    if (ackers := snapshot.ackers) is not None:
        lines.append(
            f"{len(snapshot.acker_pids)} acker workers: {ackers.partitions} partitions, {ackers.pending:,} open trees, "
            f"{ackers.orphans:,} orphans, clock lag {ackers.clock_lag_ms:,} ms"
        )
    if snapshot.lines is not None:
        done, total = snapshot.lines
        lines.append(_row(ProgressBar(total, done, width=40), f"{done:,} of {total:,} lines"))
    return Group(*lines)


def _row(*cells: RenderableType) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(*cells)
    return row
