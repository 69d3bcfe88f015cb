"""Orders with the categories of their items, which a slow service knows; totals of the categories.

The service is asked about several orders at a time, with a limit, and again if it fails. Its first answer for an order
holds: when the order is replayed, it is asked again, and may answer something else. Each item is in a total once.

Everything on this machine, with a broker of its own, and orders such as {"id": "1", "cents": {"tea": 300, "cup": 900}}:

    acker run examples.enrichment:shop --local --feed orders=orders.jsonl

The topic `category-totals` gets the totals, and `orders.outcomes` what became of each order.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from spout_sdk import KafkaSpout, RetryPolicy, TopologyBuilder


@dataclass
class Order:
    id: str
    cents: dict[str, int]


@dataclass
class Item:
    name: str
    cents: int
    category: str


@dataclass
class Answer:
    id: str = ""
    items: list[Item] = field(default_factory=list)


@dataclass
class Total:
    category: str = ""
    items: int = 0
    cents: int = 0


class Service:
    """Stands for the client of a service."""

    async def category(self, name: str) -> str:
        await asyncio.sleep(0.01)
        return "drinks" if name in ("tea", "milk") else "other"


async def open_service() -> AsyncIterator[Service]:
    yield Service()


async def sort(order: Order, service: Service) -> Answer:
    return Answer(order.id, [Item(name, cents, await service.category(name)) for name, cents in order.cents.items()])


def first(before: Answer, answer: Answer) -> Answer:
    return before if before.id else answer


def items(found: tuple[Answer, Answer]) -> Iterator[Item]:
    yield from found[1].items


def add(before: Total, item: Item) -> Total:
    return Total(item.category, before.items + 1, before.cents + item.cents)


def total(found: tuple[Item, Total]) -> Total:
    return found[1]


shop = TopologyBuilder("enrichment")
shop.resource(open_service)
orders = shop.spout("orders", KafkaSpout("orders", value=Order, outcomes="orders.outcomes"))
retry = RetryPolicy(initial_delay=1.0, max_retries=5)
answers = orders.step(sort, tasks=2, concurrency=16, time_limit=30.0, on_exception="retry", retry=retry)
sold = answers.key_by("id").state(first, initial=Answer(), expire_after=86_400.0, tasks=2).step(items)
sold.key_by("category").state(add, initial=Total(), tasks=2).step(total).to("category-totals", key="category")
