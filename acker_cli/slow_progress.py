"""Progress of what usually is quick: shown only once it has taken a while."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

PATIENCE_S: Final = 2.0
"""After how many seconds something is shown."""

Report = Callable[[str, int, int], None]
"""Called with what is done, and how much of how much."""


@contextmanager
def slow_progress(console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """Gives what to tell the progress to.

    On a terminal a bar appears after `PATIENCE_S` and goes away in the end; elsewhere a line says what takes so long.

    Args:
        console: where to.
        clock: seconds, rising.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    begun = clock()
    tasks: dict[str, TaskID] = {}

    def told(what: str, done: int, total: int) -> None:
        if clock() - begun < PATIENCE_S:
            return
        first = what not in tasks
        if first:
            tasks[what] = bar.add_task(f"reading {what}", total=total)
        bar.update(tasks[what], completed=done, total=total)
        if console.is_terminal:
            bar.start()
        elif first:
            console.print(f"reading {what}: {total:,} records …", markup=False)

    try:
        yield told
    finally:
        # To stop what never began would print an empty line.
        if bar.live.is_started:
            bar.stop()
