"""One run of the demo, from an empty cluster to its report."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from acker_cli.cluster.local import create_topics
from acker_cli.cluster.removal import Removal, resources_of
from acker_cli.demo.progress import LinesDone, counted_words, write_text
from acker_cli.demo.text import comparison, lines, plain_count
from acker_cli.demo.word_count import COUNT, LINES, REFERENCE, Parameters, text_topic
from acker_cli.processes.running import RunPlan, TopologyProcesses
from acker_cli.settings.sections import KafkaProperties, Settings
from acker_cli.views.live import View, latency_in_words
from acker_cli.views.screen import by_reason
from acker_worker.stats import WorkerStats
from inspection.topology_status import ClusterStatus
from inspection.tracks import Latency, latency_between
from kafka_clients.catalogue import Catalogue
from kafka_clients.errors import BrokerError
from spout_sdk import load_topology
from spout_sdk.statistics import Stats

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
        workers, ackers = (2, 2) if self.kill else (None, 1)
        return RunPlan(load_topology(REFERENCE), REFERENCE, processes=workers, ackers=ackers)


@dataclass(frozen=True, slots=True)
class DemoReport:
    """One run of the demo."""

    trees: Stats  # of the spout, when it was over
    executed: int  # tuple deliveries that bolts have executed
    ackers: WorkerStats
    lines: int  # of the text
    lines_acked: int
    seconds: float  # from the first line emitted to the commit of the last one
    expected: Counter[str]  # a plain count of the text
    counted: Counter[str]  # by the topology
    acker_kills: int  # acker workers killed
    bolt_kills: int  # worker processes killed
    overdue: str = ""  # what was pending at the deadline; empty if it was complete by then

    @property
    def is_right(self) -> bool:
        return self.lines_acked == self.lines and self.counted == self.expected

    @property
    def pending(self) -> int:
        """Trees that are still open: lines without an outcome, or what a ledger still holds."""
        return max(self.lines - self.lines_acked, self.ackers.pending)

    @property
    def replayed(self) -> int:
        return self.trees.counters.get("replayed", 0)

    @property
    def latency(self) -> Latency | None:
        """Latencies from emit to ack of the whole run."""
        return latency_between([(Stats(LINES), self.trees)], "complete_latency")

    @property
    def tuples_per_second(self) -> float:
        """Tuple deliveries executed, over the whole run."""
        return self.executed / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The report for programs.

        `orphans` counts the records of the ledgers that acks began and no init ever joined: of trees that had failed.
        """
        ackers, trees = self.ackers, self.trees
        return {
            "emitted": trees.emitted,
            "acked": trees.acked,
            "failed": sum(trees.failed.values()),
            "failed_by_reason": trees.failed,
            "replayed": self.replayed,
            "pending": self.pending,
            "orphans": ackers.orphans + ackers.orphans_expired,
            "duplicate_inits": ackers.duplicate_inits,
            "lines": self.lines,
            "lines_acked": self.lines_acked,
            "words": self.counted.total(),
            "distinct_words": len(self.counted),
            "counts_match": self.counted == self.expected,
            "seconds": round(self.seconds, 2),
            "tuples_per_second": round(self.tuples_per_second),
            "complete_latency_ms": self.latency,
            "acker_kills": self.acker_kills,
            "bolt_kills": self.bolt_kills,
        }

    def in_words(self) -> list[str]:
        trees = self.trees
        speed = f"{self.executed:,} tuples, {self.tuples_per_second:,.0f} a second"
        failed, replayed = by_reason(trees.failed), f"{self.replayed:,}"
        lines = [
            f"{self.lines_acked:,} of {self.lines:,} lines acked in {self.seconds:.1f} s: {speed}",
            f"emitted {trees.emitted:,}, failed {failed}, replayed {replayed}, pending {self.pending:,}",
            f"complete latency {latency_in_words(self.latency)}",
        ]
        if self.acker_kills or self.bolt_kills:
            lines.append(f"killed on the way: {self.acker_kills} acker worker, {self.bolt_kills} worker process")
        if self.overdue:
            lines.append(self.overdue)
        return [*lines, comparison(self.expected, self.counted)]


def run_demo(kafka: KafkaProperties, plan: RunPlan, options: DemoOptions, view: View) -> DemoReport:
    kafka = {**_KAFKA, **(_QUIET if options.log_level == "error" else {}), **kafka}
    copies = options.settings.topics.replication_factor
    Catalogue(kafka).topics()  # Without a cluster there is nothing to remove either.
    try:
        create_topics(kafka, plan.topology, copies)
        write_text(kafka, options.parameters, copies)
        return _run(kafka, plan, options, view)
    finally:
        if not options.settings.is_embedded:
            _remove(kafka, plan.topology.name, view)


def _remove(kafka: KafkaProperties, topology: str, view: View) -> None:
    try:
        status = ClusterStatus(kafka)
        resources = resources_of(topology, status.catalogue.manifests(), status.catalogue.topics())
        resources = replace(resources, topics=(*resources.topics, text_topic(topology)))
        removal = Removal(status, resources, lambda _line: None)
        removal.withdraw(force=True)
        left = "; ".join(removal.delete())
    except BrokerError as error:
        left = f"{topology} ({error})"
    if left:
        view.note(f"left on the cluster: {left}. Remove it: acker topologies delete {topology}")


def _run(kafka: KafkaProperties, plan: RunPlan, options: DemoOptions, view: View) -> DemoReport:
    """Runs until every line is acked or the deadline is over."""
    parameters, overdue, name = options.parameters, "", plan.topology.name
    total = len(lines(parameters.lines))
    kills = Kills(parameters.seed, [COUNT])
    started, began = time.monotonic(), 0.0
    processes = TopologyProcesses(plan, kafka, options.settings.worker.model_dump(), options.log_level)
    with LinesDone(kafka, name) as text, processes:
        for figures in processes.figures():
            done, stats = text.acked(), processes.components.stats()
            # A commit is a second after the ack.
            acked = max(done, min(stats[LINES].acked, total))
            view.show(*figures, (acked, total))
            if not began and stats[LINES].emitted:
                began = time.monotonic()
            if done >= total:
                break
            if time.monotonic() - started > options.deadline:
                overdue = _overdue(stats, processes.ackers.stats(), (done, total), options.deadline)
                break
            if options.kill:
                owners, pids = processes.ackers.pids(owners=True), processes.components.pids()
                for pid, role in kills.due(acked / total, owners, stats, pids):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    view.note(f"killed {role} {pid}")
        seconds = time.monotonic() - began if began else 0.0
        processes.stop()
        # Exact, because every process has sent its last report.
        stats, ackers = processes.components.stats(), processes.ackers.stats()
        lines_acked = text.acked() - text.dead_letters()
    return DemoReport(
        trees=stats[LINES],
        executed=sum(each.executed for each in stats.values()),
        ackers=ackers,
        lines=total,
        lines_acked=lines_acked,
        seconds=seconds,
        expected=plain_count(parameters.lines),
        counted=counted_words(kafka, name),
        acker_kills=kills.of_ackers,
        bolt_kills=kills.of_bolts,
        overdue=overdue,
    )


class Kills:
    """The kills of an acker worker and of a worker process, at random moments while they have tasks."""

    def __init__(self, seed: int, bolts: Sequence[str]) -> None:
        self._random = random.Random(f"{seed}/chaos")  # noqa: S311
        self._bolts = bolts
        self._acker_at = self._random.uniform(*_ACKER_WINDOW)
        self._bolt_at = self._random.uniform(*_BOLT_WINDOW)
        self.of_ackers = 0
        self.of_bolts = 0

    def due(
        self, done: float, ackers: Sequence[int], stats: Mapping[str, Stats], pids: Mapping[str, Sequence[int]]
    ) -> list[tuple[int, str]]:
        """Process ids, and what they are, to kill when this share of lines is acked; stats and pids by component."""
        due = []
        if not self.of_ackers and done >= self._acker_at and ackers:
            due.append((self._random.choice(ackers), "acker worker"))
            self.of_ackers += 1
        # Processes of a bolt share its tasks evenly, so each has one if there are enough of them.
        working = [
            bolt
            for bolt in self._bolts
            if set(stats[bolt].pids) == set(pids[bolt]) and len(stats[bolt].tasks) >= len(pids[bolt])
        ]
        if not self.of_bolts and done >= self._bolt_at and working:
            bolt = self._random.choice(working)
            due.append((self._random.choice(pids[bolt]), "worker process"))
            self.of_bolts += 1
        return due


def _overdue(components: Mapping[str, Stats], ackers: WorkerStats, lines: tuple[int, int], deadline: float) -> str:
    done, total = lines
    return (
        f"not complete after {deadline:g} s: {done:,} of {total:,} lines are acked; pending: "
        f"{components[LINES].pending:,} at the spout, {ackers.pending:,} in {ackers.partitions} acker partitions, "
        f"inputs of {COUNT}: {components[COUNT].pending:,}. On a slow machine try a longer --deadline"
    )
