"""Ctrl-C and SIGTERM unwind a command once."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from acker_cli import interruption
from acker_cli.interruption import Interrupted, interruptible, stopped_by_signals
from kafka_clients import catalogue
from tests.unit.cli.running import call_acker
from tests.waiting import eventually

_THREE_TIMES = """
import os, signal
from acker_cli.interruption import interruptible, stopped_by_signals

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


def test_sigterm_ends_a_service() -> None:
    with interruptible(is_service=True):
        interrupt(signal.SIGTERM)
    with pytest.raises(Interrupted) as raised, interruptible():
        interrupt(signal.SIGTERM)
    assert raised.value.exit_code == 143
    with pytest.raises(Interrupted), interruptible(is_service=True):
        interrupt()


def test_the_first_two_signals_request_a_stop() -> None:
    stops: list[int] = []
    with stopped_by_signals(lambda: stops.append(1)) as received:
        interrupt(signal.SIGTERM)
        interrupt()
    assert (received, stops) == ([signal.SIGTERM, signal.SIGINT], [1, 1])


@pytest.mark.parametrize("guard", ["interruptible()", "stopped_by_signals(print)"])
def test_the_third_signal_ends_the_process(guard: str) -> None:
    script = _THREE_TIMES.replace("interruptible():", f"{guard}:")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, "still here" in run.stdout) == (130, False)


def test_a_slow_stop_prints_a_hint(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(interruption, "SLOW_SECONDS", 0)
    monkeypatch.setattr(sys, "__stderr__", None)
    with stopped_by_signals(lambda: None):
        interrupt()
        eventually(lambda: "Ctrl-C twice more ends it at once" in capfd.readouterr().err, "a line about it")


@pytest.mark.parametrize("command", ["topologies list", "top orders", "worker", "doctor"])
def test_ctrl_c_ends_a_command_that_waits_for_a_broker(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker answers at this address, and a call that waits within librdkafka would not be interrupted."""
    ended, in_time = threading.Event(), []

    def interrupt_and_wait() -> None:
        interrupt()
        in_time.append(ended.wait(20))

    thread = threading.Thread(target=interrupt_and_wait)

    class Interrupting(AdminClient):
        def describe_topics(self, *topics: Any, **options: Any) -> Any:
            futures = super().describe_topics(*topics, **options)
            thread.start()
            return futures

    monkeypatch.setattr(catalogue, "FIRST_SECONDS", 60.0)
    monkeypatch.setattr(catalogue, "AdminClient", Interrupting)
    run = call_acker(*command.split(), servers="127.0.0.1:1")
    ended.set()
    thread.join()
    assert (run.returncode, in_time) == (130, [True]), run.stderr


def test_ctrl_c_while_a_client_is_made_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("acker_cli.app.app", interrupted)
    run = call_acker("topologies", "list")
    assert (run.returncode, run.stderr) == (130, "")
