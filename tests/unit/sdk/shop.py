"""A small program of steps, for tests; and how to run a stream of it in a simulated cluster."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from spout_sdk import (
    KafkaSpout,
    Stream,
    TopologyBuilder,
)
from spout_sdk.testing import SimulatedCluster


@dataclass
class Order:
    id: str
    items: list[str]


@dataclass
class Item:
    order: str
    name: str


def items(order: Order) -> Iterator[Item]:
    for name in order.items:
        yield Item(order.id, name)


def named(item: Item) -> str:
    return item.name


ORDERS = [Order("1", ["tea", "milk"]), Order("2", []), Order("3", ["tea"])]


def order_stream(**options: Any) -> Stream[Order]:
    return TopologyBuilder("shop", **options).spout("orders", KafkaSpout("orders", value=Order))


class Hookless(SimulatedCluster):
    """Whose tasks have no hooks, so functions get many rows in a call."""

    def _begin(self, component: str, number: int) -> None:
        self.topology = replace(self.topology, hooks=())
        super()._begin(component, number)


def run(
    stream: Stream[Any], messages: list[Any], seconds: float = 0.0, *, has_hooks: bool = True, **options: Any
) -> SimulatedCluster:
    """Runs the topology of a stream with some messages until all is done.

    With hooks, as in each simulated cluster, a call of a function has one row.
    """
    cluster = (SimulatedCluster if has_hooks else Hookless)(stream.topology(), **options)
    for message in messages:
        cluster.produce("orders", message if isinstance(message, bytes) else msgspec.json.encode(message))
    cluster.run_until_idle()
    if seconds:
        cluster.advance(seconds)
        cluster.run_until_idle()
    return cluster


def values(cluster: SimulatedCluster, topic: str = "out") -> list[Any]:
    return [
        record.value() if topic == "raw" else json.loads(record.value() or b"") for record in cluster.records(topic)
    ]
