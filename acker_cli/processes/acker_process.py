"""One acker worker as a child process: `python -m acker_cli.processes.acker_process`, started by `AckerPool`.

Standard input brings the `AckerLaunch`, and ends with the parent. Statistics, and the error of an end that was not
asked for, are reported on a pipe.
"""

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from acker_cli.console import log_to_stderr
from kafka_clients.supervision import read_launch, send_report, stop_with_supervisor

_ORPHAN_SECONDS: Final = 10.0  # how long an orphan may take to stop cleanly


@dataclass(frozen=True, slots=True)
class AckerLaunch:
    """Whose trees a worker follows, librdkafka properties, fields of `WorkerSettings`, and the least that is logged."""

    topology: str
    kafka: Mapping[str, Any] = field(repr=False)
    worker: Mapping[str, Any]
    log_level: str
    reports: int = 1  # file descriptor of the pipe that reports go to


def main() -> int:
    """Works until it is stopped by a signal or the end of the parent; returns the exit code."""
    # Before the launch is read: a process that was started early has time for it.
    from acker_worker.ledger import warm_up
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings
    from kafka_clients.errors import ClusterError

    warm_up()
    read = read_launch()
    if read is None:
        return 2
    launch = AckerLaunch(**read)
    log_to_stderr(launch.log_level)

    def on_stats(stats: WorkerStats) -> None:
        send_report(launch.reports, {"stats": stats.to_dict()})

    worker = AckerWorker(launch.topology, launch.kafka, WorkerSettings(**launch.worker), on_stats)
    stop_with_supervisor(worker.stop, _ORPHAN_SECONDS)
    try:
        worker.run()
    except ClusterError as error:
        send_report(launch.reports, {"error": str(error)})
        return 1
    except Exception as error:
        logging.getLogger(__name__).exception("the acker worker of %s ends", launch.topology)
        send_report(launch.reports, {"error": f"{type(error).__name__}: {error}; the log has the traceback"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
