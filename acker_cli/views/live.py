"""The figures of a topology at work on this machine: a live table on a terminal, plain lines anywhere else."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from acker_cli.console import standard_error
from acker_cli.views.states import restore_in_words
from acker_worker.stats import WorkerStats
from inspection.state_figures import restore_figures
from spout_sdk.statistics.stats import Stats
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason
from tuple_tree.timing import Interval

PLAIN_SECONDS: Final = 2.0
_STDOUT: Final = 1
_STDERR: Final = 2
_READ_BYTES: Final = 1 << 16
_LAST_SECONDS: Final = 1.0
_REPLAYED: Final = "replayed"
"""The counter of a spout for what it has emitted again."""


@dataclass(frozen=True, slots=True)
class TopologySnapshot:
    """A topology at work."""

    seconds: float  # since it was started
    spouts: frozenset[str]  # the names of all
    components: Mapping[str, Stats]  # components that run here, in the topology's order
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
    def restores(self) -> list[str]:
        """In words, how far the restore of each state is that is restored now."""
        states = [(name, stats.state) for name, stats in self.components.items() if stats.state is not None]
        restores = [(name, restore_figures(state)) for name, state in states]
        return [f"{name}: {restore_in_words(restore)}" for name, restore in restores if restore is not None]

    @property
    def executed(self) -> int:
        """Tuple deliveries executed by bolts."""
        return sum(stats.executed for stats in self.components.values())


class View:
    """Lines every few seconds, or a table that is drawn again and again, with all other output above it.

    Attributes:
        console: for results and notes, in this thread or another.
        progress: for the progress of what is done before the first figures.
    """

    def __init__(
        self,
        console: Console,
        live: Live | None = None,
        clock: Callable[[], float] = time.monotonic,
        progress: Console | None = None,
    ) -> None:
        self.console = console
        self.progress = progress or console
        self._live = live
        self._lines = Interval(PLAIN_SECONDS, clock)

    def show(self, snapshot: TopologySnapshot) -> None:
        if self._live is not None:
            self._live.update(drawn(snapshot))
            self._live.start(refresh=True)
        elif self._lines.due():
            self.console.print(in_words(snapshot))

    def note(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    """A view, which is a table if the console is a terminal.

    Then it is entered before any process is started, because a process keeps the standard output and error that it was
    started with: what all of them write there appears above the table, a line at a time.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        yield View(console, progress=standard_error())
        return
    sys.stdout.flush()
    sys.stderr.flush()
    # On a descriptor of its own, because those of the console are captured.
    with open(os.dup(console.file.fileno()), "w", encoding="utf-8") as screen:
        own = Console(file=screen, force_terminal=True, markup=False, highlight=False, emoji=False)
        live = Live(console=own, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False)
        view = View(own, live)
        try:
            with _captured([each for each in (_STDOUT, _STDERR) if os.isatty(each)], view.note):
                yield view
        finally:
            live.stop()


@contextmanager
def _captured(descriptors: Sequence[int], on_text: Callable[[str], None]) -> Iterator[None]:
    """Redirects standard output or error as file descriptors, so that child processes and C libraries are caught too.

    `on_text` is called with one or more whole lines, in a thread of its own; it must not write to them itself.
    """
    originals = {each: os.dup(each) for each in descriptors}
    incoming, outgoing = os.pipe()
    for each in descriptors:
        os.dup2(outgoing, each)
    os.close(outgoing)
    lock, ended = threading.Lock(), False

    def pass_on(text: bytes) -> None:
        with lock:
            if ended:
                os.write(_STDERR, text)
            elif text:
                on_text(text.rstrip(b"\n").decode(errors="replace"))

    def read() -> None:
        unfinished = b""
        while chunk := os.read(incoming, _READ_BYTES):
            # A progress bar goes back to the beginning of its line; each state of it becomes a line.
            whole, newline, unfinished = (unfinished + chunk.replace(b"\r", b"\n")).rpartition(b"\n")
            pass_on(whole + newline)
        pass_on(unfinished)
        os.close(incoming)

    # A process that outlives the view holds the pipe open, so the thread is a daemon and is not waited for long.
    reader = threading.Thread(target=read, name="captured-output", daemon=True)
    reader.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for each, original in originals.items():
            os.dup2(original, each)
            os.close(original)
        reader.join(_LAST_SECONDS)
        with lock:
            ended = True


def by_reason(failed: Mapping[str, int]) -> str:
    """Failures in words, such as `12 (by a bolt: 10, timeout: 2)`."""
    if not failed:
        return "0"
    words = {FailReason.FAILED.word: "by a bolt"}
    reasons = ", ".join(f"{words.get(reason, reason)}: {count:,}" for reason, count in sorted(failed.items()))
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
        *snapshot.restores,
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
    lines += [Text(restore, "yellow") for restore in snapshot.restores]
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
