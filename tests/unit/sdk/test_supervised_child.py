"""A supervisor detects the end of a process whose pipe a grandchild keeps open, and its own crash."""

import os
import signal
from dataclasses import asdict
from pathlib import Path

import pytest

from kafka_clients.supervision import ChildProcess
from spout_sdk.errors import ProcessError
from spout_sdk.runtime import TopologyRunner
from spout_sdk.runtime.supervisor import Launch

FORKING = """
import os, pathlib, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = os.fork()
if not grandchild:
    while True:
        signal.pause()
pathlib.Path({pid!r}).write_text(str(grandchild))
os._exit(7)
"""


def test_an_end_is_detected_while_a_grandchild_keeps_the_pipe_open(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(FORKING.format(pid=str(tmp_path / "pid")))
    arguments = ("spout_sdk.runtime.process", "forking:topology", "any")
    child = ChildProcess(arguments, {"PYTHONPATH": str(tmp_path)}).launch(asdict(Launch({}, {})))
    try:
        assert list(child.reports()) == []
        assert child.wait() == 7
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_crash_of_a_supervising_thread_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("no process for you")

    monkeypatch.setattr("spout_sdk.runtime.supervisor.ChildProcess", crash)
    runner = TopologyRunner("examples.orders:topology", {"bootstrap.servers": "127.0.0.1:1"})
    runner.start()
    with pytest.raises(ProcessError, match="its supervisor raised RuntimeError: no process for you"):
        runner.wait(30)
