"""Runs the Python of `docs/bolts-as-classes.md`, which is one topology, and the example that it links."""

from collections import Counter
from typing import Any

import pytest

from examples import orders
from examples.orders import LARGE, ORDERS, UNREADABLE
from spout_sdk import FailReason
from spout_sdk.testing import SimulatedCluster
from tests.pages import names_of


@pytest.fixture
def page() -> dict[str, Any]:
    return names_of("docs/bolts-as-classes.md")


def test_the_topology_of_the_page(page: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedCluster(page["topology"]) as cluster:
        cluster.advance(6)
        assert sorted(cluster.acked("sentences")) == [0, 1, 3]
        [(message_id, failure)] = cluster.failed("sentences")
        assert (message_id, failure.reason, failure.message) == (2, FailReason.FAILED, "an empty sentence")
        counts: Counter[str] = Counter()
        for task in (0, 1):
            counts.update(cluster.bolt("totals", task).counts)
        assert counts == {"to": 2, "be": 3, "or": 1, "not": 1}
        assert len(cluster.executed("longest")) == 3
        assert {word for word, length in cluster.emitted("long") if length == len(word)} == {"to", "be", "or", "not"}
        assert set(cluster.emitted("translate")) == {("to", "ot"), ("be", "eb"), ("or", "ro"), ("not", "ton")}
        assert {word for line in cluster.emitted("upper") for word in line[0].split()} == {"TO", "BE", "OR", "NOT"}
        assert (cluster.pending("sentences"), cluster.stats("longest").acked) == ([], 3)
    text = capsys.readouterr().out
    assert "0 was fully processed" in text
    assert "2 was not: failed an empty sentence" in text


def test_the_example() -> None:
    bad = ORDERS // UNREADABLE
    readable = [number for number in range(ORDERS) if number % UNREADABLE != UNREADABLE - 1]
    booked = [number for number in readable if number % 1_000 < LARGE]
    with SimulatedCluster(orders.build("orders")) as cluster:
        cluster.advance(2)
        assert sorted(cluster.acked("orders")) == list(range(ORDERS))
        assert cluster.failed("orders") == []
        assert len(cluster.dead_letters()) == bad
        assert cluster.stats("ledger").counters["booked"] == len(booked)
        # The hook has seen every emit of every task.
        assert sum(cluster.stats("price").counters.values()) == len(booked)
        assert sum(cluster.stats("check").counters.values()) == len(readable)
        assert sum(cluster.stats("orders").counters.values()) == 2 * ORDERS, "those acked, and those emitted"
