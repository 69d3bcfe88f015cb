"""Tests of the steps as functions, and of the topology without Kafka."""

import pytest
from shop import STOCK, Item, Order, items, ship, shop

from spout_sdk import FailTupleError
from spout_sdk.testing import SimulatedCluster


def test_an_order_has_a_row_for_each_item() -> None:
    assert [*items(Order("1", ["tea", "milk"]))] == [Item("1", "tea"), Item("1", "milk")]


def test_an_item_that_is_sold_out_fails() -> None:
    with pytest.raises(FailTupleError, match="sugar is sold out"):
        ship(Item("1", "sugar"))


def test_only_an_order_with_an_item_that_is_sold_out_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimulatedCluster(shop.build()) as cluster:
        cluster.produce("orders", '{"id": "1", "items": ["tea"]}')
        cluster.produce("orders", '{"id": "2", "items": ["tea", "sugar"]}')
        cluster.run_until(lambda: cluster.acked("orders") and cluster.failed("orders"))
        [(order, failure)] = cluster.failed("orders")
        assert failure.message == "sugar is sold out"
        monkeypatch.setattr("shop.STOCK", {*STOCK, "sugar"})
        cluster.run_until(lambda: order in cluster.acked("orders"))
        assert len(cluster.acked("orders")) == 2
