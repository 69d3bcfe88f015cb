"""`acker`, run to its end, or running: its output line by line, and all processes that it has started."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from tests.pages import ROOT
from tests.waiting import eventually

Run = subprocess.CompletedProcess[str]
Acker = Callable[..., Run]

PATIENCE = 60.0
"""Deadline of a condition, in seconds."""


def descendants(pid: int) -> set[int]:
    """All processes that a process has started, directly or not, and that have not ended."""
    try:
        return {each.pid for each in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def command_line(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


class RunningAcker:
    """A command in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            for stream, lines in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def output(self) -> str:
        """All that it has written so far."""
        return "".join([*self.out, *self.err])

    def wait_for(self, text: str) -> None:
        """Waits until the text is in its output."""
        self.wait_until(lambda: text in self.output, repr(text))

    def wait_for_output(self) -> None:
        """Waits for a line on its standard output: standard error may be here before it."""
        self.wait_until(lambda: bool(self.out), "a line on its standard output")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition as long as the command runs."""
        try:
            eventually(lambda: condition() or self.process.poll() is not None, what, PATIENCE)
        except AssertionError as error:
            error.add_note(f"its output:\n{self.output}")
            raise
        if self.process.poll() is not None:
            self.ended()
        assert condition(), f"{what} did not happen before it ended; its output:\n{self.output}"

    def ended(self, seconds: float = PATIENCE) -> int:
        """Waits until the command has ended and all its output is here, and returns the exit code."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(seconds)
        return code

    def end(self, number: signal.Signals) -> int:
        """Sends a signal, waits until the command and all its children are gone, and returns the exit code."""
        family = descendants(self.process.pid)
        assert family, "it has no children"
        self.process.send_signal(number)
        code = self.ended()
        eventually(lambda: not any(map(is_alive, family)), "all its children are gone", 30)
        return code


def run_acker(
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    given: str = "",
    seconds: float = 120,
) -> Run:
    """Runs a command to its end in a process of its own, with `given` on its standard input."""
    return subprocess.run(
        [sys.executable, "-m", "acker_cli", *arguments],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        input=given,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def call_acker(
    *arguments: str,
    servers: str | None = None,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    given: str = "",
) -> Run:
    """Runs a command in this process, without its settings: for all but signals and starts.

    Modules of the directory can be imported, and `given` is on standard input, which is not a terminal.
    """
    from acker_cli.app import main

    whole = [*arguments, *(() if servers is None else ("--bootstrap-servers", servers))]
    out, err = io.StringIO(), io.StringIO()
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("ACKER_")}
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd),
        patch.object(sys, "stdin", io.StringIO(given)),
        patch.object(sys, "path", [str(cwd), *sys.path]),
        patch.dict(os.environ, {**kept, **(environment or {})}, clear=True),
    ):
        try:
            main(whole)
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Run(whole, code, out.getvalue(), err.getvalue())


def json_of(run: Run) -> Any:
    """The JSON of a successful command."""
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def one_line(run: Run) -> str:
    """The error of a command, which is one line."""
    assert run.returncode == 1, run.stderr
    assert run.stderr.count("\n") == 1, run.stderr
    return run.stderr


@contextmanager
def running_acker(*arguments: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Iterator[RunningAcker]:
    """Starts a command, and ends it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "acker_cli", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        running = RunningAcker(process)
        try:
            yield running
        finally:
            process.kill()
            # Else the pipes are closed while they are read.
            running.ended(60)
