"""One acker worker as a child process: `python -m acker_cli.acker_process`, started by `AckerPool`.

Standard input brings one line of JSON, the `AckerLaunch` (settings may hold passwords, so they stand neither on a
command line nor in the environment), and ends with the parent. Standard output takes lines of JSON: `{"stats": {...}}`
now and then, `{"error": "..."}` before an end that was not asked for.
"""

import dataclasses
import json
import logging
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from acker_cli import lifeline
from acker_cli.logs import log_to_stderr


@dataclass(frozen=True, slots=True)
class AckerLaunch:
    """What a worker has to know.

    Attributes:
        topology: whose trees to follow.
        kafka: librdkafka properties.
        worker: fields of `WorkerSettings`.
        log_level: the least that is logged.
    """

    topology: str
    kafka: Mapping[str, Any] = field(repr=False)
    worker: Mapping[str, Any]
    log_level: str

    def to_line(self) -> bytes:
        """The launch as a line of JSON."""
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "AckerLaunch":
        """Reads what `to_line` wrote."""
        return cls(**json.loads(line))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Works until told to stop."""
    # Before the launch is read: a process that was started early has time for it.
    from acker_worker.ledger import warm_up
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings
    from kafka_clients.errors import ClusterError

    warm_up()
    line = lifeline.read_line()
    if not line:
        return 2
    launch = AckerLaunch.from_line(line)
    log_to_stderr(launch.log_level)

    def on_stats(stats: WorkerStats) -> None:
        _say(f'{{"stats":{stats.to_json()}}}')

    worker = AckerWorker(launch.topology, launch.kafka, WorkerSettings(**launch.worker), on_stats)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    lifeline.end_with_parent(worker.stop)
    try:
        worker.run()
    except ClusterError as error:
        _say(json.dumps({"error": str(error)}))
        return 1
    except BrokenPipeError:  # the parent is gone, and nobody reads stats any more
        return 1
    except Exception as error:
        logging.getLogger(__name__).exception("the acker worker of %s ends", launch.topology)
        _say(json.dumps({"error": f"{type(error).__name__}: {error}; the log has the traceback"}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
