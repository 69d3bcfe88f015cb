"""One acker worker as a child process: `python -m acker_cli.processes.acker_process`, started by `AckerPool`.

Standard input brings one line of JSON, the `AckerLaunch` (settings may hold passwords, so they stand neither on a
command line nor in the environment), and ends with the parent. Standard output takes lines of JSON: `{"stats": {...}}`
now and then, `{"error": "..."}` before an end that was not asked for.
"""

import dataclasses
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from acker_cli.console import log_to_stderr

_ORPHAN_SECONDS: Final = 10.0
"""How long an orphan may take to stop cleanly."""


@dataclass(frozen=True, slots=True)
class AckerLaunch:
    """Whose trees a worker follows, librdkafka properties, fields of `WorkerSettings`, and the least that is logged."""

    topology: str
    kafka: Mapping[str, Any] = field(repr=False)
    worker: Mapping[str, Any]
    log_level: str

    def to_line(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"


def _read_line() -> bytes:
    """The line that the parent wrote first; empty if there is no parent."""
    # Read byte by byte, because nothing may be buffered of what `_end_with_parent` watches.
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _end_with_parent(stop: Callable[[], None]) -> None:
    """Calls `stop` when standard input ends; ends the process if it is still there some time later."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop()
        threading.Event().wait(_ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Works until it is stopped by a signal or the end of the parent; returns the exit code."""
    # Before the launch is read: a process that was started early has time for it.
    from acker_worker.ledger import warm_up
    from acker_worker.stats import WorkerStats
    from acker_worker.worker import AckerWorker, WorkerSettings
    from kafka_clients.errors import ClusterError

    warm_up()
    line = _read_line()
    if not line:
        return 2
    launch = AckerLaunch(**json.loads(line))
    log_to_stderr(launch.log_level)

    def on_stats(stats: WorkerStats) -> None:
        _report(f'{{"stats":{stats.to_json()}}}')

    worker = AckerWorker(launch.topology, launch.kafka, WorkerSettings(**launch.worker), on_stats)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    _end_with_parent(worker.stop)
    try:
        worker.run()
    except ClusterError as error:
        _report(json.dumps({"error": str(error)}))
        return 1
    except BrokenPipeError:  # the parent is gone, and stats have no reader
        return 1
    except Exception as error:
        logging.getLogger(__name__).exception("the acker worker of %s ends", launch.topology)
        _report(json.dumps({"error": f"{type(error).__name__}: {error}; the log has the traceback"}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
