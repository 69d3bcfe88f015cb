"""One run of the demo, from an empty cluster to the comparison."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from acker_cli.cluster.removal import Removal, remains_of
from acker_cli.demo.report import Comparison, DemoReport
from acker_cli.demo.stores import acked_lines, counted_words
from acker_cli.demo.text import lines, plain_count
from acker_cli.demo.word_count import BOLTS, REFERENCE, Parameters
from acker_cli.errors import DemoError
from acker_cli.processes.running import RunPlan, TopologyProcesses
from acker_cli.settings.sections import KafkaProperties, Settings
from acker_cli.views.live import Progress, TopologySnapshot, View
from acker_worker.stats import WorkerStats
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import ClusterError
from spout_sdk import Stats, load_topology

# The group notices a killed member within this time; the default is longer than the demo waits.
_KAFKA: Final[KafkaProperties] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
# Below librdkafka's errors: connections fail as the demo begins and ends.
_QUIET: Final[KafkaProperties] = {"log_level": 2}
# Shares of all lines between which a kill happens; the second comes when the first is recovered from.
_ACKER_WINDOW: Final = (0.25, 0.4)
_BOLT_WINDOW: Final = (0.5, 0.65)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How the demo is run; the deadline is in seconds."""

    parameters: Parameters
    kill: bool
    deadline: float
    log_level: str
    settings: Settings

    def plan(self) -> RunPlan:
        """The plan of its topology, which reads the parameters from the environment, here and in its processes."""
        os.environ.update(self.parameters.to_environment())
        # One is left when another is killed.
        copies = 2 if self.kill else 1
        return RunPlan(load_topology(REFERENCE), REFERENCE, processes=dict.fromkeys(BOLTS, copies), ackers=copies)


def run_demo(kafka: KafkaProperties, plan: RunPlan, options: DemoOptions, view: View) -> DemoReport:
    kafka = {**_KAFKA, **(_QUIET if options.log_level == "error" else {}), **kafka}
    manifest = plan.topology.manifest
    catalogue = Catalogue(kafka)
    catalogue.topics()  # Without a cluster there is nothing to remove either.
    try:
        catalogue.create_topics(manifest, options.settings.topics.replication_factor)
        catalogue.publish(manifest)
        return _run(kafka, plan, options, view)
    finally:
        if not options.settings.is_embedded:
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


def _run(kafka: KafkaProperties, plan: RunPlan, options: DemoOptions, view: View) -> DemoReport:
    """Runs until every line is acked or the deadline is over."""
    parameters, overdue = options.parameters, ""
    total, directory = len(lines(parameters.lines)), parameters.directory
    kills = Kills(parameters.seed, BOLTS)
    began = 0.0
    with TopologyProcesses(plan, kafka, options.settings.worker.model_dump(), options.log_level) as processes:
        for looked in processes.checked_snapshots():
            done = acked_lines(directory)
            snapshot = replace(looked, progress=Progress(done, total, "lines"))
            view.show(snapshot)
            if not began and snapshot.at_spouts.emitted:
                began = time.monotonic()
            if done >= total:
                break
            if snapshot.seconds > options.deadline:
                overdue = _overdue(snapshot, options.deadline)
                break
            if options.kill:
                busy, pids = processes.ackers.busy_pids(), processes.components.pids()
                for pid, role in kills.due(done / total, busy, snapshot.components, pids):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    view.note(f"killed {role} {pid}")
        seconds = time.monotonic() - began if began else 0.0
        processes.stop()
        # Exact, because every process has sent its last report.
        last = processes.snapshot()
    return DemoReport(
        last=last,
        lines=total,
        lines_acked=acked_lines(directory),
        seconds=seconds,
        comparison=Comparison(plain_count(parameters.lines), counted_words(directory)),
        acker_kills=kills.of_ackers,
        bolt_kills=kills.of_bolts,
        overdue=overdue,
    )


class Kills:
    """The kills of an acker worker and of a process of a bolt, at random moments while they are busy."""

    def __init__(self, seed: int, bolts: Sequence[str]) -> None:
        self._random = random.Random(f"{seed}/chaos")  # noqa: S311
        self._bolts = bolts
        self._acker_at = self._random.uniform(*_ACKER_WINDOW)
        self._bolt_at = self._random.uniform(*_BOLT_WINDOW)
        self._executed: dict[str, int] = {}
        self.of_ackers = 0
        self.of_bolts = 0

    def due(
        self, done: float, busy_ackers: Sequence[int], stats: Mapping[str, Stats], pids: Mapping[str, Sequence[int]]
    ) -> list[tuple[int, str]]:
        """Process ids, and what they are, to kill when this share of lines is acked; stats and pids by component."""
        due = []
        if not self.of_ackers and done >= self._acker_at and busy_ackers:
            due.append((self._random.choice(busy_ackers), "acker worker"))
            self.of_ackers += 1
        if not self.of_bolts and done >= self._bolt_at:
            working = [bolt for bolt in self._bolts if self._is_working(stats[bolt], pids[bolt])]
            if working:
                bolt = self._random.choice(working)
                due.append((self._random.choice(pids[bolt]), f"{bolt} process"))
                self.of_bolts += 1
        self._executed = {bolt: stats[bolt].executed for bolt in self._bolts}
        return due

    def _is_working(self, stats: Stats, pids: Sequence[int]) -> bool:
        before = self._executed.get(stats.component)
        # Processes of a bolt share its tasks evenly, so each has one if there are enough of them.
        all_have_tasks = set(stats.pids) == set(pids) and len(stats.tasks) >= len(pids)
        return all_have_tasks and before is not None and stats.executed > before


def _overdue(snapshot: TopologySnapshot, deadline: float) -> str:
    ackers, progress = snapshot.ackers or WorkerStats(), snapshot.progress or Progress(0, 0, "lines")
    bolts = ", ".join(
        f"{name} {stats.pending:,}" for name, stats in snapshot.components.items() if name not in snapshot.spouts
    )
    return (
        f"given up after {deadline:g} s: {progress.done:,} of {progress.total:,} lines are acked; pending: "
        f"{snapshot.at_spouts.pending:,} at the spout, {ackers.pending:,} in {ackers.partitions} acker partitions, "
        f"inputs of bolts: {bolts}. On a slow machine try a longer --deadline"
    )
