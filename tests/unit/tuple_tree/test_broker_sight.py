"""What a client's statistics say of the brokers that it knows."""

import json

import pytest
from confluent_kafka import Consumer

from tests.waiting import eventually
from tuple_tree.broker_sight import BrokerSight

COORDINATOR = {"GroupCoordinator": {"source": "logical"}, ":0/internal": {"source": "internal"}}


def statistics(**brokers: str) -> str:
    return json.dumps({"brokers": {**COORDINATOR, **{name: {"source": source} for name, source in brokers.items()}}})


@pytest.mark.parametrize("source", ["configured", "learned"])
def test_one_that_knows_a_broker_has_lost_nothing(source: str) -> None:
    sight = BrokerSight()
    for _ in range(5):
        sight.hear(statistics(one=source))
    assert not sight.lost


def test_one_that_has_none_for_a_moment_begins_again() -> None:
    sight = BrokerSight()
    for _ in range(5):
        sight.hear(statistics())
        assert not sight.lost
        sight.hear(statistics(one="configured"))


def test_one_that_has_none_is_lost() -> None:
    sight = BrokerSight()
    sight.hear(statistics(one="learned"))
    for lost in (False, True, True):
        sight.hear(statistics())
        assert sight.lost is lost


def test_a_broker_that_cannot_be_reached_is_known() -> None:
    """As a real client has it."""
    sight, heard = BrokerSight(), list[str]()

    def hear(said: str) -> None:
        heard.append(said)
        sight.hear(said)

    settings = {**sight.settings, "statistics.interval.ms": 50, "stats_cb": hear}
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **settings})

    def looked() -> bool:
        consumer.poll(0.05)
        return len(heard) >= 20

    eventually(looked, "its statistics")
    consumer.close()
    assert not sight.lost
