"""The core of all benchmarks: options, rounds in turn, their spread, and the JSON that is printed and kept.

A result is one JSON object: `benchmark`, `machine`, `versions`, `settings`, and `rows`. A figure that was measured in
rounds is a `Spread`.
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
import psutil

from local_kafka.distribution import KAFKA_VERSION

RESULTS: Final = Path(__file__).parent / "results"
_LIBRARIES: Final = ("kafka-acker", "confluent-kafka", "fastavro", "numba", "numpy")
_IDLE_LOAD: Final = 0.5
_IDLE_SECONDS: Final = 600.0
_WARM_RUNS: Final = 3

Name = TypeVar("Name")
Result = TypeVar("Result")


_PLAN: Final = "ACKER_BENCHMARK_PLAN"


class BenchmarkError(Exception):
    """A run that measures nothing; the message ends with what to do."""


class Plan:
    """The base of dataclasses with the settings of a run, which each process of a topology reads to build the same."""

    __slots__ = ()

    @property
    def environment(self) -> dict[str, str]:
        settings: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {_PLAN: json.dumps(settings)}

    @classmethod
    def from_environment(cls) -> Self:
        return cls(**json.loads(os.environ[_PLAN]))


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


def spreads(rounds: Sequence[Mapping[str, float]], digits: int = 2) -> dict[str, Spread]:
    """Figure → its spread over rounds, rounded to `digits`; rates (`…per_s…`) are whole numbers."""
    return {
        figure: Spread.of([each[figure] for each in rounds], None if "per_s" in figure else digits)
        for figure in rounds[0]
    }


class Benchmark:
    """The command line of a benchmark, and its result.

    A run is kept in `results/` if it is not quick and its options have their defaults, `--rounds` excepted; another one
    only with `--results`.
    """

    def __init__(self, name: str, description: str | None, *, quick: str = "one short round", rounds: int = 5) -> None:
        self.name = name
        self.parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )
        self.parser.add_argument("--quick", action="store_true", help=f"{quick}, as a test: the result is not kept")
        self.parser.add_argument("--results", type=Path, help=f"directory of the result; by default {RESULTS.name}/")
        self.kept_in: Path | None = None
        self.rounds = 1
        self._settings: dict[str, Any] = {}
        self._machine: dict[str, Any] = {}
        self._defaults: dict[str, tuple[Any, Any]] = {}
        self.option("--rounds", rounds, quick=1, help="rounds that count")

    def option(self, flag: str, default: Any, *, quick: Any = None, **more: Any) -> None:
        """Adds an option, which is a setting of the result, with another default in a quick run if there is one."""
        if default is False:
            more["action"] = "store_true"
        else:
            more.setdefault("type", type(default))
            shown = " ".join(map(str, default)) if isinstance(default, list) else default
            more["help"] += f"; {'none' if shown == '' else shown} by default"
        action = self.parser.add_argument(flag, default=None, **more)
        self._defaults[action.dest] = default, default if quick is None else quick

    def start(self) -> argparse.Namespace:
        """Parses the command line, and waits for an idle machine if the result is to be published."""
        given = self.parser.parse_args()
        whole = not given.quick
        for name, (default, quick) in self._defaults.items():
            if getattr(given, name) is None:
                setattr(given, name, quick if given.quick else default)
            whole &= name == "rounds" or getattr(given, name) == default
            self._settings[name] = getattr(given, name)
        self.rounds = given.rounds
        self.kept_in = given.results or (RESULTS if whole else None)
        await_idle(self.kept_in)
        self._machine = machine()
        return given

    def publish(self, rows: Sequence[Any], versions: Mapping[str, str] | None = None, **settings: Any) -> None:
        """Prints the result on standard output, and keeps it in a directory if there is one.

        `versions` are those of peers and other libraries; `settings` are added to the options.
        """
        libraries = {name: version(name) for name in _LIBRARIES}
        kafka = {"kafka": KAFKA_VERSION, "librdkafka": str(confluent_kafka.libversion()[0])}
        result = {
            "benchmark": self.name,
            "machine": self._machine,
            "versions": {"python": platform.python_version(), **kafka, **libraries, **(versions or {})},
            "settings": {**self._settings, **settings},
            "rows": rows,
        }
        text = json.dumps(result, indent=2, default=asdict)
        print(text)
        if self.kept_in is not None:
            self.kept_in.mkdir(parents=True, exist_ok=True)
            (self.kept_in / f"{self.name}.json").write_text(text + "\n")
            say(f"kept in {self.kept_in / f'{self.name}.json'}")


def await_idle(kept_in: Path | None) -> None:
    """Waits until the machine is idle before a result is published: load is unfair to a JVM."""
    deadline = time.monotonic() + _IDLE_SECONDS
    while kept_in == RESULTS and (load := os.getloadavg()[0]) > _IDLE_LOAD:
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"The machine is busy (load average {load:.2f}): a published result needs an idle one. "
                "Stop what runs, or write elsewhere with --results DIRECTORY"
            )
        time.sleep(5)


def machine() -> dict[str, Any]:
    """The machine, and its load before the run."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.partition(":")[2].strip() for line in info if line.startswith("model name"))
    return {
        "cpus": os.cpu_count(),
        "processor": next(models, platform.processor()),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "architecture": platform.machine(),
        "load_before": [round(one, 2) for one in os.getloadavg()],
    }


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


def wait(done: Callable[[], bool], failure: str, seconds: float = 60.0, step: float = 0.05) -> None:
    """Waits until `done`; raises `BenchmarkError` with the failure after some seconds."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{failure} within {seconds:g} s")
        time.sleep(step)


def say(text: str) -> None:
    """Prints progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def run(main: Callable[[], None]) -> None:
    """Runs a benchmark; a `BenchmarkError` ends it with one line and exit code 1."""
    try:
        main()
    except BenchmarkError as error:
        sys.exit(str(error))
