"""Whether a word count that runs as services is right: `python -m examples.compose.verification`, `… spark` in Spark.

It waits until every line of the text is acked, and compares the counts with a plain count of the text. Lines are acked
up to the offsets that the spout has committed as done. The counts are the state of the topology; in Spark the words
that the last bolt has kept, each place in the text once.

Exit code 0 only if no line is a dead letter, and each word was counted as often as it is in the text; 1 if not, or if
nothing was acked for `WORD_COUNT_PATIENCE` seconds (120).
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from acker_cli.console import standard_output
from acker_cli.demo.progress import LinesDone, counted_words
from acker_cli.demo.text import comparison, lines, plain_count
from acker_cli.demo.word_count import Parameters
from acker_cli.interruption import Interrupted, interruptible
from acker_cli.settings.layers import load
from examples.compose.spark_word_count import counted_directory
from tuple_tree.timing import Interval, Stall

PATIENCE_VARIABLE: Final = "WORD_COUNT_PATIENCE"
_PATIENCE_SECONDS: Final = 120.0
_PRINT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Results:
    """Progress of a word count."""

    acked: Callable[[], int]  # lines
    dead_letters: Callable[[], int]
    counted: Callable[[], Counter[str]]


def words_kept(parameters: Parameters) -> Counter[str]:
    """The words that were kept in Spark, each place in the text once."""
    import pyarrow.dataset as ds

    directory = counted_directory(parameters)
    if not directory.exists():
        return Counter()
    places = ds.dataset(directory, format="parquet").to_table(columns=["line", "position", "word"])
    words = places.group_by(places.column_names).aggregate([]).column("word")
    return Counter({each["values"]: each["counts"] for each in words.value_counts().to_pylist()})


def is_right(
    results: Results,
    total: int,
    expected: Counter[str],
    patience: float,
    show: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """Waits until all lines are acked, or none was for `patience` seconds; shows and returns whether all is right."""
    stall, prints = Stall(patience), Interval(_PRINT_SECONDS, clock)
    while (done := results.acked()) < total and not stall.seconds(clock(), done):
        if prints.due():
            show(f"{done:,} of {total:,} lines acked")
        pause(_LOOK_SECONDS)
    dead, counted = results.dead_letters(), results.counted()
    if done < total:
        show(
            f"stopped: no line was acked for {patience:g} s. Look into the logs of the spout, the bolts and the "
            f"ackers, or wait longer with {PATIENCE_VARIABLE}"
        )
    show(f"{done:,} of {total:,} lines acked, {dead:,} of them dead letters")
    show(comparison(expected, counted))
    return done == total and not dead and counted == expected


def results_of(variant: str) -> Results:
    """The results of the word count that the environment names; `variant`: `spark`, or empty."""
    parameters, kafka = Parameters.from_environment(os.environ), load().cluster()
    done = LinesDone(kafka, parameters.name)
    in_spark, in_state = partial(words_kept, parameters), partial(counted_words, kafka, parameters.name)
    return Results(done.acked, done.dead_letters, in_spark if variant == "spark" else in_state)


def main(variant: str = "") -> int:
    """Verifies the word count that the environment names; returns the exit code."""
    parameters, results = Parameters.from_environment(os.environ), results_of(variant)
    patience = float(os.environ.get(PATIENCE_VARIABLE, _PATIENCE_SECONDS))
    text, show = lines(parameters.lines), standard_output().print
    try:
        with interruptible():
            return 0 if is_right(results, len(text), plain_count(parameters.lines), patience, show) else 1
    except Interrupted as interrupted:
        return interrupted.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
