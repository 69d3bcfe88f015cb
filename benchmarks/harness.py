"""Functions of all benchmarks: their flags, their rounds in turn, and the JSON that they print and keep in `results/`.

A result is one JSON object: `benchmark`, `machine`, `versions`, `settings`, `rows`, and `ratios` where rows are
compared. A figure that was measured in rounds is a `Spread`.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final, Self, TypeVar

import confluent_kafka

from local_kafka.distribution import KAFKA_VERSION

RESULTS: Final = Path(__file__).parent / "results"
_LIBRARIES: Final = ("kafka-acker", "confluent-kafka", "fastavro", "numba", "numpy")
_IDLE_LOAD: Final = 0.5
_IDLE_SECONDS: Final = 600.0
_WARM_RUNS: Final = 3

Name = TypeVar("Name")
Result = TypeVar("Result")


class BenchmarkError(Exception):
    """A run that measures nothing; the message ends with what to do."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds, the lowest and the highest, and each in order."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]

    @classmethod
    def of(cls, rounds: Sequence[float], digits: int | None = None) -> Self:
        """Of at least one round, rounded to `digits`; None for whole numbers."""
        rounded = tuple(round(one, digits) for one in rounds)
        return cls(round(median(rounds), digits), min(rounded), max(rounded), rounded)


def parser(description: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser with `--quick`, whose description is `quick`, and `--results`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help=f"{quick}: shows that it works; keeps nothing by itself")
    made.add_argument(
        "--results", type=Path, help=f"the directory to write to; by default {RESULTS.name}/ of benchmarks"
    )
    return made


def directory(given: argparse.Namespace, *, whole: bool = True) -> Path | None:
    """Where a result is kept: by default only that of a whole run, with its own settings; None for nowhere."""
    chosen: Path | None = given.results
    return RESULTS if chosen is None and whole and not given.quick else chosen


def await_idle(kept_in: Path | None) -> None:
    """Waits until the machine is idle before a comparison that becomes the published one: load is unfair to a JVM."""
    deadline = time.monotonic() + _IDLE_SECONDS
    while kept_in == RESULTS and (load := os.getloadavg()[0]) > _IDLE_LOAD:
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"The machine is busy (load average {load:.2f}): a published comparison needs an idle one. "
                "Stop what runs, or write elsewhere with --results DIRECTORY"
            )
        time.sleep(5)


def machine() -> dict[str, Any]:
    """The machine, and its load before the run: call it first."""
    processor = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        models = (line for line in info.read_text().splitlines() if line.startswith("model name"))
        processor = next(models, ":unknown").partition(":")[2].strip()
    return {
        "cpus": os.cpu_count(),
        "processor": processor,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "architecture": platform.machine(),
        "load_before": [round(one, 2) for one in os.getloadavg()],
    }


def publish(
    benchmark: str,
    host: Mapping[str, Any],
    rows: Sequence[Any],
    settings: Mapping[str, Any],
    kept_in: Path | None,
    *,
    versions: Mapping[str, str] | None = None,
    ratios: Mapping[str, float] | None = None,
) -> None:
    """Prints a result on standard output, and keeps it in a directory if there is one.

    `host` is what `machine` returned before the run; `versions` are those of peers and other libraries.
    """
    libraries = {name: version(name) for name in _LIBRARIES}
    kafka = {"kafka": KAFKA_VERSION, "librdkafka": str(confluent_kafka.libversion()[0])}
    result: dict[str, Any] = {
        "benchmark": benchmark,
        "machine": host,
        "versions": {"python": platform.python_version(), **kafka, **libraries, **(versions or {})},
        "settings": settings,
        "rows": rows,
    }
    if ratios is not None:
        result["ratios"] = ratios
    text = json.dumps(result, indent=2, default=asdict)
    print(text)
    if kept_in is not None:
        kept_in.mkdir(parents=True, exist_ok=True)
        (kept_in / f"{benchmark}.json").write_text(text + "\n")
        say(f"kept in {kept_in / f'{benchmark}.json'}")


def warm_rounds(contestants: int) -> int:
    """How many rounds before the first one warm up the broker: three runs at least.

    A new broker's Java compiles for half a minute, and a record costs it up to twenty times as much CPU time.
    """
    return -(-_WARM_RUNS // contestants)


def in_turn(
    contestants: Mapping[Name, Callable[[], Result]],
    rounds: int,
    *,
    warm: int = 0,
    shown: Callable[[Result], str] = str,
) -> dict[Name, list[Result]]:
    """Runs all contestants round by round, each time another one first, so that load from outside hits all alike.

    The `warm` rounds before do not count; `shown` is what is printed of a round.
    """
    results: dict[Name, list[Result]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(-warm, rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            result = contestants[name]()
            if number >= 0:
                results[name].append(result)
                say(f"round {number + 1}: {name} {shown(result)}")
    return results


def say(text: str) -> None:
    """Prints progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def run(main: Callable[[], None]) -> None:
    """Runs a benchmark; a `BenchmarkError` ends it with one line and exit code 1."""
    try:
        main()
    except BenchmarkError as error:
        sys.exit(str(error))
