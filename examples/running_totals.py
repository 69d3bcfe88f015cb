"""Totals of the orders of each customer, each order counted once, also after kills and replays.

Everything on this machine, with a broker of its own; processes of the totals are killed meanwhile:

    python -m examples.running_totals

With orders of your own, a JSON object a line, such as {"customer": "ann", "cents": 1250}:

    acker run examples.running_totals:topology --local --feed orders=orders.jsonl

The totals are records of the topic `customer-totals`: key = customer, value = the totals as JSON. A failed or killed
process repeats some of them, and the last one of a customer is right.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spout_sdk import KafkaSpout, TopologyBuilder

ORDERS: Final = "orders"
TOTALS: Final = "customer-totals"
CUSTOMERS: Final = 50
KILLS: Final = 3
PART: Final = 5_000
"""Orders before each kill, and after the last."""
_PARTITIONS: Final = 2


@dataclass
class Order:
    """A message."""

    customer: str
    cents: int


@dataclass
class Total:
    """The orders of a customer so far."""

    customer: str = ""
    orders: int = 0
    cents: int = 0


def totals(before: Total, order: Order) -> Total:
    """The total of a customer with one order more."""
    return Total(order.customer, before.orders + 1, before.cents + order.cents)


def total(found: tuple[Order, Total]) -> Total:
    """The total after an order."""
    return found[1]


builder = TopologyBuilder("totals")
orders = builder.spout("orders", KafkaSpout(ORDERS, value=Order)).key_by("customer")
orders.state(totals, initial=Total(), tasks=2).step(total).to(TOTALS, key="customer")
topology = builder.build()


class Orders:
    """Writes orders, and adds up the expected totals: orders and cents by customer."""

    def __init__(self, kafka: dict[str, Any]) -> None:
        admin = AdminClient(kafka)
        for future in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in (ORDERS, TOTALS)]).values():
            future.result(30)
        self._kafka = kafka
        self.totals: dict[str, list[int]] = {}

    def write(self, numbers: range) -> None:
        producer = Producer(self._kafka)
        for number in numbers:
            customer, cents = f"customer-{number % CUSTOMERS}", number % 997
            order = json.dumps({"customer": customer, "cents": cents})
            producer.produce(ORDERS, order, partition=number % _PARTITIONS)
            total = self.totals.setdefault(customer, [0, 0])
            total[0] += 1
            total[1] += cents
        producer.flush(30)


class LatestTotals:
    """Reads the topic of the totals; the latest record of a customer counts."""

    def __init__(self, kafka: dict[str, Any]) -> None:
        self._consumer = Consumer({**kafka, "group.id": "latest-totals", "auto.offset.reset": "earliest"})
        self._consumer.assign([TopicPartition(TOTALS, number, 0) for number in range(_PARTITIONS)])
        self.totals: dict[str, list[int]] = {}
        self.records = 0

    def look(self) -> None:
        """Reads what is new."""
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is None:
                customer = (message.key() or b"").decode()
                total = json.loads(message.value() or b"")
                self.totals[customer] = [total["orders"], total["cents"]]
                self.records += 1

    def close(self) -> None:
        self._consumer.close()


def main() -> int:
    """Runs it on this machine; returns the exit code."""
    from acker_cli.processes.acker_pool import AckerPool
    from kafka_clients.catalogue import Catalogue
    from local_kafka import LocalKafka
    from spout_sdk.runtime import TopologyRunner

    with ExitStack() as cleaning:
        broker = cleaning.enter_context(LocalKafka())
        kafka: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
        sent, latest = Orders(kafka), LatestTotals(kafka)
        cleaning.callback(latest.close)
        catalogue = Catalogue(kafka)
        catalogue.create_topics(topology.manifest)
        catalogue.publish(topology.manifest)
        ackers = cleaning.enter_context(AckerPool(topology.name, kafka, 1, log_level="error"))
        runner = cleaning.enter_context(TopologyRunner("examples.running_totals:topology", kafka, 2))
        runner.wait_ready(60)

        def wait(condition: Callable[[], object]) -> None:
            deadline = time.monotonic() + 60
            while not condition() and time.monotonic() < deadline:
                ackers.check()
                latest.look()

        for number in range(KILLS + 1):
            seen = latest.records
            sent.write(range(number * PART, (number + 1) * PART))
            wait(lambda seen=seen: latest.records > seen and runner.pids()["totals"])  # type: ignore[misc]
            if number < KILLS:
                print(f"killed process {runner.kill('totals')}", flush=True)
        wait(lambda: latest.totals == sent.totals)
    written = sum(count for count, _ in sent.totals.values())
    counted = sum(count for count, _ in latest.totals.values())
    wrong = sum(latest.totals.get(customer) != expected for customer, expected in sent.totals.items())
    print(f"{written:,} orders, {counted:,} counted; {wrong} of {CUSTOMERS} customers have a wrong total")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
