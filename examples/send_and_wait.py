"""Sends orders to a topology, and waits for the price of each: send and wait, Storm's DRPC.

Everything on this machine, with a broker of its own:

    python -m examples.send_and_wait

On a cluster, each in a terminal of its own:

    acker topics create examples.send_and_wait:topology
    acker worker --topology prices
    acker run examples.send_and_wait:topology
    acker gateway prices

The topic `prices.orders` has to be there. A message is an order, such as `{"fruit": "apples", "number": 3}`. An order
of a fruit that has no price is a dead letter.
"""

import asyncio
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Literal

from confluent_kafka.admin import AdminClient, NewTopic

from spout_sdk import KafkaSpout, StepContext, TopologyBuilder
from spout_sdk.client import Client
from spout_sdk.errors import DeadLetterError

TOPIC: Final = "prices.orders"
ORDERS: Final = 1_000
PRICES: Final = {"apples": 0.5, "pears": 0.75, "plums": 0.25}


@dataclass
class Order:
    """A message."""

    fruit: Literal["apples", "pears", "plums"]
    number: int


def price(order: Order, context: StepContext) -> None:
    """Answers an order with its price."""
    context.answer({"euros": PRICES[order.fruit] * order.number})


builder = TopologyBuilder("prices")
builder.spout("orders", KafkaSpout(TOPIC, value=Order)).step(price, tasks=2)
topology = builder.build()


def order_of(fruit: str, number: int) -> str:
    """The message of an order."""
    return json.dumps({"fruit": fruit, "number": number})


async def send_and_wait(kafka: dict[str, Any]) -> None:
    """Sends one order, an invalid one, and many at a time."""
    async with Client(topology, kafka, max_open=100) as client:
        outcome = await client.process(order_of("apples", 3), key="order-1")
        print(f"3 apples: {outcome.answer['euros']:.2f} euros, {outcome.outcome} at the first attempt")
        try:
            await client.process(order_of("cherries", 3))
        except DeadLetterError as error:
            print(f"3 cherries: {error.outcome.failure}")
        began = time.monotonic()
        outcomes = await asyncio.gather(*(client.process(order_of("pears", number)) for number in range(ORDERS)))
        euros = sum(each.answer["euros"] for each in outcomes)
        print(f"{ORDERS:,} orders in {time.monotonic() - began:.1f} s", file=sys.stderr)
        print(f"{len(outcomes):,} orders of pears: {euros:,.2f} euros")


def create_topic(kafka: dict[str, Any]) -> None:
    """Creates the topic of the orders."""
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)


def main() -> int:
    """Runs it on this machine; returns the exit code."""
    from acker_cli.processes.running import RunPlan, TopologyProcesses
    from kafka_clients.catalogue import Catalogue
    from local_kafka import LocalKafka

    with ExitStack() as cleaning:
        kafka = {"bootstrap.servers": cleaning.enter_context(LocalKafka()).bootstrap_servers}
        create_topic(kafka)
        catalogue = Catalogue(kafka)
        catalogue.create_topics(topology.manifest)
        catalogue.publish(topology.manifest)
        plan = RunPlan(topology, "examples.send_and_wait:topology", ackers=1)
        cleaning.enter_context(TopologyProcesses(plan, kafka))
        asyncio.run(send_and_wait(kafka))
    return 0


if __name__ == "__main__":
    sys.exit(main())
