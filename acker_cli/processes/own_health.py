"""The health of the processes of a command, by their own statistics."""

import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Final

from acker_worker.stats import WorkerStats
from inspection.health.findings import Finding
from inspection.health.observation import Observation
from inspection.health.processes import check_worker
from inspection.health.verdict import judge_processes
from inspection.view import TopologyView
from spout_sdk import Stats
from tuple_tree.manifest import Manifest
from tuple_tree.process_stats import StatsRecord

_UPTIME_MS: Final = 3_600_000  # it does not count for these checks


def component_findings(manifest: Manifest, latest: Iterable[Stats]) -> list[Finding]:
    """The findings of the components of a topology that run here."""
    view, now_ms = TopologyView(manifest), time.time_ns() // 1_000_000
    process = (socket.gethostname(), os.getpid(), "", _UPTIME_MS)
    view.feed(StatsRecord("component", each.component, *process, stats=each.to_dict(), at_ms=now_ms) for each in latest)
    return judge_processes(Observation(manifest, view.snapshot(now_ms)))


def worker_findings(workers: Mapping[str, tuple[str, WorkerStats]]) -> list[Finding]:
    """The findings of acker workers, by the names of their loops; each with its topology."""
    return [
        finding
        for name, (topology, stats) in workers.items()
        for finding in check_worker(topology, name, *stats.stalled)
    ]
