"""An acker worker in a process of its own that says when it reached what: `python -m benchmarks.worker_process …`.

Each line on standard output is a JSON object with `at`, seconds since 1970, and `said`: `imported`, `compiled`, and
from then on what the worker writes into its log. It ends on SIGTERM.
"""

import argparse
import json
import logging
import signal
import time
from types import FrameType
from typing import Final

from acker_worker.ledger import warm_up
from acker_worker.worker import AckerWorker

IMPORTED: Final = "imported"
COMPILED: Final = "compiled"


def say(at: float, said: str) -> None:
    print(json.dumps({"at": at, "said": said}), flush=True)


class Teller(logging.Handler):
    """Says what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        """Says one record, with the time at which it was made."""
        say(record.created, record.getMessage())


def main() -> None:
    say(time.time(), IMPORTED)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology")
    parser.add_argument("servers")
    parser.add_argument("--session-timeout-ms", type=int, default=10_000)
    given = parser.parse_args()
    log = logging.getLogger("acker_worker")
    log.setLevel(logging.INFO)
    log.addHandler(Teller())
    warm_up()
    say(time.time(), COMPILED)
    kafka = {"bootstrap.servers": given.servers, "session.timeout.ms": given.session_timeout_ms}
    worker = AckerWorker(given.topology, kafka)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        worker.stop()

    signal.signal(signal.SIGTERM, on_signal)
    worker.run()


if __name__ == "__main__":
    main()
