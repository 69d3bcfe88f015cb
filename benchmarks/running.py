"""Starts what is measured, each in processes of its own, and stops it again."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from acker_cli.processes.acker_pool import AckerPool
from acker_cli.processes.acker_process import AckerLaunch
from benchmarks.broker_topics import Topics
from benchmarks.errors import BenchmarkError
from benchmarks.plans import REFERENCE, Plan, of
from benchmarks.processes import environment
from benchmarks.setup.python_peers import FRAMEWORKS
from kafka_clients.catalogue import Catalogue
from spout_sdk import TopologyRunner, load_topology
from spout_sdk.runtime.child import Child
from tuple_tree.manifest import Manifest
from tuple_tree.topics import topic_specs

_STOP_SECONDS: Final = 30.0
_READY_SECONDS: Final = 120.0
PEERS: Final = Path(__file__).with_name("peers")
"""Where the programs of others are."""

Pids = dict[str, list[int]]
"""Name → processes."""


def make_topics(topics: Topics, plan: Plan, without: Sequence[str] = ()) -> None:
    """Makes the topics of a plan's topology, but for some that it can do without, and publishes its manifest."""
    make_topics_of(topics, of(plan).manifest, without)


def make_topics_of(topics: Topics, manifest: Manifest, without: Sequence[str] = ()) -> None:
    """Makes the topics of a topology, but for some that it can do without, and publishes its manifest."""
    for spec in topic_specs(manifest):
        if spec.name in without:
            continue
        topics.create({spec.name: spec.partitions}, spec.config)
    Catalogue({"bootstrap.servers": topics.servers}).publish(manifest)


@contextlib.contextmanager
def topology(servers: str, plan: Plan) -> Iterator["Running"]:
    """Runs all components of a plan, one process each, with one acker worker where trees are followed."""
    with started(servers, REFERENCE, plan.environment) as running:
        yield running


@contextlib.contextmanager
def started(
    servers: str,
    reference: str,
    variables: Mapping[str, str],
    processes: Mapping[str, int] | None = None,
    ackers: int = 1,
) -> Iterator["Running"]:
    """Runs all components of a topology.

    Args:
        servers: of the broker.
        reference: to the topology.
        variables: of the environment, that say what the topology is like.
        processes: component → how many; one each unless given.
        ackers: workers, where trees are followed.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment(**variables))
        manifest = load_topology(reference).manifest
        pool = None
        if manifest.acking and ackers:
            launch = AckerLaunch(manifest.topology, {"bootstrap.servers": servers}, {}, "WARNING")
            pool = stack.enter_context(AckerPool(launch, ackers))
            _await_partitions(pool, manifest.ack_partitions)
        runner = stack.enter_context(
            TopologyRunner(reference, {"bootstrap.servers": servers}, processes, restart=False)
        )
        running = Running(runner, pool)
        if not runner.wait_ready(_READY_SECONDS):
            raise BenchmarkError(f"the topology {manifest.topology} was not ready within {_READY_SECONDS:g} s")
        yield running


def _await_partitions(ackers: AckerPool, partitions: int) -> None:
    """Waits for the acker: trees that wait for its start would show how it starts, and not what it does."""
    deadline = time.monotonic() + _READY_SECONDS
    while ackers.stats().partitions < partitions:
        ackers.check()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the acker had not all {partitions} partitions within {_READY_SECONDS:g} s")
        time.sleep(0.05)


class Running:
    """A topology that runs.

    Attributes:
        runner: of its components.
        ackers: its acker workers; None where no trees are followed.
    """

    def __init__(self, runner: TopologyRunner, ackers: AckerPool | None) -> None:
        self.runner = runner
        self.ackers = ackers

    def pids(self) -> Pids:
        """Its processes by component, and the acker's."""
        pids: Pids = dict(self.runner.pids())
        if self.ackers is not None:
            pids["acker"] = [worker.pid for worker in self.ackers.workers()]
        return pids

    def check(self) -> None:
        """Raises if a process has ended."""
        self.runner.wait(0)
        if self.ackers is not None:
            self.ackers.check()

    def failures(self) -> dict[str, dict[str, int]]:
        """Component → reason → failed trees and inputs; empty if there were none."""
        return {name: dict(stats.failed) for name, stats in self.runner.stats().items() if stats.failed}


@contextlib.contextmanager
def component(servers: str, plan: Plan, name: str) -> Iterator["Process"]:
    """Runs one component of a plan in a process."""
    with environment(**plan.environment):
        child = Child(REFERENCE, name, {"bootstrap.servers": servers}, None, f"{name}-0", {}, logging.WARNING)
    said: list[str] = []

    def follow() -> None:
        said.extend(report.error for report in child.reports() if report.error)

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    process = Process(name, child.pid, lambda: child.is_running, lambda: " ".join(said))
    try:
        yield process
    finally:
        child.signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while child.is_running and time.monotonic() < deadline:
            time.sleep(0.02)
        child.signal(signal.SIGKILL)
        child.wait()
        reader.join()


class Process:
    """A process that is measured.

    Attributes:
        name: what it is.
        pid: its process id.
        said: returns what it has written, or the end of that.
    """

    def __init__(self, name: str, pid: int, is_running: Callable[[], bool], said: Callable[[], str]) -> None:
        self.name = name
        self.pid = pid
        self.said = said
        self._is_running = is_running

    def check(self) -> None:
        """Raises if it has ended."""
        if not self._is_running():
            raise BenchmarkError(f"{self.name} has ended: {self.said()}")


@contextlib.contextmanager
def peer(program: str, framework: str | None, *arguments: str) -> Iterator[Process]:
    """Runs a program of `benchmarks.peers`.

    Args:
        program: its file, without `.py`.
        framework: in whose environment; None for ours.
        arguments: of the program.
    """
    python = sys.executable if framework is None else str(FRAMEWORKS[framework].python())
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with _started(program, [python, str(PEERS / f"{program}.py"), *arguments], outside) as process:
        yield process


@contextlib.contextmanager
def acker(*arguments: str, variables: Mapping[str, str] | None = None, terminal: bool = False) -> Iterator[Process]:
    """Runs the `acker` command.

    Args:
        arguments: of it; the first is a command, which the process is named after.
        variables: further ones of its environment.
        terminal: whether its standard output is one, which is read and forgotten.
    """
    command = [sys.executable, "-m", "acker_cli", *arguments]
    variables = {**os.environ, **(variables or {})}
    name = f"acker {arguments[0]}"
    if not terminal:
        with _started(name, command, variables) as process:
            yield process
        return
    ours, theirs = os.openpty()

    def forget() -> None:
        # The last who has it open has ended when it cannot be read any more.
        with contextlib.suppress(OSError):
            while os.read(ours, 1 << 16):
                pass

    reader = threading.Thread(target=forget, daemon=True)
    reader.start()
    try:
        with _started(name, command, {**variables, "TERM": "xterm-256color"}, theirs) as process:
            yield process
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


@contextlib.contextmanager
def _started(
    name: str, command: Sequence[str], variables: Mapping[str, str], terminal: int | None = None
) -> Iterator[Process]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output if terminal is None else terminal,
            stderr=output,
            env=variables,
            start_new_session=True,
        )

        def said() -> str:
            output.seek(0)
            return output.read().decode(errors="replace")[-2_000:]

        try:
            yield Process(name, process.pid, lambda: process.poll() is None, said)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
