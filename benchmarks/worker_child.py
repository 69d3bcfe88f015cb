"""Starts acker workers for a benchmark, and keeps what they say."""

import json
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from benchmarks.errors import BenchmarkError


class WorkerEndedError(BenchmarkError):
    """A worker ended, or said nothing of what was waited for."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a worker said.

    Attributes:
        at: seconds since 1970.
        said: what.
    """

    at: float
    said: str


class WorkerChild:
    """An acker worker in a process of its own; stopped cleanly at the end unless it was killed before.

    Args:
        topology: whose trees it follows.
        servers: of the broker.
        session_timeout_ms: after which the group misses it.

    Attributes:
        began: when it was started, in seconds since 1970.
        events: what it has said and was waited for.
    """

    def __init__(self, topology: str, servers: str, session_timeout_ms: int = 10_000) -> None:
        options = ["--session-timeout-ms", str(session_timeout_ms)]
        self.began = time.time()
        self.events: list[Event] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker_process", topology, servers, *options], stdout=subprocess.PIPE
        )
        self._said: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()

    def kill(self) -> float:
        """Kills it as a crash would, and returns when."""
        at = time.time()
        self._process.kill()
        self._process.wait()
        return at

    def await_event(self, start: str, seconds: float) -> Event:
        """Waits until it says something that starts so, and returns that.

        Raises:
            WorkerEndedError: if it ends before, or does not say so in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                event = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise WorkerEndedError(f"the worker did not say {start!r} within {seconds:g} s") from None
            if event is None:
                raise WorkerEndedError(f"the worker ended before it said {start!r}: see what it wrote above")
            self.events.append(event)
            if event.said.startswith(start):
                return event

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for line in pipe:
                if line.endswith(b"\n"):  # not half a line of a process that was killed
                    self._said.put(Event(**json.loads(line)))
        self._said.put(None)
