"""Clients without references, in processes of their own: a wrong end would be that of the process."""

import signal
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

from tests.waiting import eventually
from tuple_tree.forgotten_clients import forgettable

# The last reference to the client is in a cycle, and the answer to its question, which comes in a thread of the
# client's, finds the cycle.
_CYCLE = """
import gc
import threading

from confluent_kafka.admin import AdminClient

from tuple_tree.forgotten_clients import forgettable

gc.disable()
answered, dropped = threading.Event(), threading.Event()


def on_answer(_answer: object) -> None:
    dropped.wait(60)
    gc.collect()
    answered.set()


client = {kind}({{"bootstrap.servers": "127.0.0.1:1", "log_level": 0}})
client.describe_cluster(request_timeout=0.5).add_done_callback(on_answer)
{cycle}
del cycle, client
dropped.set()
assert answered.wait(60)
print("alive")
"""


def test_one_that_is_found_by_its_own_answer_ends_elsewhere() -> None:
    """Without it the process is aborted; when that is not so any more, none of this is needed."""
    for kind, code, output in (("forgettable(AdminClient)", 0, "alive\n"), ("AdminClient", -signal.SIGABRT, "")):
        script = [sys.executable, "-c", _CYCLE.format(kind=kind, cycle="cycle = [client]; cycle.append(cycle)")]
        ended = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, ended.stdout) == (code, output), ended.stderr


class Client:
    """Notes in which thread it was ended."""

    ended: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        if not name:
            raise ValueError("no name")
        self.name = name

    def __exit__(self, *_: object) -> None:
        Client.ended.append(f"{self.name} by {threading.current_thread().name}")


def test_each_ends_once_and_as_soon_as_it_has_no_reference() -> None:
    kept = forgettable(Client)("kept")
    for name in ("one", "two"):
        forgettable(Client)(name)
    with pytest.raises(ValueError, match="no name"):
        forgettable(Client)("")
    eventually(lambda: len(Client.ended) >= 2, "the end of two")
    assert Client.ended == ["one by forgotten-clients", "two by forgotten-clients"]
    assert isinstance(kept, Client)
    assert type(kept).__name__ == "Client"
    del kept
    eventually(lambda: len(Client.ended) >= 3, "the end of the third")
    assert Client.ended[2] == "kept by forgotten-clients"
