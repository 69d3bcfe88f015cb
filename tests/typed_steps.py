"""Right and wrong programs of steps, for `make types`: mypy must find each mistake, and nothing else.

An ignored error that mypy does not find is an error of its own (`warn_unused_ignores`).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spout_sdk import KafkaSpout, StepContext, TopologyBuilder
from spout_sdk.windows import count, tumbling
from tests.unit.sdk.shop import Item, Order, items


@dataclass
class Price:
    order: str
    euros: float


@dataclass
class Sold:
    name: str
    start: int
    sold: int


def known(item: Item) -> Item | None:
    return item if item.name else None


def log(item: Item, context: StepContext) -> None:
    context.count(item.name)


async def price(item: Item) -> Price | None:
    return Price(item.order, 1.0)


async def prices(item: Item) -> AsyncIterator[Price]:
    yield Price(item.order, 1.0)


def several(prices: Sequence[Price]) -> list[float | None]:
    return [price.euros or None for price in prices]


def stored(prices: Sequence[Price]) -> None:
    assert prices


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


class Http:
    pass


async def open_http() -> AsyncIterator[Http]:
    yield Http()


async def asked(item: Item, http: Http) -> Price:
    return Price(item.order, float(id(http)))


def total(euros: float, price: Price) -> float:
    return euros + price.euros


def pair(found: tuple[Price, float]) -> Price:
    return Price(found[0].order, found[1])


@dataclass
class Priced:
    item: str
    euros: float


def joined(item: Item, price: Price | None) -> Priced | None:
    return None if price is None else Priced(item.name, price.euros)


def paired(item: Item, price: Price) -> Priced:
    return Priced(item.name, price.euros)


def right() -> None:
    shop = TopologyBuilder("shop")
    orders = shop.spout("orders", KafkaSpout("orders", value=Order), tasks=4)
    found = orders.step(items).filter(lambda item: item.name)
    found.step(known).shuffle().step(log, tasks=2)
    priced = found.key_by("order").step(price, tasks=3, concurrency=100).merge(found.step(prices))
    priced.key_by("order").state(total, initial=0.0).step(pair).to("totals", key="order")
    items_by_order, prices_by_order = found.key_by("order"), priced.key_by("order")
    items_by_order.join(prices_by_order, joined, as_of=("order", "euros")).to("joined", key=lambda row: row.item)
    items_by_order.join_within(prices_by_order, paired, seconds=60, at="at").filter(lambda row: row.euros).to("paired")
    found.step(doubled, returns=Item, tasks=2).step(known)
    shop.resource(open_http)
    found.step(asked).step(several).filter(lambda euros: euros > 1.0).to("euros")
    found.step(asked).step(stored)
    found.key_by("name").window(tumbling(count=2)).aggregate(Sold, sold=count()).to("sold", key=lambda sold: sold.name)


def wrong() -> None:
    shop = TopologyBuilder("shop")
    orders = shop.spout("orders", KafkaSpout("orders", value=Order))
    found = orders.step(items)
    priced = found.step(price)
    orders.step(price)  # type: ignore[arg-type]
    found.step(items)  # type: ignore[arg-type]
    found.step(log).step(items)  # type: ignore[attr-defined]
    priced.merge(found)  # type: ignore[arg-type]
    orders.filter(lambda order: order.itms)  # type: ignore[attr-defined]
    priced.key_by("order").state(total, initial="")  # type: ignore[arg-type]
    found.key_by("order").state(total, initial=0.0)  # type: ignore[arg-type]
    priced.key_by("order").state(total, initial=0.0).step(price)  # type: ignore[arg-type]
    priced.to("prices", key=lambda price: price.euros)  # type: ignore[arg-type, return-value]
    found.step(several)  # type: ignore[arg-type]
    shop.resource(several)  # type: ignore[arg-type]
    priced.step(pair)  # type: ignore[arg-type]
    priced.window(tumbling(count=2))  # type: ignore[attr-defined]
    items_by_order, prices_by_order = found.key_by("order"), priced.key_by("order")
    prices_by_order.join(items_by_order, joined)  # type: ignore[arg-type]
    items_by_order.join(prices_by_order, paired)  # type: ignore[arg-type]
    items_by_order.join(priced, joined)  # type: ignore[arg-type]
    items_by_order.join(prices_by_order, joined).step(price)  # type: ignore[arg-type]
    items_by_order.join_within(prices_by_order, total, seconds=1, at="at")  # type: ignore[arg-type]
    items_by_order.join_within(prices_by_order, paired)  # type: ignore[call-arg]
    found.join(prices_by_order, joined)  # type: ignore[attr-defined]
    found.step(doubled, returns=Price).step(known)  # type: ignore[arg-type]
    shop.spout("others", found)  # type: ignore[arg-type]
    found.step(log, task=3)  # type: ignore[call-overload]
    found.key_by("order").step(price, on_exception="dead-letter")  # type: ignore[call-overload]
