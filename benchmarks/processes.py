"""The processes of a benchmark: topologies, acker workers and programs, started, stopped, and measured from outside."""

import contextlib
import math
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
from benchmarks.harness import BenchmarkError
from benchmarks.topics import Topics
from spout_sdk import TopologyRunner, load_topology

_STOP_SECONDS: Final = 30.0
_READY_SECONDS: Final = 120.0
_SAMPLE_SECONDS: Final = 0.02
_QUIET_SECONDS: Final = 1.0
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


def resident_bytes(pid: int | None = None, *, peak: bool = False) -> int:
    """Resident memory of a process, this one unless given, now or at its highest so far; 0 of one that has ended."""
    status = ""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{'self' if pid is None else pid}/status").read_text()
    kibibytes = re.search(rf"^{'VmHWM' if peak else 'VmRSS'}:\s+(\d+)", status, re.M)
    return int(kibibytes[1]) * 1024 if kibibytes else 0


@dataclass(frozen=True, slots=True)
class Sample:
    """The work done at a time, and figures that only grow, such as CPU seconds; or the difference of two samples."""

    at: float
    done: float
    figures: Mapping[str, float]


def watch(
    done: Callable[[], int],
    pids: Mapping[str, Sequence[int]],
    check: Callable[[], None],
    *,
    counts: Callable[[], Mapping[str, float]] = dict,
    total: int | None = None,
    longest: float = math.inf,
) -> list[Sample]:
    """Watches until all is done: a sample for each time that something was done, and one before the first.

    Args:
        done: returns how much is done.
        pids: name → processes; the CPU seconds of these and of what they have started are a figure of that name.
        check: raises if what is measured does not run any more.
        counts: returns other figures.
        total: what is done at the end; None if that is not known: then the end is where nothing is done for a second.
        longest: seconds after the first progress, which end it as well.

    Raises:
        BenchmarkError: if nothing is done for two minutes.
    """

    def progressed(latest: float) -> None:
        check()
        if time.monotonic() - latest > _PATIENCE_SECONDS:
            raise BenchmarkError(f"{done():,} are done, and no more for {_PATIENCE_SECONDS:g} s")
        time.sleep(_SAMPLE_SECONDS)

    began = before = time.monotonic()
    while not done():
        before = time.monotonic()
        progressed(began)
    # CPU time from before the processes were known counts as start-up.
    families = {name: descendants(each) for name, each in pids.items()}

    def sample(number: int) -> Sample:
        cpu = {name: cpu_seconds(each) for name, each in families.items()}
        return Sample(time.monotonic(), number, {**cpu, **counts()})

    samples = [replace(sample(0), at=before)]
    while True:
        if (number := done()) > samples[-1].done:
            samples.append(sample(number))
        now, latest = time.monotonic(), samples[-1].at
        if number >= (total or math.inf) or now - before >= longest:
            return samples
        if total is None and now - latest >= _QUIET_SECONDS:
            return samples
        progressed(latest)


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
        """Raises if a process has ended."""
        self.runner.wait(0)
        if self.ackers is not None:
            self.ackers.check()

    def failures(self) -> dict[str, dict[str, int]]:
        """Component → reason → failed trees and inputs."""
        return {name: dict(stats.failed) for name, stats in self.runner.stats().items() if stats.failed}


@contextlib.contextmanager
def running_topology(
    topics: Topics, reference: str, variables: Mapping[str, str], processes: Mapping[str, int] | None = None
) -> Iterator[RunningTopology]:
    """Makes the topics of a topology, and runs all its components, and an acker worker for trees.

    `variables` are of the environment of its processes, and components have one process unless `processes` has another
    number; yields when all are ready.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        manifest = load_topology(reference).manifest
        topics.create_for(manifest)
        pool = None
        if manifest.acking:
            # First: trees that wait for the acker's start would show how it starts, and not what it does.
            pool = stack.enter_context(running_ackers(topics, manifest.topology, manifest.ack_partitions))
        runner = stack.enter_context(TopologyRunner(reference, topics.kafka, processes, restart=False))
        if not runner.wait_ready(_READY_SECONDS):
            raise BenchmarkError(f"the topology {manifest.topology} was not ready within {_READY_SECONDS:g} s")
        yield RunningTopology(runner, pool)


@contextlib.contextmanager
def running_ackers(topics: Topics, topology: str, partitions: int, workers: int = 1) -> Iterator[AckerPool]:
    """Runs acker workers; yields when they own all partitions."""
    with AckerPool(topology, topics.kafka, workers) as pool:
        deadline = time.monotonic() + _READY_SECONDS
        while pool.stats().partitions < partitions:
            pool.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the acker did not own all {partitions} partitions within {_READY_SECONDS:g} s")
            time.sleep(0.05)
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
def running_program(
    name: str, command: Sequence[str], variables: Mapping[str, str] | None = None, directory: Path | None = None
) -> Iterator[Program]:
    """Runs a program, in a working directory if it needs one of its own; `variables` are of its environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(variables or {})
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
