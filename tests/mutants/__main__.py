"""Applies each mutant in a process of its own, and expects a test to fail."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest

from tests import mutants
from tests.mutants.catalogue import MUTANTS
from tests.mutants.patches import Mutant

_OPTIONS: Final = ("-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_PARTS: Final = (("tests/unit", "-n", "3"), ("tests/kafka", "-n", "3"), ("tests/spark",))
_AT_A_TIME: Final = 2
_FAILED: Final = 1  # pytest's exit code when tests ran and some failed; others mean that the check itself is broken


class Done(NamedTuple):
    """A run of pytest that has ended."""

    code: int
    output: str
    seconds: float

    @property
    def failures(self) -> list[str]:
        """The ids of failed tests, with their errors; none if tests could not run."""
        lines = self.output.splitlines() if self.code == _FAILED else ()
        return [line.removeprefix("FAILED ") for line in lines if line.startswith("FAILED ")]


class Run:
    """A run of pytest in a process forked from this one, whose imports take longer than most of the tests."""

    def __init__(self, *arguments: str) -> None:
        self._began = time.monotonic()
        self._output: Any = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its object
        self.pid = os.fork()
        if not self.pid:
            code = pytest.ExitCode.INTERNAL_ERROR
            try:
                os.dup2(self._output.fileno(), 1)
                os.dup2(self._output.fileno(), 2)
                code = pytest.ExitCode(pytest.main([*_OPTIONS, *arguments]))
            finally:
                sys.stdout.flush()
                os._exit(code)

    def ended(self, status: int) -> Done:
        """Its result, by the status of its process."""
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        return Done(os.waitstatus_to_exitcode(status), output, time.monotonic() - self._began)

    def wait(self) -> Done:
        """Waits until it has ended."""
        return self.ended(os.waitpid(self.pid, 0)[1])


def mutated(mutant: Mutant, *arguments: str) -> Run:
    """Runs pytest until a test fails, with a mutant."""
    return Run("-x", "-p", "tests.mutants.plugin", "--mutant", mutant.name, *arguments)


def report(mutant: Mutant, done: Done) -> bool:
    """Prints whether the test of a mutant has failed, and returns it."""
    found = bool(done.failures)
    print(f"{'found ' if found else 'MISSED'} {done.seconds:5.1f} s  {mutant.name}", flush=True)
    if not found:
        print(f"  {mutant.test} ended with exit code {done.code}\n{done.output[-3000:]}", flush=True)
    return found


def check(chosen: Sequence[Mutant]) -> int:
    """Runs for each mutant the test that finds it; returns how many were not found."""
    tests = sorted({mutant.test for mutant in chosen})
    sound = Run("-n", str(_AT_A_TIME), "--dist", "loadgroup", *tests).wait()
    if sound.code:
        print(sound.output, "the tests fail without any mutant", sep="\n", file=sys.stderr)
        return len(chosen)
    waiting, running, found = [*chosen], dict[int, tuple[Mutant, Run]](), 0
    while waiting or running:
        while waiting and len(running) < _AT_A_TIME:
            run = mutated(waiting[0], waiting[0].test)
            running[run.pid] = waiting.pop(0), run
        pid, status = os.wait()
        mutant, run = running.pop(pid)
        found += report(mutant, run.ended(status))
    print(f"{found} passed, {len(chosen) - found} failed")
    return len(chosen) - found


def find(chosen: Sequence[Mutant]) -> int:
    """Runs all plain tests for each mutant until one fails, and prints it; returns how many were not found."""
    missed = 0
    for mutant in chosen:
        found: list[str] = []
        for part in _PARTS:
            if found := mutated(mutant, *part).wait().failures:
                break
        missed += not found
        print(f"{mutant.name}: {'; '.join(found) or 'MISSED'}", flush=True)
    return missed


def main() -> int:
    """Returns 1 if a mutant was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(mutants.__doc__ or "").split("\n")[0])
    parser.add_argument("--find", action="store_true", help="run all plain tests, and print the failing ones")
    parser.add_argument("--list", action="store_true", help="print the mutants with their tests, and run nothing")
    parser.add_argument("names", nargs="*", help="only mutants whose names contain one of these")
    arguments = parser.parse_args()
    chosen = [each for each in MUTANTS.values() if not arguments.names or any(n in each.name for n in arguments.names)]
    if arguments.list:
        print("\n".join(f"{mutant.name}\n    {mutant.test}" for mutant in chosen))
        return 0
    return 1 if (find if arguments.find else check)(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
