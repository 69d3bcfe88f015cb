"""Whether a word count that runs as services is right: `python -m examples.compose.verification`, `… spark` in Spark.

It waits until every line of the text is acked, and compares the counts with a plain count of the text. Of the plain
topology it reads what the tasks keep in `WORD_COUNT_DIRECTORY`; of that in Spark the offsets that the spout has
committed as done, and the words that the last bolt has kept, each place in the text once.

Exit code 0 only if no line was acked more than once (in Spark: none is a dead letter), and each word was counted as
often as it is in the text; 1 if not, or if nothing was acked for `WORD_COUNT_PATIENCE` seconds (120).
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from acker_cli.console import standard_output
from acker_cli.demo.stores import acked_lines, counted_words
from acker_cli.demo.text import comparison, lines, plain_count
from acker_cli.demo.word_count import LINES, Parameters
from acker_cli.interruption import Interrupted, interruptible
from acker_cli.settings.layers import load
from examples.compose.spark_word_count import PARTITIONS, counted_directory, text_topic
from kafka_clients.client_settings import for_consumer
from kafka_clients.log_reader import watermarks
from tuple_tree.names import component_group, dead_letters_topic
from tuple_tree.timing import Interval, Stall

PATIENCE_VARIABLE: Final = "WORD_COUNT_PATIENCE"
_PATIENCE_SECONDS: Final = 120.0
_PRINT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5
_KAFKA_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Results:
    """Progress of a word count."""

    acked: Callable[[], int]  # lines
    wrong: str  # the problem of the lines that `wrongly_acked` counts
    wrongly_acked: Callable[[], int]
    counted: Callable[[], Counter[str]]


def kept_results(directory: Path) -> Results:
    again = partial(acked_lines, directory, least=2)
    return Results(partial(acked_lines, directory), "more than once", again, partial(counted_words, directory))


def spark_results(kafka: Mapping[str, Any], parameters: Parameters) -> Results:
    group = component_group(parameters.name, LINES)
    consumer = Consumer({**for_consumer(kafka), "group.id": group, "enable.auto.commit": False})

    def acked() -> int:
        """How many lines the spout has committed as done: those before the first one that is open."""
        asked = [TopicPartition(text_topic(parameters), number) for number in range(PARTITIONS)]
        return sum(max(each.offset, 0) for each in consumer.committed(asked, timeout=_KAFKA_SECONDS))

    def dead_letters() -> int:
        return watermarks(consumer, TopicPartition(dead_letters_topic(parameters.name), 0), _KAFKA_SECONDS)[1]

    def counted() -> Counter[str]:
        """The words that were kept, each place in the text once."""
        import pyarrow.dataset as ds

        directory = counted_directory(parameters)
        if not directory.exists():
            return Counter()
        places = ds.dataset(directory, format="parquet").to_table(columns=["line", "position", "word"])
        words = places.group_by(places.column_names).aggregate([]).column("word")
        return Counter({each["values"]: each["counts"] for each in words.value_counts().to_pylist()})

    return Results(acked, "dead letters", dead_letters, counted)


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
    wrong, counted = results.wrongly_acked(), results.counted()
    if done < total:
        show(
            f"stopped: no line was acked for {patience:g} s. Look into the logs of the spout, the bolts and the "
            f"ackers, or wait longer with {PATIENCE_VARIABLE}"
        )
    show(f"{done:,} of {total:,} lines acked, {wrong:,} of them {results.wrong}")
    show(comparison(expected, counted))
    return done == total and not wrong and counted == expected


def results_of(variant: str) -> Results:
    """The results of the word count that the environment names; `variant`: `spark`, or empty."""
    parameters = Parameters.from_environment(os.environ)
    if variant == "spark":
        return spark_results(load().cluster(), parameters)
    return kept_results(parameters.directory)


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
