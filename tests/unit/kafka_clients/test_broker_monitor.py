"""The brokers in a client's statistics."""

import json

from confluent_kafka import Consumer

from kafka_clients.librdkafka_bugs import BrokerMonitor
from tests.waiting import eventually

COORDINATOR = {"GroupCoordinator": {"source": "logical"}, ":0/internal": {"source": "internal"}}


def statistics(**brokers: str) -> str:
    return json.dumps({"brokers": {**COORDINATOR, **{name: {"source": source} for name, source in brokers.items()}}})


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


def test_a_client_without_a_reachable_broker_is_lost() -> None:
    """With the statistics of a real client."""
    monitor, received = BrokerMonitor(), list[str]()

    def on_stats(statistics: str) -> None:
        received.append(statistics)
        monitor.on_stats(statistics)

    settings = {**monitor.settings, "statistics.interval.ms": 50, "stats_cb": on_stats}
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **settings})

    def has_statistics() -> bool:
        consumer.poll(0.05)
        return len(received) >= 5

    eventually(has_statistics, "its statistics")
    consumer.close()
    assert not monitor.lost
