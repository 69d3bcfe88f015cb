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
from pathlib import Path
from typing import Final, Protocol

from acker_cli.console import standard_output
from acker_cli.demo.report import Comparison
from acker_cli.demo.stores import acked_lines, counted_words, lines_acked_again
from acker_cli.demo.text import lines, plain_count
from acker_cli.demo.word_count import Parameters
from acker_cli.interruption import Interrupted, interruptible

PATIENCE_VARIABLE: Final = "WORD_COUNT_PATIENCE"
_PATIENCE_SECONDS: Final = 120.0
_SAY_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5


class Results(Protocol):
    """What a word count has done so far: how many lines are acked, and how many of them must not have been.

    `wrong` says what the latter are; `counted` are the words.
    """

    wrong: str

    def acked(self) -> int: ...
    def wrongly_acked(self) -> int: ...
    def counted(self) -> Counter[str]: ...


class KeptResults:
    wrong = "more than once"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def acked(self) -> int:
        return acked_lines(self._directory)

    def wrongly_acked(self) -> int:
        return lines_acked_again(self._directory)

    def counted(self) -> Counter[str]:
        return counted_words(self._directory)


class Verification:
    """Waits for the end of a word count, and judges it.

    Args:
        results: of the word count.
        total: how many lines the text has.
        expected: its words.
        patience: seconds without progress after which it is given up.
        say: takes lines about it.
        clock: seconds, rising.
        pause: waits so many seconds; lets them pass unless given.
    """

    def __init__(
        self,
        results: Results,
        total: int,
        expected: Counter[str],
        patience: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._results = results
        self._total = total
        self._expected = expected
        self._patience = patience
        self._say = say
        self._clock = clock
        self._pause = pause or threading.Event().wait

    def run(self) -> bool:
        """Waits until every line is acked, or nothing goes on any more; says and returns whether all is right."""
        done = self._wait()
        wrong = self._results.wrongly_acked()
        comparison = Comparison(self._expected, self._results.counted())
        if done < self._total:
            self._say(
                f"given up: no line was acked for {self._patience:g} s. Look into the logs of the spout, the bolts and "
                f"the ackers, or wait longer with {PATIENCE_VARIABLE}"
            )
        self._say(f"{done:,} of {self._total:,} lines acked, {wrong:,} of them {self._results.wrong}")
        self._say(comparison.in_words())
        return done == self._total and not wrong and comparison.matches

    def _wait(self) -> int:
        done = -1
        moved_at = printed_at = self._clock()
        while True:
            before, done = done, self._results.acked()
            now = self._clock()
            if done != before:
                moved_at = now
            if done >= self._total or now - moved_at > self._patience:
                return done
            if now - printed_at >= _SAY_SECONDS:
                printed_at = now
                self._say(f"{done:,} of {self._total:,} lines acked")
            self._pause(_LOOK_SECONDS)


def verified(results: Results) -> int:
    """Verifies results against the text that the environment names; returns the exit code."""
    output = standard_output()
    parameters = Parameters.from_environment(os.environ)
    patience = float(os.environ.get(PATIENCE_VARIABLE, _PATIENCE_SECONDS))
    verification = Verification(
        results,
        len(lines(parameters.lines)),
        plain_count(parameters.lines),
        patience,
        lambda line: output.print(line, markup=False),
    )
    try:
        with interruptible():
            return 0 if verification.run() else 1
    except Interrupted as interrupted:
        return interrupted.exit_code


if __name__ == "__main__":
    sys.exit(verified(KeptResults(Parameters.from_environment(os.environ).directory)))
