"""Prices orders: several streams, direct emits, batches, ticks, exceptions and a hook in one small topology.

Run it with `acker run examples.orders:topology --local`.

- `orders` emits order numbers and amounts, and again those whose tree failed.
- `check` sends large orders to a stream of their own; what it cannot read it sets aside as a dead letter.
- `price` receives a batch at a time, as for a price service, and picks the task of `ledger` itself.
- `ledger` keeps the tuples until a tick, books them together, and acks them then.
"""

from collections import deque
from collections.abc import Sequence

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    BatchBolt,
    Bolt,
    Failure,
    OutputCollector,
    Spout,
    SpoutCollector,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.groupings import TaskId
from spout_sdk.hooks import EmitInfo, TaskHook

ORDERS = 2_000
LARGE = 900
UNREADABLE = 250
"""One of this number of amounts is not a number."""


class Orders(Spout):
    """Emits each order until it is acked."""

    streams = (declare({"number": int, "amount": str}),)

    def open(self, context: TaskContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.todo = deque(range(context.task, ORDERS, context.tasks))

    def next_tuple(self) -> None:
        if self.todo:
            number = self.todo.popleft()
            amount = "a lot" if number % UNREADABLE == UNREADABLE - 1 else str(number % 1_000)
            self.collector.emit((number, amount), message_id=number)

    def ack(self, message_id: int) -> None:
        self.context.count("orders")

    def fail(self, message_id: int, failure: Failure) -> None:
        self.todo.append(message_id)


class Check(BasicBolt):
    """Reads amounts; a tuple that raises becomes a dead letter, because a replay would not help."""

    streams = (declare({"number": int, "cents": int}), declare({"number": int, "cents": int}, name="large"))

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        number, amount = tuple_
        whole = int(amount)
        collector.emit((number, whole * 100), stream="large" if whole >= LARGE else "default")


class Price(BatchBolt):
    """Prices all orders of a read with one call."""

    streams = (declare({"number": int, "cents": int, "tax": int}, direct=True),)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.ledgers = context.targets()

    def execute_batch(self, tuples: Sequence[Tuple]) -> None:
        taxes = [cents * 19 // 100 for _, cents in tuples]
        for tuple_, tax in zip(tuples, taxes, strict=True):
            number, cents = tuple_
            self.collector.emit_direct(self.ledger_of(number), (number, cents, tax), anchors=tuple_)
        self.collector.ack_all(tuples)

    def ledger_of(self, number: int) -> TaskId:
        """Each ledger books the orders of its own block of a hundred."""
        return self.ledgers[number // 100 % len(self.ledgers)]


class Ledger(Bolt):
    """Books once a tick, and acks what it has booked."""

    tick_interval = 0.2

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.context = context
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tuple_: Tuple) -> None:
        if not tuple_.is_tick:
            self.held.append(tuple_)
            return
        self.context.count("booked", len(self.held))
        self.context.count("tax", sum(held["tax"] for held in self.held))
        self.collector.ack_all(self.held)
        self.held.clear()


class Review(BasicBolt):
    """Large orders, for manual review."""

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        self.context.count("reviewed")


class Audit(TaskHook):
    """Counts the recipients of a task's emits; the numbers appear in the task's stats."""

    def prepare(self, context: TaskContext) -> None:
        self.context = context

    def emit(self, emitted: EmitInfo) -> None:
        for task in emitted.tasks:
            self.context.count(f"{emitted.stream} to {task}")


def build(name: str) -> Topology:
    """The topology, under a name."""
    builder = TopologyBuilder(name, message_timeout=20.0, max_spout_pending=1_000)
    builder.add_hook(Audit)
    builder.set_spout("orders", Orders)
    check = builder.set_bolt("check", Check, tasks=2, on_exception="dead_letter")
    check.shuffle_grouping("orders")
    builder.set_bolt("price", Price, tasks=2).partial_key_grouping("check", "number")
    builder.set_bolt("ledger", Ledger, tasks=3).direct_grouping("price")
    builder.set_bolt("review", Review).shuffle_grouping("check", "large")
    return builder.build()


topology = build("orders")
