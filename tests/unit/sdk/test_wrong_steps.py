"""Wrong programs of steps get an error that says what to write."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

import pyarrow as pa
import pytest

from spout_sdk import KafkaSpout, Stream, declare
from spout_sdk.errors import TopologyError
from spout_sdk.windows import count, greatest, tumbling
from tests.unit.sdk.shop import ORDERS, Item, Order, items, order_stream


def lambda_step(stream: Stream[Order]) -> None:
    stream.step(lambda order: order)


def resource(stream: Stream[Any], function: Any) -> Stream[Any]:
    stream.builder.resource(function)
    return stream


def unannotated(order, context=None):  # type: ignore[no-untyped-def]
    return context


def unreturned(order: Order):  # type: ignore[no-untyped-def]
    return order


def anything(order: Order) -> Any:
    return order


def yields(order: Order) -> Item:  # type: ignore[misc]
    yield Item("1", "tea")


def bare(order: Order) -> Iterator:  # type: ignore[type-arg]
    yield order


def two(order: Order, item: Item) -> Order:
    return order


def nothing() -> Order:
    return ORDERS[0]


def of_item(item: Item) -> Item:
    return item


def by_number(order: Order) -> dict[int, str]:
    return {1: order.id}


def either(order: Order) -> Order | Item:
    return order


async def several(orders: Sequence[Order]) -> list[Order]:
    return [*orders]


def one_of_several(orders: Sequence[Order]) -> Order:
    return orders[0]


def opens() -> Iterator[object]:
    yield object()


async def opens_later() -> AsyncIterator[Item]:
    yield Item("1", "tea")


def needs_a_loop(order: Order, item: Item) -> Order:
    return order


def some_or_none(order: Order) -> Iterator[Order | None]:
    yield None


class Lacking(TypedDict, total=False):
    id: str


def partial_row(order: Order) -> Lacking:
    return {}


def some(order: Order) -> list:  # type: ignore[type-arg]
    return [order]


@dataclass
class Empty:
    pass


def empty(order: Order) -> Empty:
    return Empty()


@dataclass
class Holder:
    thread: object


def holder(order: Order) -> Holder:
    return Holder(order)


def forward(order: "Missing") -> Order:  # type: ignore[name-defined]  # noqa: F821
    return ORDERS[0]


def untyped_state(number, order: Order):  # type: ignore[no-untyped-def]
    return number


def words(number: int, order: Order) -> int:
    return number


def joins(stream: Stream[Order], function: Any, by: str = "order", **options: Any) -> Any:
    """Joins orders with their items."""
    return stream.key_by("id").join(stream.step(items).key_by(by), function, **options)


def needs_an_item(order: Order, item: Item) -> Order:
    return order


def of_two_orders(order: Order, other: Order | None) -> Order:
    return order


def joined(order: Order, item: Item | None) -> Order | None:
    return order


def joined_rows(order: Order, item: Item | None) -> Iterator[Order]:
    yield order


def untyped_join(order, item: Item | None) -> Order:  # type: ignore[no-untyped-def]
    return ORDERS[0]


def columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def of_columns(batch: pa.RecordBatch) -> Order:
    return ORDERS[0]


def to_nothing(batch: pa.RecordBatch) -> None:
    assert batch


T = TypeVar("T")


@dataclass
class Page(Generic[T]):
    rows: list[T]


def page(order: Order) -> Page:  # type: ignore[type-arg]
    return Page([order])


@dataclass
class Sold:
    id: str
    start: int
    orders: str


@dataclass
class Largest:
    id: str
    largest: int | None


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a lambda": (lambda_step, "is a lambda, which has no types: write def"),
    "no type of a parameter": (lambda s: s.step(unannotated), "parameter 'order' has no type: write def unannotated("),
    "no type of a result": (lambda s: s.step(unreturned), "does not say what it returns: write -> None"),
    "any": (lambda s: s.step(anything), "is Any, which a stream cannot carry: name its type"),
    "a yield": (lambda s: s.step(yields), "has a yield, so it returns an iterator: write -> Iterator[Item]"),
    "an iterator of what": (lambda s: s.step(bare), "say of what, as in Iterator[Item]"),
    "two rows": (lambda s: s.step(two), "parameter 'item' gets no value"),
    "no row": (lambda s: s.step(nothing), "takes no row: write def nothing(row"),
    "rows of another step": (lambda s: s.step(of_item).topology(), "whose rows are Order, and takes Item"),
    "numbers as keys": (lambda s: s.step(by_number), "the keys of a mapping are text in a stream"),
    "one of two types": (lambda s: s.step(either), "choose one type"),
    "a list of what": (lambda s: s.step(some), "say what it has, as in list[str]"),
    "several rows at a time": (lambda s: s.step(several), "write def, or take one row"),
    "one result of several": (lambda s: s.step(one_of_several), "write -> list[Item | None]"),
    "a resource of an event loop": (lambda s: (resource(s, opens_later), s.step(needs_a_loop)), "write async def"),
    "two resources of a type": (lambda s: (resource(s, opens), resource(s, opens)), "derive a class for one"),
    "a resource of no type": (lambda s: resource(s, nothing), "does not say what it opens"),
    "a coroutine as a filter": (lambda s: s.filter(opens_later), "is a coroutine, and is not awaited"),
    "a filter of two": (lambda s: s.filter(lambda order, other: True), "is called with (row)"),
    "a row or None of an iterator": (lambda s: s.step(some_or_none), "None is no row: leave these out"),
    "a member that may be missing": (lambda s: s.step(partial_row), "may lack id"),
    "no members": (lambda s: s.step(empty), "Empty has no fields"),
    "a member of any type": (lambda s: s.step(holder), "field 'thread' of Holder is object"),
    "a type that is not there": (lambda s: s.step(forward), "name 'Missing' is not defined"),
    "two steps of one name": (lambda s: (s.step(items), s.step(items)), "two components are named 'items'"),
    "a coroutine's option": (lambda s: s.step(items, concurrency=3), "concurrency=, and is no coroutine"),
    "an unknown option": (lambda s: s.step(items, task=3), "step 'items' has no option 'task'"),
    "a key that is not there": (lambda s: s.key_by("name").step(items).topology(), "name"),
    "a key that is a list": (lambda s: s.key_by("items").step(items).topology(), "group by text"),
    "no key": (lambda s: s.key_by(), "takes at least one field"),
    "a key of a record that is not there": (lambda s: s.to("out", key="name"), "has no member 'name'"),
    "a state without types": (lambda s: s.key_by("id").state(untyped_state, initial=0), "does not say the type of its"),
    "a state that begins with another type": (
        lambda s: s.key_by("id").state(words, initial="none"),
        "a str is not a int",
    ),
    "a table without a row": (lambda s: joins(s, needs_an_item), "other: Item | None) -> Joined | None; raise Fail"),
    "a join of other rows": (
        lambda s: joins(s, of_two_orders),
        "takes Order as 'other', and the rows of 'items' are Item: write def of_two_orders(row: Order, other: Item",
    ),
    "a join as a lambda": (lambda s: joins(s, lambda order, item: order), "which has no types: write def"),
    "a join without types": (lambda s: joins(s, untyped_join), "has no type of 'order': write def untyped_join("),
    "a join of one row": (lambda s: joins(s, of_item), "is called with (row, other)"),
    "several rows of a join": (lambda s: joins(s, joined_rows), "add a step behind it"),
    "a join without a key": (lambda s: s.key_by("id").join(s.step(items), joined), "write join(other.key_by("),
    "a join with itself": (lambda s: s.key_by("id").join(s.key_by("id"), joined), "Add a step before one side"),
    "a join by several keys": (
        lambda s: s.key_by("id").join(s.step(items).key_by("order", "name"), joined).topology(),
        "its keys differ",
    ),
    "a time that is not there": (lambda s: joins(s, joined, as_of="at"), "Order, the rows of 'orders', has no member"),
    "a time that is text": (lambda s: joins(s, joined, as_of=("id", "order")), "which is no time: write an int"),
    "columns of what": (lambda s: s.step(columns), "write .step(columns, returns=Row), with a class of yours as Row"),
    "a row of columns": (lambda s: s.step(of_columns, returns=Order), "write -> pa.RecordBatch, with a row for each"),
    "columns of nothing": (lambda s: s.step(to_nothing, returns=Order), "and has returns=Order: leave it out"),
    "rows with columns": (lambda s: s.step(items, returns=Item), "leave returns= out"),
    "a page of what": (
        lambda s: s.step(page),
        "is ~T, which a stream cannot carry: say what it is",
    ),
    "an aggregate of another type": (
        lambda s: s.key_by("id").window(tumbling(count=2)).aggregate(Sold, orders=count()).topology(),
        "field 'orders' of Sold is string, and the window has long: write orders: int",
    ),
    "an aggregate that cannot be made": (
        lambda s: s.key_by("id").window(tumbling(count=2)).aggregate(Largest, largest=greatest("id")).topology(),
        "field 'largest' of Largest is null or long, and the window has string: write largest: str",
    ),
    "no aggregate of a member": (
        lambda s: s.key_by("id").window(tumbling(count=2)).aggregate(Order, n=count()),
        "Order has items, and a result of a window has id, start, end, n",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_says_what_to_write(name: str) -> None:
    wrong, text = WRONG[name]
    with pytest.raises((TopologyError, TypeError)) as raised:
        wrong(order_stream())
    assert text in str(raised.value)


def test_a_message_of_another_type_is_refused_by_the_spout() -> None:
    with pytest.raises(Exception, match="leave one of them out"):
        KafkaSpout("orders", value=Order, streams=declare("line"))
