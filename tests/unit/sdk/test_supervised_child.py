"""What a supervisor notices: the end of a process whose pipe a grandchild keeps open, and a crash of its own."""

import os
import signal
from pathlib import Path

import pytest

from spout_sdk import ProcessError, TopologyRunner
from spout_sdk.child import Child
from tests.waiting import eventually

FORKING = """
import os, signal, sys
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open({pid!r}, "w").write(str(os.getpid()))
    signal.pause()
os._exit(7)
"""


def test_the_end_is_noticed_while_a_grandchild_keeps_the_pipe_open(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(FORKING.format(pid=str(tmp_path / "pid")))
    child = Child("forking:topology", "any", {}, None, "s", {"PYTHONPATH": str(tmp_path)}, 30)
    pid = 0
    try:
        assert list(child.reports()) == []
        assert child.wait() == 7
    finally:
        pid = int(eventually((tmp_path / "pid").read_text, "the grandchild's process id"))
        os.kill(pid, signal.SIGKILL)


def test_a_crash_of_a_supervising_thread_is_no_clean_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("no process for you")

    monkeypatch.setattr("spout_sdk.supervisor.Child", crash)
    runner = TopologyRunner("examples.orders:topology", {"bootstrap.servers": "127.0.0.1:1"})
    runner.start()
    with pytest.raises(ProcessError, match="its supervisor raised RuntimeError: no process for you"):
        runner.wait(30)
