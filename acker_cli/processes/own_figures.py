"""The figures and the health of the processes of a command, by their own statistics."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from acker_cli.processes.acker_pool import ACKER_LOOP, AckerPool
from acker_worker.stats import WorkerStats
from inspection.health.findings import Finding
from inspection.health.observation import Observation
from inspection.health.processes import check_worker
from inspection.health.verdict import judge_processes
from inspection.view import Snapshot, TopologyView
from spout_sdk.statistics import Stats
from tuple_tree.manifest import Manifest
from tuple_tree.process_stats import Kind, StatsRecord

_UPTIME_MS: Final = 3_600_000  # it does not count for these checks


class OwnFigures:
    """The figures of the components and acker workers that a command runs, in the form of those of `acker top`.

    They come from the processes and not through Kafka, so they are known while no broker can be reached.
    """

    def __init__(self, manifest: Manifest, ackers: AckerPool, clock: Callable[[], float] = time.monotonic) -> None:
        self._manifest, self._ackers = manifest, ackers
        self._view = TopologyView(manifest)
        self._clock, self._began = clock, clock()

    def read(self, components: Mapping[str, Stats]) -> tuple[Snapshot, list[Finding]]:
        """The figures by the sums of the statistics of each component, and the findings."""
        uptime_ms = round((self._clock() - self._began) * 1000)
        self._view.feed(_record("component", name, os.getpid(), uptime_ms, each) for name, each in components.items())
        workers = self._ackers.latest()
        self._view.feed(_record("acker", ACKER_LOOP, pid, uptime_ms, each) for pid, each in workers.items())
        snapshot = self._view.snapshot(_now_ms())
        found = judge_processes(Observation(self._manifest, snapshot))
        # The others run elsewhere, or nowhere: their processes are not known here.
        snapshot["components"] = [each for each in snapshot["components"] if each["name"] in components]
        snapshot["workers"] = [each for each in snapshot["workers"] if int(each["name"].rpartition("/")[2]) in workers]
        alive = {each["name"] for each in snapshot["workers"]}
        snapshot["acker"] = [each for each in snapshot["acker"] if each["owner"] in alive]
        own = [each for each in found if each.component is None or each.component in components]
        return snapshot, own


def component_findings(manifest: Manifest, latest: Iterable[Stats]) -> list[Finding]:
    """The findings of the components of a topology that run here."""
    view = TopologyView(manifest)
    view.feed(_record("component", each.component, os.getpid(), _UPTIME_MS, each) for each in latest)
    return judge_processes(Observation(manifest, view.snapshot(_now_ms())))


def worker_findings(workers: Mapping[str, tuple[str, WorkerStats]]) -> list[Finding]:
    """The findings of acker workers, by the names of their loops; each with its topology."""
    return [
        finding
        for name, (topology, stats) in workers.items()
        for finding in check_worker(topology, name, *stats.stalled)
    ]


def _record(kind: Kind, name: str, pid: int, uptime_ms: int, stats: Stats | WorkerStats) -> StatsRecord:
    return StatsRecord(kind, name, socket.gethostname(), pid, "", uptime_ms, stats=stats.to_dict(), at_ms=_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
