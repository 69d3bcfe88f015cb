"""One acker worker as a child process: `python -m acker_cli.processes.acker_process`, started by `AckerPool`.

Standard input has the launch, one line of JSON, and ends with the parent. Statistics, and the error of an unexpected
end, are reported on a pipe.
"""

import logging
import sys
from typing import Final

from acker_cli.console import log_to_stderr
from kafka_clients.supervision import read_launch, send_report, stop_with_supervisor

_ORPHAN_SECONDS: Final = 10.0  # how long an orphan may take to stop cleanly


def main() -> int:
    """Works until it is stopped by a signal or the end of the parent; returns the exit code."""
    # Before the launch is read: a process that was started early has time for it.
    from acker_worker.ledger import warm_up
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings
    from kafka_clients.errors import ClusterError

    warm_up()
    launch = read_launch()
    if launch is None:
        return 2
    log_to_stderr(launch["log_level"])
    topology, reports = launch["topology"], launch["reports"]

    def on_stats(stats: WorkerStats) -> None:
        send_report(reports, {"stats": stats.to_dict()})

    worker = AckerWorker(topology, launch["kafka"], WorkerSettings(**launch["worker"]), on_stats)
    stop_with_supervisor(worker.stop, _ORPHAN_SECONDS)
    try:
        worker.run()
    except ClusterError as error:
        send_report(reports, {"error": str(error)})
        return 1
    except Exception as error:
        logging.getLogger(__name__).exception("the acker worker of %s ends", topology)
        send_report(reports, {"error": f"{type(error).__name__}: {error}; the log has the traceback"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
