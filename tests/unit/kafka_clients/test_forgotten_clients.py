"""Clients without references, in processes of their own: a wrong end would be that of the process."""

import signal
import subprocess
import sys

# The last reference to the client is in a cycle, and the answer to its question, which comes in a thread of the
# client's, finds the cycle.
_CYCLE = """
import gc
import threading

from confluent_kafka.admin import AdminClient

from kafka_clients.librdkafka_bugs import forgettable

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


def test_a_client_in_a_cycle_is_not_collected_in_its_own_callback() -> None:
    """Without the workaround the process is aborted; if this test fails, it is no longer needed."""
    for kind, code, output in (("forgettable(AdminClient)", 0, "alive\n"), ("AdminClient", -signal.SIGABRT, "")):
        script = [sys.executable, "-c", _CYCLE.format(kind=kind, cycle="cycle = [client]; cycle.append(cycle)")]
        ended = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, ended.stdout) == (code, output), ended.stderr
