"""Sends orders to a topology, and waits for the price of each: send and wait, Storm's DRPC.

Everything on this machine, with a broker of its own:

    python -m examples.send_and_wait

On a cluster, each in a terminal of its own:

    acker topics create examples.send_and_wait:topology
    acker worker --topology prices
    acker run examples.send_and_wait:topology
    acker gateway prices

The topic `prices.orders` has to be there. A message is an order, such as `3 apples`. An order of a fruit that has no
price is a dead letter.
"""

import asyncio
import sys
import time
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, TopologyBuilder, Tuple, declare
from spout_sdk.client import Client
from spout_sdk.errors import DeadLetterError, InvalidMessageError
from spout_sdk.kafka_spout import Record

TOPIC: Final = "prices.orders"
ORDERS: Final = 1_000
PRICES: Final = {"apples": 0.5, "pears": 0.75, "plums": 0.25}


def translate(record: Record) -> tuple[str, int]:
    """The fruit and the number of an order."""
    number, _, fruit = (record.value() or b"").decode().partition(" ")
    if not number.isdigit() or fruit not in PRICES:
        raise InvalidMessageError(f"{number} {fruit} is not an order: write a number and one of {', '.join(PRICES)}")
    return fruit, int(number)


class Price(BasicBolt):
    """Answers each order with its price."""

    answers = True

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.answer({"euros": PRICES[tuple_["fruit"]] * tuple_["number"]})


builder = TopologyBuilder("prices")
builder.set_spout("orders", KafkaSpout(TOPIC, streams=[declare({"fruit": str, "number": int})], translate=translate))
builder.set_bolt("price", Price, tasks=2).shuffle_grouping("orders")
topology = builder.build()


async def send_and_wait(kafka: dict[str, Any]) -> None:
    """Sends one order, an invalid one, and many at a time."""
    async with Client(topology, kafka, max_open=100) as client:
        outcome = await client.process("3 apples", key="order-1")
        print(f"3 apples: {outcome.answer['euros']:.2f} euros, {outcome.outcome} at the first attempt")
        try:
            await client.process("3 cherries")
        except DeadLetterError as error:
            print(f"3 cherries: {error.outcome.failure}")
        began = time.monotonic()
        outcomes = await asyncio.gather(*(client.process(f"{number} pears") for number in range(ORDERS)))
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
