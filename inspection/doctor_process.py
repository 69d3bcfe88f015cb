"""The doctor in a process of its own, for callers that run it again and again.

Some of its requests abort the process where a broker goes away meanwhile (ADR 18). The request is sent on standard
input, because settings may contain passwords.
"""

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from inspection.doctor.checks import examine
from inspection.doctor_gathering import gather_facts
from kafka_clients.catalogue import KafkaSettings

EVERY_SECONDS: Final = 30.0  # between two runs, as long as findings are requested
WATCH_SECONDS: Final = 3.0  # how long lag is watched
_LONGEST_SECONDS: Final = 120.0  # how long a run may take


class Findings:
    """The doctor's last findings on a topology; if they are old, it runs again, and `read` returns them meanwhile."""

    def __init__(self, kafka: KafkaSettings, topology: str, clock: Callable[[], float]) -> None:
        self._kafka = dict(kafka)
        self._topology = topology
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[str] | None = None
        self._due_at = -math.inf  # infinite while it runs
        self._last: Mapping[str, Any] = {"at": None, "findings": [], "problem": None}

    def read(self) -> Mapping[str, Any]:
        """The findings as `acker doctor --json` has them, with their time, and the `problem` of the last run."""
        with self._lock:
            if self._clock() >= self._due_at and not self._closed:
                self._due_at = math.inf
                threading.Thread(target=self._examine, name="dashboard doctor", daemon=True).start()
            return self._last

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _examine(self) -> None:
        try:
            result = {"findings": json.loads(self._output()), "at": int(time.time() * 1000), "problem": None}
        except ValueError:
            problem = f"acker doctor {self._topology} did not finish: run it in a terminal, and check the brokers"
            result = {"problem": problem}
        except OSError as error:
            result = {"problem": str(error)}
        with self._lock:
            self._process = None
            self._due_at = self._clock() + EVERY_SECONDS
            self._last = {**self._last, **result}

    def _output(self) -> str:
        pipe, command = subprocess.PIPE, [sys.executable, "-m", __name__]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        with self._lock:
            self._process = process
            if self._closed:
                process.kill()
        request = json.dumps({"kafka": self._kafka, "topology": self._topology, "watch_s": WATCH_SECONDS})
        try:
            return process.communicate(request, timeout=_LONGEST_SECONDS)[0]
        except subprocess.TimeoutExpired:
            return ""
        finally:
            process.kill()
            process.wait()


def main() -> None:
    request = json.load(sys.stdin)
    topology = request["topology"]
    facts = gather_facts(request["kafka"], topology, None, request["watch_s"], lambda _line: None)
    # Who runs this follows the topology, and knows its health better.
    json.dump([asdict(finding) for finding in examine(facts, with_health=False)], sys.stdout)


if __name__ == "__main__":
    main()
