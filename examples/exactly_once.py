"""Bills orders, while the bolt's process is killed repeatedly, and counts the bills.

python -m examples.exactly_once
python -m examples.exactly_once --guarantee at_least_once
"""

import argparse
import os
import random
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from acker_cli.processes.acker_pool import AckerPool
from kafka_clients.catalogue import Catalogue
from local_kafka import LocalKafka
from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.runtime import TopologyRunner
from tuple_tree.payloads import decode_tuples, payload_codec

GUARANTEE = "BILLS_GUARANTEE"
ORDERS = "BILLS_ORDERS"
A_SECOND = 1_000


class Orders(Spout):
    """Emits each order once; a failed one would be emitted again, and billed again."""

    streams = (declare({"order": int}),)
    # Of the class: a process that loses its task for a while, and opens it again, continues at its number.
    order = 0

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.began = time.monotonic() - Orders.order / A_SECOND

    def next_tuple(self) -> None:
        due = min(int(os.environ[ORDERS]), int((time.monotonic() - self.began) * A_SECOND))
        if self.order < due:
            self.collector.emit((self.order,), message_id=self.order)
            Orders.order += 1

    def ack(self, _message_id: Any) -> None:
        self.context.count("done")


class Bill(BasicBolt):
    """A bill for each order."""

    streams = (declare({"order": int}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["order"],))


class Post(BasicBolt):
    """Its inbox contains the bills."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


def topology() -> Topology:
    guarantee: Any = os.environ[GUARANTEE]
    builder = TopologyBuilder("bills", guarantee=guarantee, message_timeout=120)
    builder.set_spout("orders", Orders)
    builder.set_bolt("bill", Bill, tasks=2).shuffle_grouping("orders")
    builder.set_bolt("post", Post).shuffle_grouping("bill")
    return builder.build()


def bills(kafka: dict[str, Any], built: Topology) -> Counter[int]:
    """Order → number of its committed bills."""
    reads = {"group.id": "bills", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**kafka, **reads, "enable.auto.commit": False})
    consumer.assign([TopicPartition("bills.tuples.post", 0, 0)])
    codec = payload_codec(built.manifest.stream("bill", "default"))
    found: Counter[int] = Counter()
    while True:
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("the bills could not be read to their end")
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found
            raise SystemExit(f"the bills could not be read: {error.str()}")
        payload = message.value()
        assert payload is not None
        found.update(order for order, *_ in decode_tuples(codec, payload))


def run(orders: int, kills: int) -> int:
    built = topology()
    with LocalKafka() as broker:
        kafka: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "session.timeout.ms": 6_000}
        catalogue = Catalogue(kafka)
        catalogue.create_topics(built.manifest)
        catalogue.publish(built.manifest)
        ackers = AckerPool(built.name, kafka, 1, log_level="error")
        # Only processes of `bill` are killed: orders that are not billed are in the memory of their spout.
        workers = [["orders", "post"], ["bill"], ["bill"]]
        with ackers, TopologyRunner("examples.exactly_once:topology", kafka, workers) as runner:
            runner.wait_ready(60)
            for _ in range(kills):
                time.sleep(random.uniform(0.5, 1.5))
                if runner.pids()["bill"]:
                    print(f"killed process {runner.kill('bill')}")
            # The group detects the last killed process after 6 s, and assigns its tasks to the other one.
            deadline = time.monotonic() + 120
            while runner.stats()["orders"].counters.get("done", 0) < orders and time.monotonic() < deadline:
                ackers.check()
                time.sleep(0.25)
        found = bills(kafka, built)
    missing = orders - len(found)
    repeated = sum(count - 1 for count in found.values())
    print(f"{orders} orders, {found.total()} bills: {missing} missing, {repeated} repeated")
    return 1 if missing or repeated else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guarantee", choices=("exactly_once", "at_least_once"), default="exactly_once")
    parser.add_argument("--orders", type=int, default=8_000)
    parser.add_argument("--kills", type=int, default=4)
    given = parser.parse_args()
    os.environ[GUARANTEE], os.environ[ORDERS] = given.guarantee, str(given.orders)
    return run(given.orders, given.kills)


if __name__ == "__main__":
    raise SystemExit(main())
