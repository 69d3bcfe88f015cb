"""One run of the demo, from an empty cluster to the comparison."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acker_cli.cluster.connection import Cluster
from acker_cli.cluster.removal import Removal, remains_of
from acker_cli.demo.chaos import Chaos, Victim
from acker_cli.demo.report import Comparison, DemoReport
from acker_cli.demo.stores import acked_lines, counted_words
from acker_cli.demo.text import lines, plain_count
from acker_cli.demo.word_count import BOLTS, LINES, REFERENCE, Parameters
from acker_cli.errors import DemoError
from acker_cli.processes import acker_pool
from acker_cli.processes.acker_pool import AckerPool
from acker_cli.processes.acker_process import AckerLaunch
from acker_cli.processes.topology_processes import LOOK_SECONDS, TopologyProcesses
from acker_cli.settings.sections import KafkaProperties
from acker_cli.views.live import View
from acker_cli.views.snapshot import Progress, TopologySnapshot
from acker_worker.stats import WorkerStats
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import ClusterError
from spout_sdk import load_topology
from spout_sdk.runtime.launch import start_early as start_component_early
from tuple_tree.manifest import Manifest

# The group notices a killed member within this time; the default is longer than the demo waits.
_KAFKA: Final[KafkaProperties] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
# Below librdkafka's errors: connections fail as the demo begins and ends.
_QUIET: Final[KafkaProperties] = {"log_level": 2}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How the demo is run; the deadline is in seconds, `worker` has the fields of `WorkerSettings`."""

    parameters: Parameters
    kill: bool
    deadline: float
    log_level: str
    worker: dict[str, float]
    replication_factor: int

    @property
    def copies(self) -> int:
        """The number of acker workers, and of processes of each bolt: one is left when another is killed."""
        return 2 if self.kill else 1


def start_early(options: DemoOptions) -> None:
    """Starts the processes of `run_demo`, which import what they need while the broker starts."""
    # The topology reads them, here and in its processes.
    os.environ.update(options.parameters.to_environment())
    acker_pool.start_early(options.copies)
    start_component_early(REFERENCE, LINES)
    for bolt in BOLTS:
        start_component_early(REFERENCE, bolt, options.copies)


def run_demo(cluster: Cluster, options: DemoOptions, view: View) -> DemoReport:
    kafka = {**_KAFKA, **(_QUIET if options.log_level == "error" else {}), **cluster.kafka}
    manifest = load_topology(REFERENCE).manifest
    catalogue = Catalogue(kafka)
    catalogue.topics()  # Without a cluster there is nothing to remove either.
    try:
        catalogue.create_topics(manifest, options.replication_factor)
        catalogue.publish(manifest)
        return _Session(kafka, manifest, options, view).run()
    finally:
        if not cluster.is_embedded:
            _remove(kafka, manifest.topology, view)


@contextmanager
def demo_directory(keep: Path | None) -> Iterator[Path]:
    """The tasks' files: a directory that is deleted afterwards, or `keep`, which must be empty: counts add up."""
    if keep is None:
        # A process that is killed because it did not stop in time may still write while this is removed.
        with tempfile.TemporaryDirectory(prefix="acker-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DemoError(f"{keep} is there already and is not an empty directory: name another one with --keep")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()


def _remove(kafka: KafkaProperties, topology: str, view: View) -> None:
    try:
        catalogue = Catalogue(kafka)
        remains = remains_of(topology, catalogue.manifests(), catalogue.topics())
        removal = Removal(kafka, remains, lambda _line: None)
        removal.withdraw(force=True)
        left = "; ".join(removal.delete())
    except ClusterError as error:
        left = f"{topology} ({error})"
    if left:
        view.note(f"left on the cluster: {left}. Remove it: acker topologies delete {topology}")


class _Session:
    def __init__(self, kafka: KafkaProperties, manifest: Manifest, options: DemoOptions, view: View) -> None:
        self._options = options
        self._directory = options.parameters.directory
        self._view = view
        self._total = len(lines(options.parameters.lines))
        launch = AckerLaunch(manifest.topology, kafka, options.worker, options.log_level)
        ackers = AckerPool(launch, options.copies)
        processes = dict.fromkeys(BOLTS, options.copies)
        self._processes = TopologyProcesses(REFERENCE, manifest, kafka, processes, ackers)
        self._chaos = Chaos(options.parameters.seed, BOLTS, self._kill) if options.kill else None

    def run(self) -> DemoReport:
        """Runs until every line is acked or the deadline is over."""
        overdue = ""
        with self._processes as processes:
            began = self._until_emitting()
            while (done := acked_lines(self._directory)) < self._total:
                snapshot = self._look(done)
                if snapshot.seconds > self._options.deadline:
                    overdue = _overdue(snapshot, self._options.deadline)
                    break
            seconds = time.monotonic() - began
            self._view.show(self._snapshot(done))
            processes.stop()
            # Exact, because every process has sent its last report.
            last = processes.snapshot()
        return DemoReport(
            last=last,
            lines=self._total,
            lines_acked=acked_lines(self._directory),
            seconds=seconds,
            comparison=Comparison(plain_count(self._options.parameters.lines), counted_words(self._directory)),
            acker_kills=self._chaos.acker_kills if self._chaos else 0,
            bolt_kills=self._chaos.bolt_kills if self._chaos else 0,
            overdue=overdue,
        )

    def _until_emitting(self) -> float:
        """Waits for the first line; returns its time, when the demo begins."""
        while True:
            snapshot = self._look(0)
            if snapshot.at_spouts.emitted or snapshot.seconds > self._options.deadline:
                return time.monotonic()

    def _look(self, done: int) -> TopologySnapshot:
        """Checks the processes, shows their state, and waits a moment."""
        self._processes.check()
        snapshot = self._snapshot(done)
        self._view.show(snapshot)
        if self._chaos is not None:
            workers, pids = self._processes.ackers.workers(), self._processes.components.pids()
            self._chaos.step(done / self._total, workers, snapshot.components, pids)
        threading.Event().wait(LOOK_SECONDS)
        return snapshot

    def _snapshot(self, done: int) -> TopologySnapshot:
        return self._processes.snapshot(Progress(done, self._total, "lines"))

    def _kill(self, victim: Victim) -> None:
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        self._view.note(f"killed {victim.role} {victim.pid}")


def _overdue(snapshot: TopologySnapshot, deadline: float) -> str:
    ackers = snapshot.ackers or WorkerStats()
    bolts = ", ".join(
        f"{name} {stats.pending:,}" for name, stats in snapshot.components.items() if name not in snapshot.spouts
    )
    progress = snapshot.progress
    acked = f"{progress.done:,} of {progress.total:,} lines are acked" if progress else "it is not over"
    return (
        f"given up after {deadline:g} s: {acked}; pending: {snapshot.at_spouts.pending:,} at the spout, "
        f"{ackers.pending:,} in {ackers.partitions} acker partitions, inputs of bolts: {bolts}. On a slow machine try "
        "a longer --deadline"
    )
