"""A topology with problems: orders that fail, some that time out, a busy bolt with one hot key, dead letters."""

import itertools
import time
from collections import deque
from typing import Any

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    Bolt,
    FailTupleError,
    Failure,
    KafkaSpout,
    OutputCollector,
    RetryPolicy,
    Spout,
    SpoutCollector,
    TaskContext,
    TopologyBuilder,
    Tuple,
    declare,
)

RETURNS, LOST = "shop-returns", "lost in the post"
POSTING_SECONDS = 0.0145
"""Some 90 % of the time at sixty orders a second."""
HELD = 13
HELD_EACH = 600
"""One of this number of orders is never acked: every ten seconds, so that the latest failures have some,
however long a test looks at them."""


class Orders(Spout):
    """Sixty orders a second, of both tasks together."""

    streams = (declare({"order": int, "attempt": int}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.fresh = itertools.count(context.task, context.tasks)
        self.again: deque[int] = deque()
        self.due = time.monotonic()

    def next_tuple(self) -> None:
        if time.monotonic() < self.due:
            return
        self.due += 2 / 60
        attempt = 1 if self.again else 0
        order = self.again.popleft() if attempt else next(self.fresh)
        self.collector.emit((order, attempt), message_id=order)

    def fail(self, message_id: Any, failure: Failure) -> None:
        if message_id % HELD_EACH != HELD:
            self.again.append(message_id)


class Check(BasicBolt):
    streams = (declare({"order": int, "attempt": int}), declare({"order": int}, name="suspects"))

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit((tuple_["order"], tuple_["attempt"]))
        if tuple_["order"] % 10 == 3:
            collector.emit((tuple_["order"],), stream="suspects")


class Bill(BasicBolt):
    streams = (declare({"order": int, "customer": str}),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["order"] % 50 == 7 and not tuple_["attempt"]:
            raise FailTupleError(f"order {tuple_['order']}: the printer is out of paper")
        order = tuple_["order"]
        collector.emit((order, "acme" if order % 4 else f"customer {order}"))


class Post(BasicBolt):
    """Executes as slowly as its processes allow; most tuples are one customer's."""

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        time.sleep(POSTING_SECONDS)  # the bolt's work, which makes its tasks busy


class Review(Bolt):
    """Holds some orders, and the return that is lost, for ever."""

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        if tuple_.values[0] != LOST and (isinstance(tuple_.values[0], str) or tuple_["order"] % HELD_EACH != HELD):
            self.collector.ack(tuple_)


class Ship(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        if tuple_["order"] % 500 == 100:
            raise ValueError(f"order {tuple_['order']} has no address")


builder = TopologyBuilder("shop", ack_partitions=3, message_timeout=5.0)
builder.set_spout("orders", Orders, tasks=2)
builder.set_bolt("check", Check, tasks=2).shuffle_grouping("orders")
builder.set_bolt("bill", Bill, tasks=2).fields_grouping("check", "order")
builder.set_bolt("review", Review).shuffle_grouping("check", "suspects")
builder.set_bolt("post", Post, tasks=4).fields_grouping("bill", "customer")
builder.set_spout("returns", KafkaSpout(RETURNS, retry=RetryPolicy(max_delay=1.0)))
builder.set_bolt("restock", Review).shuffle_grouping("returns")
builder.set_bolt("ship", Ship, on_exception="dead_letter").shuffle_grouping("bill").shuffle_grouping(
    "check", "suspects"
)
topology = builder.build()
