"""Ctrl-C and SIGTERM unwind a command once."""

import os
import signal
import subprocess
import sys

import pytest

from acker_cli.interruption import Interrupted, interruptible

_IMPATIENT = """
import os, signal
from acker_cli.interruption import interruptible

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

with interruptible():
    try:
        interrupt()
    finally:
        interrupt()
        interrupt()
        print("still here")
"""


def test_a_signal_unwinds() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as raised, interruptible():
        os.kill(os.getpid(), signal.SIGINT)
    assert raised.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_is_how_a_service_ends() -> None:
    with interruptible(is_service=True):
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Interrupted) as raised, interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    assert raised.value.exit_code == 143
    with pytest.raises(Interrupted), interruptible(is_service=True):
        os.kill(os.getpid(), signal.SIGINT)


def test_the_second_signal_does_not_disturb_cleaning_up() -> None:
    cleaned = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            cleaned.append(True)

    with pytest.raises(Interrupted), interruptible():
        work()
    assert cleaned


def test_the_third_one_ends_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", _IMPATIENT], capture_output=True, text=True, check=False)
    assert run.returncode == 130
    assert run.stdout == ""


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
