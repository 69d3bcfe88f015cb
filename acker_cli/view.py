"""A topology at work: a live table on a terminal, plain lines anywhere else."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from acker_cli.captured_stderr import captured_stderr
from acker_cli.snapshot import TopologySnapshot, by_reason, in_words, latency_in_words

PLAIN_SECONDS: Final = 2.0
_BAR_WIDTH: Final = 40


class View(Protocol):
    """Shows a topology at work."""

    def show(self, snapshot: TopologySnapshot) -> None:
        """Shows how it stands now."""
        ...

    def note(self, text: str) -> None:
        """Tells of something that happened."""
        ...


class PlainView:
    """A line now and then.

    Args:
        console: where to.
        clock: seconds, rising.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._due = clock() + PLAIN_SECONDS

    def show(self, snapshot: TopologySnapshot) -> None:
        """Prints a line if it is time for one."""
        now = self._clock()
        if now >= self._due:
            self._due = now + PLAIN_SECONDS
            self._console.print(in_words(snapshot), markup=False)

    def note(self, text: str) -> None:
        """Prints the text."""
        self._console.print(text, markup=False)


class LiveView:
    """A table that is drawn again and again, with notes above it.

    Args:
        live: rich's live display, started.
    """

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, snapshot: TopologySnapshot) -> None:
        """Draws it anew."""
        self._live.update(drawn(snapshot))

    def note(self, text: str) -> None:
        """Prints the text above the table."""
        self._live.console.print(text, markup=False, emoji=False)


def open_view(console: Console) -> AbstractContextManager[View]:
    """The view that suits the console."""
    return _live(console) if console.is_terminal and not console.is_dumb_terminal else _plain(console)


@contextmanager
def _plain(console: Console) -> Iterator[View]:
    yield PlainView(console)


@contextmanager
def _live(console: Console) -> Iterator[View]:
    # On a descriptor of its own, because standard error is captured and the console may be on it.
    with open(os.dup(console.file.fileno()), "w", encoding="utf-8") as screen:
        own = Console(file=screen, force_terminal=True, highlight=False)
        with Live(console=own, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False) as live:
            view = LiveView(live)
            with captured_stderr(view.note):
                yield view


def drawn(snapshot: TopologySnapshot) -> RenderableType:
    """The snapshot as a table with lines below it."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("component", style="cyan")
    for heading in ("processes", "tasks", "emitted", "executed", "acked", "failed", "pending"):
        table.add_column(heading, justify="right")
    for name, stats in snapshot.components.items():
        table.add_row(
            name,
            str(len(stats.pids)),
            str(len(stats.tasks)),
            f"{stats.emitted:,}",
            "" if name in snapshot.spouts else f"{stats.executed:,}",
            f"{stats.acked:,}",
            by_reason(stats.failed) if name in snapshot.spouts else f"{sum(stats.failed.values()):,}",
            f"{stats.pending:,}",
        )
    lines: list[RenderableType] = [table, ""]
    summary = Table.grid(padding=(0, 2, 0, 0))
    summary.add_row(
        Text(f"{snapshot.seconds:.0f} s"),
        Text(f"{snapshot.rate:,.0f} tuples/s", "bold"),
        f"replayed {snapshot.replayed:,}",
        latency_in_words(snapshot.complete_latency),
    )
    lines.append(summary)
    if snapshot.ackers is not None:
        ackers = snapshot.ackers
        lines.append(
            f"{len(snapshot.acker_pids)} acker workers: {ackers.partitions} partitions, {ackers.pending:,} open trees, "
            f"{ackers.orphans:,} orphans, clock lag {ackers.clock_lag_ms:,} ms"
        )
    if snapshot.progress is not None:
        progress = snapshot.progress
        bar = Table.grid(padding=(0, 2, 0, 0))
        bar.add_row(
            ProgressBar(progress.total, progress.done, width=_BAR_WIDTH),
            f"{progress.done:,} of {progress.total:,} {progress.unit}",
        )
        lines.append(bar)
    return Group(*lines)
