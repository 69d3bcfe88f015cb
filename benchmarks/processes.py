"""The processes of a benchmark: topologies, components and peers, started and stopped, and what the kernel counts."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from acker_cli.processes.acker_pool import AckerPool
from benchmarks.harness import BenchmarkError
from benchmarks.setup import FRAMEWORKS
from spout_sdk import TopologyRunner, load_topology
from spout_sdk.runtime.launch import Launch, start

PEERS: Final = Path(__file__).with_name("peers")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS: Final = 30.0
_READY_SECONDS: Final = 120.0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads, to 10 ms; 0 if it has ended."""
    try:
        # The name, in brackets, may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def descendants(pids: Iterable[int]) -> list[int]:
    """Processes, and all that they have started and that have not ended."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    family = list(dict.fromkeys(pids))
    for pid in family:
        family += [child for child in children.get(pid, ()) if child not in family]
    return family


def resident_bytes(pid: int, *, peak: bool = False) -> int:
    """Resident memory of a process, now or at its highest so far; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # A process that has ended and was not waited for has no memory any more.
    kibibytes = re.search(rf"^{'VmHWM' if peak else 'VmRSS'}:\s+(\d+)", status, re.MULTILINE)
    return int(kibibytes[1]) * 1024 if kibibytes else 0


@dataclass(frozen=True, slots=True)
class RunningTopology:
    """The processes of a topology, and its acker workers; None where no trees are tracked."""

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
    servers: str,
    reference: str,
    variables: Mapping[str, str],
    processes: Mapping[str, int] | None = None,
    ackers: int = 1,
) -> Iterator[RunningTopology]:
    """Runs all components of a topology, and acker workers where trees are tracked; yields when all are ready.

    `variables` are of the environment of its processes; `processes` is component → how many, one each unless given.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        manifest = load_topology(reference).manifest
        pool = None
        if manifest.acking:
            # First: trees that wait for the acker's start would show how it starts, and not what it does.
            pool = stack.enter_context(running_ackers(servers, manifest.topology, manifest.ack_partitions, ackers))
        kafka = {"bootstrap.servers": servers}
        runner = stack.enter_context(TopologyRunner(reference, kafka, processes, restart=False))
        if not runner.wait_ready(_READY_SECONDS):
            raise BenchmarkError(f"the topology {manifest.topology} was not ready within {_READY_SECONDS:g} s")
        yield RunningTopology(runner, pool)


@contextlib.contextmanager
def running_ackers(servers: str, topology: str, partitions: int, workers: int) -> Iterator[AckerPool]:
    """Runs acker workers; yields when they own all partitions."""
    with AckerPool(topology, {"bootstrap.servers": servers}, workers) as pool:
        deadline = time.monotonic() + _READY_SECONDS
        while pool.stats().partitions < partitions:
            pool.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the acker did not own all {partitions} partitions within {_READY_SECONDS:g} s")
            time.sleep(0.05)
        yield pool


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is measured; `output` returns the end of what it has written."""

    name: str
    pid: int
    is_running: Callable[[], bool]
    output: Callable[[], str]

    def check(self) -> None:
        """Raises if it has ended."""
        if not self.is_running():
            raise BenchmarkError(f"{self.name} has ended: {self.output()}")


@contextlib.contextmanager
def running_component(servers: str, reference: str, variables: Mapping[str, str], name: str) -> Iterator[Process]:
    """Runs one component of a topology in a process."""
    with patch.dict(os.environ, variables):
        launch = Launch({"bootstrap.servers": servers}, slot=f"{name}-0", log_level=logging.WARNING)
        child = start(reference, name, launch, {})
    errors: list[str] = []
    reports = (report["error"] for report in child.reports() if "error" in report)
    reader = threading.Thread(target=errors.extend, args=(reports,), daemon=True)
    reader.start()
    try:
        yield Process(name, child.pid, lambda: child.is_running, lambda: " ".join(errors))
    finally:
        child.signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while child.is_running and time.monotonic() < deadline:
            time.sleep(0.02)
        child.signal(signal.SIGKILL)
        child.wait()
        reader.join()


@contextlib.contextmanager
def running_peer(name: str, *arguments: str) -> Iterator[Process]:
    """Runs the program of a framework in its environment, or the `plain` loop in ours."""
    if name in FRAMEWORKS:
        python, program = str(FRAMEWORKS[name].python()), PEERS / f"{name}_app.py"
    else:
        python, program = sys.executable, PEERS / f"{name}.py"
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryFile() as written:
        process = subprocess.Popen(
            [python, str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env=outside,
            start_new_session=True,
        )

        def output() -> str:
            written.seek(0)
            return written.read().decode(errors="replace")[-2_000:]

        try:
            yield Process(name, process.pid, lambda: process.poll() is None, output)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
