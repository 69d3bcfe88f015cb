"""Ctrl-C and SIGTERM unwind a command once."""

import os
import signal
import subprocess
import sys

import pytest

from acker_cli.interruption import Interrupted, interruptible

_THREE_TIMES = """
import os, signal
from acker_cli.interruption import interruptible

with interruptible():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        print("still here")
"""


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def test_the_first_signal_unwinds_and_the_second_does_not_disturb_that() -> None:
    before, cleaned = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        try:
            interrupt()
        finally:
            interrupt()
            cleaned.append(True)

    with pytest.raises(Interrupted) as raised, interruptible():
        work()
    assert (raised.value.exit_code, cleaned) == (130, [True])
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_is_how_a_service_ends() -> None:
    with interruptible(is_service=True):
        interrupt(signal.SIGTERM)
    with pytest.raises(Interrupted) as raised, interruptible():
        interrupt(signal.SIGTERM)
    assert raised.value.exit_code == 143
    with pytest.raises(Interrupted), interruptible(is_service=True):
        interrupt()


def test_the_third_one_ends_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", _THREE_TIMES], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (130, "")
