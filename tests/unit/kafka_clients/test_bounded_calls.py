"""Calls of a client that never return."""

import subprocess
import sys

_HANGS = """
import logging, threading
from kafka_clients.librdkafka_bugs import bounded
logging.basicConfig()
with bounded(60, "a call that returns"):
    pass
with bounded(0.1, "commit_transaction()"):
    threading.Event().wait()
"""


def test_a_call_that_never_returns_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", _HANGS], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "commit_transaction() has not returned for 0 s: the client hangs, and this process ends" in done.stderr
