"""Runs everything on this machine, until the last line is acked, or until Ctrl-C."""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

import spark_jobs
from examples.austen_sentiment.report import novels, table
from examples.austen_sentiment.text import environment, read_lines, write_text
from examples.austen_sentiment.topology import LINES, SENTIMENT, TOTALS, lines, sentiment, topology
from examples.austen_sentiment.totals import COUNTED, REPEATED, read_totals
from examples.one_machine import Machine, one_machine
from spark_jobs import RunningSpout

_REFERENCE: Final = "examples.austen_sentiment:topology"


def main() -> int:
    """Runs it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.austen_sentiment", description=__doc__)
    parser.add_argument("--lines", type=int, metavar="N", help="only the first N lines of each novel")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")
    given = parser.parse_args()
    console = Console(stderr=given.json, highlight=False, soft_wrap=True)
    text = list(read_lines(given.lines))
    with ExitStack() as cleaning:
        directory = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix="austen-")))
        write_text(directory / "text", text)
        console.print(f"{len(text):,} lines; starting Apache Kafka and Apache Spark …")
        machine = cleaning.enter_context(one_machine(_REFERENCE, environment(directory)))
        began = time.monotonic()
        running = _run(machine, directory / "checkpoints", console)
        seconds = time.monotonic() - began
        found = novels(read_totals(directory))
        if machine.stopping:
            return machine.stopping.exit_code
    outcomes = running.outcomes
    console.print(table(found), soft_wrap=False)
    console.print(f"{outcomes.acked:,} lines acked, {outcomes.outstanding} open, in {seconds:.0f} s")
    if given.json:
        result = {
            "acked": outcomes.acked,
            "open": outcomes.outstanding,
            "replayed": outcomes.failed + outcomes.lost,
            "seconds": round(seconds, 1),
            "novels": {novel.title: novel.to_json() for novel in found},
        }
        print(json.dumps(result))
    return 0


def _run(machine: Machine, checkpoints: Path, console: Console) -> RunningSpout:
    """Runs the Spark components until every line has its outcome, or a signal to stop."""
    began = time.monotonic()
    whole = topology()
    bolt = spark_jobs.bolt(
        machine.spark, whole, SENTIMENT, sentiment, kafka=machine.kafka, checkpoint=str(checkpoints / SENTIMENT)
    )
    running = spark_jobs.spout(
        machine.spark,
        whole,
        LINES,
        lines(machine.spark),
        kafka=machine.kafka,
        checkpoint=str(checkpoints / LINES),
        # On a cluster it runs without end. Here it ends with the text.
        trigger={"availableNow": True},
    )
    shown = ""
    try:
        while not (machine.stopping or running.wait(1)):
            machine.check(bolt)
            counted = machine.processes.components.stats()[TOTALS].counters
            now = (
                f"{running.outcomes.acked:,} lines acked, {running.outcomes.outstanding:,} open, "
                f"{counted.get(COUNTED, 0):,} rated words counted, {counted.get(REPEATED, 0):,} repeats left out"
            )
            if now != shown:
                console.print(f"{time.monotonic() - began:5.1f} s  {now}")
                shown = now
        if machine.stopping:
            console.print("stopping …")
    finally:
        running.stop()
        bolt.stop()
    return running


if __name__ == "__main__":
    sys.exit(main())
