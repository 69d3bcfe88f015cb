"""The processes of a benchmark: topologies, acker workers and programs, started, stopped, and measured from outside."""

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np
import psutil

from acker_cli.processes.acker_pool import AckerPool
from benchmarks.harness import BenchmarkError, wait
from benchmarks.topics import Topics
from spout_sdk import load_topology
from spout_sdk.runtime import TopologyRunner

_STOP_SECONDS: Final = 30.0
_READY_SECONDS: Final = 120.0
_SAMPLE_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 120.0


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of processes and all their threads, to 10 ms each; 0 of one that has ended."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


def descendants(pids: Iterable[int]) -> list[int]:
    """Processes, and all that they have started and that have not ended."""
    family = list(dict.fromkeys(pids))
    for pid in [*family]:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += [each.pid for each in psutil.Process(pid).children(recursive=True)]
    return list(dict.fromkeys(family))


def resident_bytes(*, peak: bool = False) -> int:
    """Resident memory of this process, now or at its highest so far."""
    kibibytes = re.search(rf"^{'VmHWM' if peak else 'VmRSS'}:\s+(\d+)", Path("/proc/self/status").read_text(), re.M)
    assert kibibytes is not None
    return int(kibibytes[1]) * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """The work done at a time, and CPU seconds; or the difference of two samples."""

    at: float
    done: float
    figures: Mapping[str, float]


def watch(
    done: Callable[[], int], pids: Mapping[str, Sequence[int]], check: Callable[[], None], total: int
) -> list[Sample]:
    """Watches until `total` is done: a sample for each time that something was done, and one before the first.

    The CPU seconds of the processes `pids`, and of what they have started, are a figure of each name. `check` raises if
    what is measured does not run any more. Raises `BenchmarkError` if nothing is done for two minutes.
    """

    def progressed(latest: float) -> None:
        check()
        if time.monotonic() - latest > _PATIENCE_SECONDS:
            raise BenchmarkError(f"{done():,} of {total:,} are done, and no more for {_PATIENCE_SECONDS:g} s")
        time.sleep(_SAMPLE_SECONDS)

    began = before = time.monotonic()
    while not done():
        before = time.monotonic()
        progressed(began)
    # CPU time from before the processes were known counts as start-up.
    families = {name: descendants(each) for name, each in pids.items()}

    def sample(number: int) -> Sample:
        return Sample(time.monotonic(), number, {name: cpu_seconds(each) for name, each in families.items()})

    samples = [replace(sample(0), at=before)]
    while samples[-1].done < total:
        if (number := done()) > samples[-1].done:
            samples.append(sample(number))
        progressed(samples[-1].at)
    return samples


def steady(samples: Sequence[Sample], first: float, last: float) -> Sample:
    """The difference between when `first` and when `last` was done; progress between two samples counts as even."""
    done = [sample.done for sample in samples]

    def grown(values: Sequence[float]) -> float:
        begin, end = np.interp([first, last], done, values)
        return float(end - begin)

    seconds = grown([sample.at for sample in samples])
    if not done[0] <= first <= last <= done[-1] or seconds <= 0:
        raise BenchmarkError("a round was over before it was sampled: make it longer")
    figures = {name: grown([sample.figures[name] for sample in samples]) for name in samples[0].figures}
    return Sample(seconds, last - first, figures)


@dataclass(frozen=True, slots=True)
class RunningTopology:
    """The processes of a topology, and its acker worker; None where no trees are tracked."""

    runner: TopologyRunner
    ackers: AckerPool | None

    def pids(self) -> dict[str, list[int]]:
        """Component → its processes; `acker` is one of the components."""
        workers = {} if self.ackers is None else {"acker": self.ackers.pids()}
        return {**self.runner.pids(), **workers}

    def check(self) -> None:
        """Raises if a process has ended, or a tree failed, since then the round measures something else."""
        self.runner.wait(0)
        if self.ackers is not None:
            self.ackers.check()
        if failed := {name: stats.failed for name, stats in self.runner.stats().items() if stats.failed}:
            raise BenchmarkError(f"trees failed, so this measures nothing: {failed}")


@contextlib.contextmanager
def running_topology(
    topics: Topics,
    reference: str,
    variables: Mapping[str, str],
    processes: int | Sequence[Sequence[str]] | None = None,
    *,
    restart: bool = False,
) -> Iterator[RunningTopology]:
    """Makes the topics of a topology, and runs all its components, and an acker worker for trees.

    `variables` are of the environment of its processes, `processes` its workers as for `TopologyRunner`; with
    `restart`, processes that end are started again. Yields when all are ready.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        manifest = load_topology(reference).manifest
        topics.create_for(manifest)
        pool = None
        if manifest.acking:
            # First: trees that wait for the acker's start would show how it starts, and not what it does.
            pool = stack.enter_context(running_ackers(topics, manifest.topology, manifest.ack_partitions))
        runner = stack.enter_context(TopologyRunner(reference, topics.kafka, processes, restart=restart))
        if not runner.wait_ready(_READY_SECONDS):
            raise BenchmarkError(f"the topology {manifest.topology} was not ready within {_READY_SECONDS:g} s")
        yield RunningTopology(runner, pool)


@contextlib.contextmanager
def running_ackers(topics: Topics, topology: str, partitions: int, workers: int = 1) -> Iterator[AckerPool]:
    """Runs acker workers; yields when they own all partitions."""
    with AckerPool(topology, topics.kafka, workers) as pool:

        def own_all() -> bool:
            pool.check()
            return pool.stats().partitions >= partitions

        wait(own_all, f"the acker did not own all {partitions} partitions", _READY_SECONDS)
        yield pool


@dataclass(frozen=True, slots=True)
class Program:
    """A program of its own, and the files that it writes its output and its errors to."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def check(self) -> None:
        """Raises if it has ended."""
        if self.process.poll() is not None:
            written = "".join(file.read_text(errors="replace") for file in (self.output, self.errors))
            raise BenchmarkError(f"{self.name} has ended: {written[-2_000:]}")


@contextlib.contextmanager
def running_program(name: str, command: Sequence[str], directory: Path | None = None) -> Iterator[Program]:
    """Runs a program, in a working directory if it needs one of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as files:
        output, errors = Path(files, "output"), Path(files, "errors")
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )
        try:
            yield Program(name, process, output, errors)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
