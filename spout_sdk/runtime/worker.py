"""Runs components of a topology in one process, each in a thread of its own."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from kafka_clients.supervision import run_reporting
from spout_sdk.runtime.execute_watch import end_process

_WAKE_SECONDS: Final = 0.5  # a signal that comes just before the main thread waits is handled after the wait


class Runner(Protocol):
    """A `ComponentRunner`, for a worker."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


class Worker:
    """Runs components until `stop`, or until one of them fails: then the others stop in order.

    Args:
        runners: component → what runs it.
        report: called with a component and the error by which it ends, in its thread.
        exit_code: the exit code for an exception.
        stop_seconds: how long the others may take to stop; then the process ends.
    """

    def __init__(
        self,
        runners: Mapping[str, Runner],
        report: Callable[[str, Mapping[str, Any]], object],
        exit_code: Callable[[BaseException], int],
        stop_seconds: float,
    ) -> None:
        self._runners = runners
        self._report = report
        self._exit_code = exit_code
        self._stop_seconds = stop_seconds
        self._ended = SimpleQueue[tuple[str, int]]()

    def stop(self) -> None:
        """Asks all to end; from any thread or a signal handler."""
        for runner in self._runners.values():
            runner.stop()

    def run(self) -> int:
        """Runs all, and returns the exit code of the first that fails; 0 if none does."""
        for component, runner in self._runners.items():
            threading.Thread(target=self._run_one, args=(component, runner), name=component, daemon=True).start()
        running, failed, code, deadline = {*self._runners}, "", 0, math.inf
        while running:
            try:
                component, ended = self._ended.get(timeout=_WAKE_SECONDS)
            except Empty:
                if time.monotonic() >= deadline:
                    left = ", ".join(sorted(running))
                    end_process(f"{left} did not stop in {self._stop_seconds:.0f} s, and {failed} has failed", code)
                continue
            running.remove(component)
            if ended and not code:
                failed, code, deadline = component, ended, time.monotonic() + self._stop_seconds
                self.stop()
        return code

    def _run_one(self, component: str, runner: Runner) -> None:
        code = 1
        try:
            code = run_reporting(runner.run, lambda error: self._report(component, error), self._exit_code)
        finally:
            self._ended.put((component, code))
