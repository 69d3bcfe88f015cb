"""The figures of a topology at work on this machine: a live screen on a terminal, plain lines anywhere else."""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from acker_cli.console import standard_error
from acker_cli.views.screen import by_reason, screen
from acker_cli.views.states import restore_in_words
from tuple_tree.timing import Interval

if TYPE_CHECKING:
    from inspection.health.findings import Finding
    from inspection.tracks import Latency
    from inspection.view import ComponentView, Snapshot

PLAIN_SECONDS: Final = 2.0
BOLT_SECONDS: Final = 30.0
"""Seconds between two lines of a process that runs bolts alone."""
_STDOUT: Final = 1
_STDERR: Final = 2
_READ_BYTES: Final = 1 << 16
_LAST_SECONDS: Final = 1.0

Lines = tuple[int, int]  # how many of a text are acked, and how many there are


class View:
    """Lines every two seconds, or a table that is drawn again and again, with all other output above it.

    In a process that runs bolts alone, lines come every half a minute.

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
        self._lines, self._bolt_lines = Interval(PLAIN_SECONDS, clock), Interval(BOLT_SECONDS, clock)
        self._clock, self._began = clock, clock()

    def show(self, snapshot: "Snapshot", findings: "Sequence[Finding]" = (), lines: Lines | None = None) -> None:
        """Shows figures; `lines` of the demo's text are acked."""
        if self._live is not None:
            drawn = screen(snapshot, self.console.width, findings or None)
            self._live.update(Group(drawn, "", _progress(*lines)) if lines else drawn)
            self._live.start(refresh=True)
            return
        seconds = self._clock() - self._began
        if any(each["kind"] == "spout" for each in snapshot["components"]):
            if self._lines.due():
                self.console.print(in_words(snapshot, seconds, lines))
        elif self._bolt_lines.due():
            self.console.print(bolts_in_words(snapshot, seconds))

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


def in_words(snapshot: "Snapshot", seconds: float, lines: Lines | None = None) -> str:
    """The figures of the spouts in a line; `seconds` since the start."""
    spouts = [each for each in snapshot["components"] if each["kind"] == "spout"]
    failed = sum((Counter(each["failed"]) for each in spouts), Counter())
    rate = sum(each["executed_per_second"] or 0.0 for each in snapshot["components"] if each["kind"] == "bolt")
    latencies = [latency for each in spouts if (latency := each["complete_latency"]) is not None]
    slowest = max(latencies, key=lambda latency: latency["p99"], default=None)
    states = [(each["name"], each["state"]["restore"]) for each in snapshot["components"] if each["state"] is not None]
    parts = [
        *(["{:,} of {:,} lines".format(*lines)] if lines else []),
        f"emitted {sum(each['totals']['emitted'] or 0 for each in spouts):,}",
        f"pending {sum(each['pending'] or 0 for each in spouts):,}",
        f"acked {sum(each['totals']['acked'] or 0 for each in spouts):,}",
        f"failed {by_reason(failed)}",
        f"{rate:,.0f} tuples/s",
        f"complete latency {latency_in_words(slowest)}",
        *(f"{name}: {restore_in_words(restore)}" for name, restore in states if restore is not None),
    ]
    return f"{seconds:5.1f} s  " + ", ".join(parts)


def bolts_in_words(snapshot: "Snapshot", seconds: float) -> str:
    """The figures of the bolts of a process, which runs no spout, in a line; `seconds` since the start."""
    return f"{seconds:5.1f} s  " + "; ".join(map(_bolt_in_words, snapshot["components"]))


def _bolt_in_words(bolt: "ComponentView") -> str:
    totals = bolt["totals"]
    parts = [
        f"executed {totals['executed'] or 0:,} ({bolt['executed_per_second'] or 0.0:,.0f}/s)",
        f"emitted {totals['emitted'] or 0:,}",
        f"acked {totals['acked'] or 0:,}",
        f"failed {by_reason(bolt['failed'])}",
        f"open {bolt['pending'] or 0:,}",
        *([f"{bolt['retrying']:,} wait for a retry"] if bolt["retrying"] else []),
        *([f"paused for {bolt['paused_seconds']:,.0f} s"] if bolt["paused_seconds"] else []),
        *([f"errors {bolt['errors']:,}"] if bolt["errors"] else []),
        f"latency {latency_in_words(bolt['process_latency'])}",
        *([restore_in_words(bolt["state"]["restore"])] if bolt["state"] and bolt["state"]["restore"] else []),
    ]
    return f"{bolt['name']}: {', '.join(parts)}"


def latency_in_words(latency: "Latency | None") -> str:
    """A latency in words; a dash where no tree was acked."""
    return "-" if latency is None else f"p50 {latency['p50']:,.0f} ms, p99 {latency['p99']:,.0f} ms"


def _progress(done: int, total: int) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(ProgressBar(total, done, width=40), f"{done:,} of {total:,} lines")
    return row
