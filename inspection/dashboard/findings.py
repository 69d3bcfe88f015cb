"""What the doctor found last. Who asks gets that at once; if it is old, the doctor looks again meanwhile."""

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from inspection.dashboard.source import Shown
from inspection.doctor_process import findings_of
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.errors import ClusterError

EVERY_S: Final = 30.0
"""Between the end of one look and the begin of the next, as long as somebody asks."""


class Findings:
    """Of one topology."""

    def __init__(self, kafka: KafkaSettings, topology: str, clock: Callable[[], float]) -> None:
        self._kafka = kafka
        self._topology = topology
        self._clock = clock
        self._lock = threading.Lock()
        self._looks = False
        self._closed = False
        self._process: subprocess.Popen[str] | None = None
        self._due_at: float | None = None
        self._at: int | None = None
        self._found: Sequence[Shown] = ()
        self._problem: str | None = None

    def read(self) -> Shown:
        """They, and when that was; `at` is None before the first look has ended."""
        with self._lock:
            is_due = self._due_at is None or self._clock() >= self._due_at
            if is_due and not self._looks and not self._closed:
                self._looks = True
                threading.Thread(target=self._look, name="dashboard doctor", daemon=True).start()
            return {"at": self._at, "findings": list(self._found), "problem": self._problem}

    def close(self) -> None:
        """Ends a look that is under way."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _look(self) -> None:
        found, problem = None, None
        try:
            found = findings_of(self._kafka, self._topology, self._started)
        except (ClusterError, OSError) as error:
            problem = str(error)
        with self._lock:
            self._looks, self._process = False, None
            self._due_at = self._clock() + EVERY_S
            self._problem = problem
            if found is not None:
                self._at, self._found = int(time.time() * 1000), found

    def _started(self, process: "subprocess.Popen[str]") -> None:
        with self._lock:
            self._process = process
            if self._closed:
                process.kill()
