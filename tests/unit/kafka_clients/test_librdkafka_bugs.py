"""Workarounds for bugs of librdkafka; what ends a process is tested in a process of its own."""

import json
import signal
import subprocess
import sys

import pytest
from confluent_kafka import Consumer

from kafka_clients.librdkafka_bugs import BrokerMonitor
from tests.waiting import eventually


def ended(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


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
    done = ended(_HANGS)
    assert done.returncode == 1
    assert "commit_transaction() has not returned for 0 s: the client hangs, and this process ends" in done.stderr


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


@pytest.mark.parametrize(
    ("kind", "code", "output"),
    [("forgettable(AdminClient)", 0, "alive\n"), ("AdminClient", -signal.SIGABRT, "")],
)
def test_a_client_in_a_cycle_is_not_collected_in_its_own_callback(kind: str, code: int, output: str) -> None:
    """Without the workaround the process is aborted; if that fails, it is no longer needed."""
    done = ended(_CYCLE.format(kind=kind, cycle="cycle = [client]; cycle.append(cycle)"))
    assert (done.returncode, done.stdout) == (code, output), done.stderr


COORDINATOR = {"GroupCoordinator": {"source": "logical"}, ":0/internal": {"source": "internal"}}


def statistics(**brokers: str) -> str:
    return json.dumps({"brokers": {name: {"source": source} for name, source in brokers.items()} | COORDINATOR})


def test_a_client_without_brokers_in_two_consecutive_statistics_is_lost() -> None:
    monitor = BrokerMonitor()
    for source in ("configured", "learned"):
        for _ in range(3):
            monitor.on_stats(statistics(one=source))
            assert not monitor.lost
        monitor.on_stats(statistics())
        assert not monitor.lost, "a client without brokers for a moment is not lost"
    for lost in (True, True):
        monitor.on_stats(statistics())
        assert monitor.lost is lost


def test_a_client_without_a_reachable_broker_is_not_lost() -> None:
    """With the statistics of a real client."""
    monitor, received = BrokerMonitor(), list[str]()

    def on_stats(statistics: str) -> None:
        received.append(statistics)
        monitor.on_stats(statistics)

    settings = {**monitor.settings, "statistics.interval.ms": 50, "stats_cb": on_stats}
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **settings})
    eventually(lambda: len(received) >= 5 or consumer.poll(0.05), "its statistics")
    consumer.close()
    assert not monitor.lost
