"""Where the figures of a benchmark go: one file each in `benchmarks/results/`, from which the report is made.

A file is one JSON object:

- `benchmark`: its name, which is also that of the file;
- `machine`: what it was measured on, and how busy that was before with other things;
- `versions`: of ours, of Kafka, and of all peers, as they said themselves;
- `settings`: what was asked for;
- `rows`: what was found, one object each. What was measured in rounds is a `Spread`, with all rounds in order;
- `ratios`, where rows are compared with each other: name → ratio.
"""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final, Self

import confluent_kafka

from local_kafka.distribution import KAFKA_VERSION

DIRECTORY: Final = Path(__file__).parent / "results"
_OURS: Final = ("kafka-acker", "confluent-kafka", "fastavro", "numba", "numpy")


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds gave.

    Attributes:
        median, low, high: of them.
        rounds: each, in order.
    """

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]

    @classmethod
    def of(cls, rounds: Sequence[float], digits: int | None = None) -> Self:
        """Of at least one round.

        Args:
            rounds: what was measured.
            digits: to which it is rounded; None for whole numbers.
        """
        rounded = tuple(round(one, digits) for one in rounds)
        return cls(round(median(rounds), digits), min(rounded), max(rounded), rounded)


def machine() -> dict[str, Any]:
    """What is measured on; to be called before the run, for it says how busy the machine is with other things."""
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "architecture": platform.machine(),
        "load_before": [round(one, 2) for one in os.getloadavg()],
    }


def versions(*others: str) -> dict[str, str]:
    """Python, Kafka, and the libraries of ours that decide how fast we are.

    Args:
        others: packages of this environment that are measured besides.
    """
    return {
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "librdkafka": str(confluent_kafka.libversion()[0]),
        **{name: version(name) for name in (*_OURS, *others)},
    }


def report(
    benchmark: str,
    host: Mapping[str, Any],
    rows: Sequence[Any],
    settings: Mapping[str, Any],
    peers: Mapping[str, str] | None = None,
    ratios: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The object that is written.

    Args:
        benchmark: its name, which is also that of the file.
        host: what `machine` said before the run.
        rows: mappings or dataclasses.
        settings: what was asked for.
        peers: versions of those we were measured against.
        ratios: what the rows say about each other.
    """
    found = {
        "benchmark": benchmark,
        "machine": dict(host),
        "versions": {**versions(), **(peers or {})},
        "settings": dict(settings),
        "rows": [_plain(row) for row in rows],
    }
    return found if ratios is None else {**found, "ratios": dict(ratios)}


def save(found: Mapping[str, Any], directory: Path = DIRECTORY) -> Path:
    """Writes a report where `benchmarks.report` looks for it."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{found['benchmark']}.json"
    file.write_text(json.dumps(found, indent=2) + "\n")
    return file


def publish(found: Mapping[str, Any], directory: Path | None) -> None:
    """Prints a report on standard output, and keeps it in a directory if there is one."""
    print(json.dumps(found, indent=2))
    if directory is not None:
        print(f"kept in {save(found, directory)}", file=sys.stderr)


def load(directory: Path = DIRECTORY) -> dict[str, dict[str, Any]]:
    """Benchmark → report, of all that are kept."""
    found = [json.loads(file.read_text()) for file in sorted(directory.glob("*.json"))]
    return {each["benchmark"]: each for each in found}


def _plain(value: Any) -> Any:
    """Dataclasses as mappings, also those within mappings."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
