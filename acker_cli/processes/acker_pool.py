"""Acker workers as supervised child processes, each a `python -m acker_cli.processes.acker_pool`.

Their standard input has the launch, one line of JSON, and ends with the parent. Statistics, and the error of an
unexpected end, are reported on a pipe.
"""

import secrets
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final

from acker_cli.console import log_to_stderr
from acker_cli.errors import ProcessError
from acker_worker.stats import WorkerStats
from kafka_clients.repeated_lines import EACH, get_logger
from kafka_clients.supervision import (
    ChildProcess,
    Slot,
    Supervisor,
    describe_exit,
    read_launch,
    run_reporting,
    send_report,
    stop_with_supervisor,
)

logger = get_logger(__name__)

ACKER_LOOP: Final = "acker"
"""The name of the loop of acker workers; the others have the name of their component."""
_MODULE: Final = "acker_cli.processes.acker_pool"
_ORPHAN_SECONDS: Final = 10.0  # how long an orphan may take to stop cleanly
_LONGEST_COUNTS: Final = ("clock_lag_ms", "rebuild_seconds", "ack_partitions", "stalled_ms")
"""Statistics that are combined by their maximum, not by their sum."""


class AckerPool(Supervisor[WorkerStats]):
    """Runs acker workers of one topology, and restarts workers that end.

    `kafka` are librdkafka properties, `worker` fields of `WorkerSettings`, `log_level` the least that they log.
    """

    def __init__(
        self,
        topology: str,
        kafka: Mapping[str, Any],
        count: int,
        worker: Mapping[str, Any] | None = None,
        log_level: str = "warning",
    ) -> None:
        super().__init__(WorkerStats.of, summed, lambda name, why: ProcessError(f"{name}: {why}"))
        self.count = count
        launch = {"topology": topology, "kafka": {**kafka}, "worker": {**(worker or {})}, "log_level": log_level}
        # Workers of other pools are in the same group.
        pool = secrets.token_hex(4)

        def launch_of(number: int) -> dict[str, Any]:
            return {**launch, "instance": f"{pool}-{number}"}

        self._slots = [
            Slot(
                (ACKER_LOOP,),
                partial(ChildProcess, (_MODULE,), {}),
                partial(launch_of, number),
                {ACKER_LOOP: WorkerStats()},
            )
            for number in range(count)
        ]

    def check(self) -> None:
        """Raises a `ProcessError` if no worker could even start."""
        if self._failure is not None:
            raise self._failure

    def pids(self, *, owners: bool = False) -> list[int]:
        """Process ids of the running workers, or of the workers that own partitions."""
        latest = self.latest()
        return [pid for pid, stats in latest.items() if stats.partitions] if owners else [*latest]

    def latest(self) -> dict[int, WorkerStats]:
        """The latest statistics of each running worker, by its process id."""
        running = [(child.pid, slot) for slot in self._slots if (child := slot.running) is not None]
        return {pid: slot.latest.get(ACKER_LOOP, WorkerStats()) for pid, slot in running}

    def stats(self) -> WorkerStats:
        """The sum over all workers; including the counters of ended ones."""
        return self._sums().get(ACKER_LOOP, WorkerStats())

    def _on_exit(self, slot: Slot[WorkerStats], pid: int, code: int, pause: float) -> ProcessError | None:
        if code > 0 and not self._reported:
            return ProcessError(slot.error or f"an acker worker ended with code {code} at once: see its log")
        ended = describe_exit(code, slot.error)
        logger.error("acker worker %d %s; another one starts in %.1f s", pid, ended, pause, extra=EACH)
        return None


def summed(*stats: WorkerStats) -> WorkerStats:
    """The sum of snapshots of different workers; times are not added up, the longest counts."""
    total: dict[str, Any] = {}
    for field in fields(WorkerStats):
        values = [getattr(one, field.name) for one in stats]
        if field.name == "by_partition":
            # While a partition moves, its old and its new owner may both still show it.
            held = {one.partition: one for partitions in values for one in partitions}
            total[field.name] = tuple(held[partition] for partition in sorted(held))
        elif field.name == "stalled_by":
            total[field.name] = max(stats, key=lambda one: one.stalled_ms).stalled_by
        else:
            total[field.name] = max(values) if field.name in _LONGEST_COUNTS else sum(values)
    return WorkerStats(**total)


def main() -> int:
    """Works as a child process until it is stopped by a signal or the end of the parent; returns the exit code."""
    # Before the launch is read: the process that follows another one has time for it.
    from acker_worker.ledger import warm_up
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings

    warm_up()
    launch = read_launch()
    if launch is None:
        return 2
    log_to_stderr(launch["log_level"])
    topology, reports = launch["topology"], launch["reports"]

    def on_stats(stats: WorkerStats) -> None:
        send_report(reports, {"stats": stats.to_dict()})

    worker = AckerWorker(
        topology, launch["kafka"], WorkerSettings(**launch["worker"]), on_stats, instance=launch["instance"]
    )
    stop_with_supervisor(worker.stop, _ORPHAN_SECONDS)
    return run_reporting(worker.run, partial(send_report, reports))


if __name__ == "__main__":
    sys.exit(main())
