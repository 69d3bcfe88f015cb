"""One acker worker as a child process: `python -m acker_cli.processes.acker_process`, started by `AckerPool`.

Standard input brings one line of JSON, the `AckerLaunch`, and ends with the parent. A pipe takes lines of JSON:
`{"stats": {...}}` now and then, `{"error": "..."}` before an end that was not asked for.
"""

import dataclasses
import json
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

    def to_line(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"


def main() -> int:
    """Works until it is stopped by a signal or the end of the parent; returns the exit code."""
    # Before the launch is read: a process that was started early has time for it.
    from acker_worker.ledger import warm_up
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings
    from kafka_clients.errors import ClusterError

    warm_up()
    line = read_launch()
    if not line:
        return 2
    launch = AckerLaunch(**json.loads(line))
    log_to_stderr(launch.log_level)

    def report(line: str) -> None:
        send_report(launch.reports, line.encode() + b"\n")

    def on_stats(stats: WorkerStats) -> None:
        report(f'{{"stats":{stats.to_json()}}}')

    worker = AckerWorker(launch.topology, launch.kafka, WorkerSettings(**launch.worker), on_stats)
    stop_with_supervisor(worker.stop, _ORPHAN_SECONDS)
    try:
        worker.run()
    except ClusterError as error:
        report(json.dumps({"error": str(error)}))
        return 1
    except Exception as error:
        logging.getLogger(__name__).exception("the acker worker of %s ends", launch.topology)
        report(json.dumps({"error": f"{type(error).__name__}: {error}; the log has the traceback"}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
