"""The types of rows: objects arrive as they are, in a chain and over a hop."""

import datetime
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from spout_sdk import KafkaSpout, TopologyBuilder
from spout_sdk.kafka_spout import KafkaMessage
from spout_sdk.testing import SimulatedCluster
from tests.unit.sdk.shop import ORDERS, Item, Order, order_stream, run, values


class Named(NamedTuple):
    a: int
    b: str | None


class Typed(TypedDict):
    a: int
    b: list[int]


class Fast(msgspec.Struct):
    a: float
    b: dict[str, int]


class Model(pydantic.BaseModel):
    a: Decimal
    b: "list[Named]"


class Color(enum.Enum):
    RED = "red"


@dataclass
class Everything:
    at: datetime.datetime
    color: Color
    price: Decimal
    rows: list[Named]
    best: Item | None = None
    pair: tuple[int, str] = (1, "x")


T = TypeVar("T")


@dataclass
class Page(Generic[T]):
    rows: list[T]
    last: T | None
    before: "Page[T] | None" = None


class Boxed(TypedDict, Generic[T]):
    page: Page[T]


class Pair(NamedTuple, Generic[T]):
    one: T
    other: dict[str, T]


NOW = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize(
    "row",
    [
        Named(1, None),
        {"a": 1, "b": [1, 2]},
        Fast(1.0, {"x": 1}),
        Model(a=Decimal("1.10"), b=[Named(1, "x")]),
        Everything(NOW, Color.RED, Decimal("1.10"), [Named(1, "x"), Named(2, None)]),
        Everything(NOW, Color.RED, Decimal(0), [], Item("1", "tea"), (2, "y")),
        "text",
        7,
        0.5,
        [1, 2],
        ("tea", 2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_row_of_any_type_arrives_as_it_is(row: Any, is_local: bool) -> None:
    received: list[Any] = []
    known: dict[type, Any] = {dict: Typed, list: list[int], tuple: tuple[str, int]}
    cls: Any = known.get(type(row), type(row))

    def made(order: Order) -> Any:
        return row

    def take(row: Any) -> None:
        received.append(row)

    made.__annotations__["return"] = take.__annotations__["row"] = cls
    stream = order_stream()
    rows = stream.step(made)
    (rows if is_local else rows.shuffle()).step(take)
    with run(stream, ORDERS[:1]) as cluster:
        assert received == [row]
        assert type(received[0]) is type(row)
        assert cluster.dead_letters() == []


@pytest.mark.parametrize("is_local", [True, False])
def test_a_row_may_be_of_a_generic_class(is_local: bool) -> None:
    received: list[Any] = []

    def paged(order: Order) -> Page[Item]:
        return Page([Item("1", "tea")], None, Page([], Item("1", "milk")))

    def boxed(page: Page[Item]) -> Boxed[Item]:
        return {"page": page}

    def paired(box: Boxed[Item]) -> Pair[Page[Item]]:
        return Pair(box["page"], {"x": box["page"]})

    def take(pair: Pair[Page[Item]]) -> None:
        received.append(pair)

    stream = order_stream()
    rows: Any = stream
    for function in (paged, boxed, paired, take):
        rows = (rows if is_local else rows.shuffle()).step(function)
    with run(stream, ORDERS[:1]):
        page = paged(ORDERS[0])
        assert received == [Pair(page, {"x": page})]


def test_messages_may_be_of_a_generic_class() -> None:
    def named(page: Page[Item]) -> Iterator[str]:
        for item in page.rows:
            yield item.name

    stream = TopologyBuilder("shop").spout("orders", KafkaSpout("orders", value=Page[Item])).step(named)
    stream.to("raw")
    with run(stream, [Page([Item("1", "tea")], None), b'{"rows": [1], "last": null}']) as cluster:
        assert values(cluster, "raw") == [b"tea"]
        assert "Expected `object`, got `int` - at `$.rows[0]`" in cluster.dead_letters()[0].detail


@pytest.mark.parametrize("is_local", [True, False])
def test_a_message_is_a_row_with_its_key_headers_and_time(is_local: bool) -> None:
    received: list[KafkaMessage[Order | None]] = []

    def take(message: KafkaMessage[Order | None]) -> None:
        received.append(message)

    rows = TopologyBuilder("shop").spout("orders", KafkaSpout("orders", value=KafkaMessage[Order | None]))
    (rows if is_local else rows.shuffle()).step(take)
    with SimulatedCluster(rows.topology()) as cluster:
        headers: list[tuple[str, str | bytes | None]] = [("a", b"1"), ("a", None)]
        cluster.produce("orders", msgspec.json.encode(ORDERS[0]), key="k", headers=headers)
        cluster.produce("orders", None, key="gone")
        cluster.produce("orders", b"{}")
        cluster.run_until_idle()
        (dead,) = cluster.dead_letters()
        assert "missing required field `id`" in dead.detail
    found = sorted(received, key=lambda each: each.offset)
    assert [(each.value, each.key, each.headers, each.topic, each.partition, each.offset) for each in found] == [
        (ORDERS[0], b"k", headers, "orders", 0, 0),
        (None, b"gone", [], "orders", 0, 1),
    ]
    assert all(each.timestamp.utcoffset() == datetime.timedelta() and each.timestamp.year > 2000 for each in found)


class Camel(msgspec.Struct, rename="camel"):
    first_name: str | None = None


@dataclass
class Tree:
    name: str
    of: Camel
    trees: "list[Tree]"
    tags: set[str]
    ratio: tuple[float, int]


@dataclass
class Special(Item):
    seen: int = field(init=False, default=7)


@pytest.mark.parametrize("is_local", [True, False])
def test_nested_rows_arrive_with_all_of_their_members(is_local: bool) -> None:
    received: list[Tree] = []
    row = Tree("a", Camel("bob"), [Tree("b", Camel(), [], set(), (0.0, 0))], {"x"}, (1.5, 2))

    def made(order: Order) -> Tree:
        return row

    def take(tree: Tree) -> None:
        received.append(tree)

    stream = order_stream()
    rows = stream.step(made)
    (rows if is_local else rows.shuffle()).step(take)
    with run(stream, ORDERS[:1]):
        assert received == [row]


@pytest.mark.parametrize("has_hooks", [True, False])
def test_a_chained_row_is_the_object_itself(has_hooks: bool) -> None:
    received: list[Item] = []

    def special(order: Order) -> Iterator[Item]:
        yield Special("1", "tea")
        yield Item("1", "milk")

    def take(item: Item) -> None:
        received.append(item)

    stream = order_stream()
    stream.step(special).step(take)
    with run(stream, ORDERS[:1], has_hooks=has_hooks):
        assert [type(each) for each in received] == [Special, Item]
