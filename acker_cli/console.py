"""Output to the terminal: results on standard output; progress, logs and errors on standard error."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from acker_cli.errors import CliError

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.text import Text

_NO_TERMINAL: Final = 1_000
SLOW_SECONDS: Final = 2.0
"""Seconds after which progress is shown."""


def standard_output() -> Console:
    return _console()


def standard_error() -> Console:
    return _console(stderr=True)


def _console(**more: Any) -> Console:
    """Prints text as it is: what Kafka and users wrote may look like markup."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True, **more)


def print_table(output: Console, headings: Sequence[str], rows: Iterable[Sequence["str | Text"]]) -> None:
    """Prints a table without lines, with names in its first column."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for name, *cells in rows:
        table.add_row(Text(str(name), "cyan"), *(Text(cell) if isinstance(cell, str) else cell for cell in cells))
    unlimited(output).print(table)


def unlimited(output: Console) -> Console:
    """The same console; without a terminal, a row is a line, however long."""
    if not output.is_terminal:
        output.width = _NO_TERMINAL
    return output


def print_json(value: Mapping[str, Any]) -> None:
    standard_output().print(json.dumps(value))


def confirm(question: str, declined: str, *, on_stderr: bool) -> None:
    """Asks before something is changed; raises `CliError` if the answer is no, or there is no terminal."""
    import typer

    if not sys.stdin.isatty():
        raise CliError("standard input is no terminal, so there is no prompt: --yes continues without asking")
    if not typer.confirm(question, err=on_stderr):
        raise CliError(declined)


def log_to_stderr(level: str, *, brief: bool = False) -> None:
    """Sends the log from this level on to standard error; `brief`: only the messages."""
    whole = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=level.upper(), format="%(message)s" if brief else whole)


@contextmanager
def slow_progress(
    console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str, int, int], None]]:
    """Yields a function that takes what is read, how many records are, and of how many.

    After `SLOW_SECONDS` a terminal shows a bar until the end; elsewhere a line names what is read.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    begun = clock()
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int) -> None:
        if clock() - begun < SLOW_SECONDS:
            return
        first = what not in tasks
        if first:
            tasks[what] = bar.add_task(f"reading {what}", total=total)
        bar.update(tasks[what], completed=done, total=total)
        if console.is_terminal:
            bar.start()
        elif first:
            console.print(f"reading {what}: {total:,} records …")

    try:
        yield show
    finally:
        # To stop a bar that was not started would print an empty line.
        if bar.live.is_started:
            bar.stop()
