"""Sides of a comparison: processes that say what they are, and then run a round for each line that they are sent.

Both are there all the time, and take turns, so that what else the machine does falls on both.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from benchmarks.errors import BenchmarkError


class SideError(BenchmarkError):
    """A side ended before it was told to."""


class Side:
    """A process with one side of a comparison.

    Args:
        name: for errors.
        command: starts it; it writes a JSON object on one line once it is ready, and one for each line it reads.

    Attributes:
        said: what it said when it was ready.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        if kind is not None:
            self._process.kill()
        self._process.stdin.close()
        self._process.wait()

    def round(self) -> dict[str, Any]:
        """Runs a round.

        Raises:
            SideError: if it ended instead of answering.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its end of file says the same
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideError(f"{self._name} ended with exit code {self._process.wait()}: see what it wrote above")
        said: dict[str, Any] = json.loads(line)
        return said


def serve(said: dict[str, Any], run: Callable[[], dict[str, Any]]) -> None:
    """Is a side: says what it is, and runs a round for each line that it reads, to the end of its input."""
    print(json.dumps(said), flush=True)
    for _ in sys.stdin:
        print(json.dumps(run()), flush=True)
