"""The command of a benchmark: the flags that all of them have, and how one ends that could not be run."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.results import DIRECTORY


def parser(description: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser with `--quick` and `--results`.

    Args:
        description: of the benchmark, as it is to be shown; with examples.
        quick: what `--quick` leaves of it.
    """
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--quick", action="store_true", help=f"{quick}: shows that it works; keeps nothing, unless --results is given"
    )
    made.add_argument("--results", type=Path, help=f"the directory to write to; {DIRECTORY.name}/ beside this module")
    return made


def directory(given: argparse.Namespace, *, whole: bool = True) -> Path | None:
    """Where the results of a run are to be kept; None for nowhere.

    Args:
        given: what was parsed.
        whole: False if a part of the comparison was left out.
    """
    chosen: Path | None = given.results
    if chosen is None and whole and not given.quick:
        return DIRECTORY
    return chosen


def run(main: Callable[[], None]) -> None:
    """Runs a benchmark; what cannot be measured is told in one line, with exit code 1."""
    try:
        main()
    except BenchmarkError as error:
        sys.exit(str(error))
