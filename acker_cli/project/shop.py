"""The topology `shop`: its steps, and how they are connected."""

from collections.abc import Iterator
from dataclasses import dataclass

from spout_sdk import FailTupleError, KafkaSpout, TopologyBuilder

STOCK = {"tea", "milk"}


@dataclass
class Order:
    """A message of the topic `orders`, in JSON."""

    id: str
    items: list[str]


@dataclass
class Item:
    """An item of an order."""

    order: str
    name: str


def items(order: Order) -> Iterator[Item]:
    """The items of an order, one row for each."""
    for name in order.items:
        yield Item(order.id, name)


def ship(item: Item) -> None:
    """Ships an item; the order is replayed while it is sold out."""
    if item.name not in STOCK:
        raise FailTupleError(f"{item.name} is sold out")


shop = TopologyBuilder("shop")
shop.spout("orders", KafkaSpout("orders", value=Order)).step(items).key_by("name").step(ship, tasks=3)
