"""Whether a word count that runs as services is right: `python -m acker_cli.demo.verification`.

It reads what the tasks keep in `WORD_COUNT_DIRECTORY`, waits until every line is acked, and compares the counts with a
plain count of the text. Exit code 0 only if each line was acked exactly once and each word was counted as often as it
stands in the text; 1 if not, or if nothing was acked for `WORD_COUNT_PATIENCE` seconds (120).
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from acker_cli.console import standard_output
from acker_cli.demo.report import Comparison
from acker_cli.demo.stores import acked_lines, counted_words
from acker_cli.demo.text import lines, plain_count
from acker_cli.demo.word_count import Parameters
from acker_cli.interruption import Interrupted, interruptible

PATIENCE_VARIABLE: Final = "WORD_COUNT_PATIENCE"
_PATIENCE_SECONDS: Final = 120.0
_PRINT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5
_NEVER: Final = threading.Event()


@dataclass(frozen=True, slots=True)
class Results:
    """What a word count has done so far."""

    acked: Callable[[], int]  # lines
    wrong: str  # what is wrong with those that `wrongly_acked` counts
    wrongly_acked: Callable[[], int]
    counted: Callable[[], Counter[str]]


def kept_results(directory: Path) -> Results:
    again = partial(acked_lines, directory, least=2)
    return Results(partial(acked_lines, directory), "more than once", again, partial(counted_words, directory))


def is_right(
    results: Results,
    total: int,
    expected: Counter[str],
    patience: float,
    show: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = _NEVER.wait,
) -> bool:
    """Waits until all lines are acked, or none was for `patience` seconds; shows and returns whether all is right."""
    done, acked_at, shown_at = -1, clock(), clock()
    while True:
        before, done, now = done, results.acked(), clock()
        acked_at = now if done != before else acked_at
        if done >= total or now - acked_at > patience:
            break
        if now - shown_at >= _PRINT_SECONDS:
            shown_at = now
            show(f"{done:,} of {total:,} lines acked")
        pause(_LOOK_SECONDS)
    wrong = results.wrongly_acked()
    comparison = Comparison(expected, results.counted())
    if done < total:
        show(
            f"given up: no line was acked for {patience:g} s. Look into the logs of the spout, the bolts and the "
            f"ackers, or wait longer with {PATIENCE_VARIABLE}"
        )
    show(f"{done:,} of {total:,} lines acked, {wrong:,} of them {results.wrong}")
    show(comparison.in_words())
    return done == total and not wrong and comparison.matches


def verified(results: Results) -> int:
    """Verifies results against the text that the environment names; returns the exit code."""
    parameters = Parameters.from_environment(os.environ)
    patience = float(os.environ.get(PATIENCE_VARIABLE, _PATIENCE_SECONDS))
    text, show = lines(parameters.lines), partial(standard_output().print, markup=False)
    try:
        with interruptible():
            return 0 if is_right(results, len(text), plain_count(parameters.lines), patience, show) else 1
    except Interrupted as interrupted:
        return interrupted.exit_code


if __name__ == "__main__":
    sys.exit(verified(kept_results(Parameters.from_environment(os.environ).directory)))
