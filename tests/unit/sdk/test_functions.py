"""Steps: functions of rows, as a user writes them, in a simulated cluster."""

import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import msgspec
import pytest

from spout_sdk import (
    BasicBolt,
    BasicCollector,
    FailTupleError,
    KafkaSpout,
    RetryPolicy,
    StepContext,
    TopologyBuilder,
    Tuple,
    declare,
)
from spout_sdk.errors import TooManyFailuresError
from spout_sdk.kafka_spout import typed_translation
from spout_sdk.windows import count, total, tumbling
from tests.unit.sdk.shop import ORDERS, Item, Order, items, named, order_stream, run, values


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once", "exactly_once"])
def test_rows_go_from_step_to_step_and_to_a_topic(guarantee: Any) -> None:
    stream = order_stream(guarantee=guarantee).step(items)
    stream.filter(lambda item: item.name != "milk").key_by("name").step(named, tasks=2).to("the.names")
    stream.to("out", key="name")
    with run(stream, ORDERS) as cluster:
        assert values(cluster) == [
            {"order": "1", "name": "tea"},
            *map(msgspec.to_builtins, [Item("1", "milk"), Item("3", "tea")]),
        ]
        assert [record.key() for record in cluster.records("out")] == [b"tea", b"milk", b"tea"]
        assert [record.value() for record in cluster.records("the.names")] == [b"tea", b"tea"]
        assert cluster.pending("orders") == []


def test_a_message_that_does_not_fit_becomes_a_dead_letter_with_the_path() -> None:
    stream = order_stream().step(items)
    stream.to("out")
    with run(stream, [ORDERS[0], {"id": "2", "items": ["tea", 3]}, b"{", ORDERS[2]]) as cluster:
        assert len(values(cluster)) == 3
        assert [each.detail for each in cluster.dead_letters()] == [
            "it does not fit Order: Expected `str`, got `int` - at `$.items[1]`",
            "it does not fit Order: Input data was truncated",
        ]


def test_a_row_that_raises_fails_alone_and_no_other_call_is_repeated() -> None:
    calls: list[str] = []

    def ship(item: Item) -> Item:
        calls.append(item.name)
        if item.name == "beer" and calls.count("beer") < 3:
            raise FailTupleError("sold out")
        return item

    stream = order_stream().step(items).shuffle().step(ship)
    stream.to("out")
    orders = [Order(str(number), ["beer" if number == 30 else "tea"]) for number in range(60)]
    # Without hooks, a call gets many rows: the first one, then 16, and then the others.
    with run(stream, orders, seconds=60, has_hooks=False, step=1.0) as cluster:
        assert (calls.count("beer"), calls.count("tea"), len(values(cluster))) == (3, 59, 60)
        assert cluster.uncommitted("orders") == {"orders[0]": 0}


def test_an_iterator_that_never_ends_fails_its_row() -> None:
    def endless(order: Order) -> Iterator[str]:
        yield from repeat(order.id) if order.id == "1" else order.items

    stream = order_stream().step(endless, on_exception="dead_letter")
    stream.to("raw")
    with run(stream, ORDERS) as cluster:
        assert values(cluster, "raw") == [b"tea"]
        assert "returned 1,000,000 rows for one row" in cluster.dead_letters()[0].detail


def test_a_function_that_raises_stop_iteration_fails_its_row_only() -> None:
    def first(order: Order) -> str:
        return next(iter(order.items))

    stream = order_stream().shuffle().step(first)
    stream.to("raw")
    with run(stream, ORDERS) as cluster:
        assert sorted(values(cluster, "raw")) == [b"tea", b"tea"]
        assert [message_id for message_id, _ in cluster.failed("orders")] == [1] * len(cluster.failed("orders"))
        assert "StopIteration: call next() with a default" in cluster.failed("orders")[0][1].message


def test_a_row_is_retried_in_its_task_by_the_policy() -> None:
    attempts: list[int] = []

    def flaky(item: Item, context: StepContext) -> Item:
        attempts.append(context.attempt)
        context.count("calls")
        if context.attempt < 2:
            raise ConnectionError("later")
        return item

    stream = order_stream().step(items).step(flaky, on_exception="retry", retry=RetryPolicy(initial_delay=1.0))
    stream.to("out")
    with run(stream, [Order("1", ["tea"])], seconds=10) as cluster:
        assert (attempts, len(values(cluster)), cluster.failed("orders")) == ([0, 1, 2], 1, [])
        assert cluster.stats("flaky").counters["calls"] == 3


def test_an_async_step_returns_rows_when_it_has_ended() -> None:
    async def priced(item: Item) -> str | None:
        return None if item.name == "milk" else f"{item.name}: 1"

    async def twice(price: str) -> AsyncIterator[str]:
        yield price
        yield price

    def later(price: str) -> Awaitable[str]:
        async def made() -> str:
            return price.upper()

        return made()

    stream = order_stream().step(items).step(priced, concurrency=10, time_limit=60.0).step(twice).step(later)
    stream.to("out")
    with run(stream, ORDERS) as cluster:
        assert [record.value() for record in cluster.records("out")] == [b"TEA: 1"] * 4


def test_a_step_of_several_rows_returns_one_result_for_each() -> None:
    sizes: list[int] = []

    def priced(rows: Sequence[Item]) -> list[str | None]:
        sizes.append(len(rows))
        if any(row.name == "beer" for row in rows) and len(sizes) < 20:
            raise ConnectionError("the service is down")
        return [None if row.name == "milk" else f"{row.order}{row.name}" for row in rows]

    stream = order_stream().step(items).shuffle().step(priced, on_exception="retry")
    stream.to("raw")
    messages = [*ORDERS, Order("4", ["beer"]), *[Order("5", ["tea"])] * 30]
    with run(stream, messages, seconds=600, step=1.0) as cluster:
        assert sorted(values(cluster, "raw")) == sorted([b"1tea", b"3tea", b"4beer", *[b"5tea"] * 30])
        assert cluster.failed("orders") == []
        assert max(sizes) > 1


def test_a_step_of_several_rows_that_returns_too_few_fails_them() -> None:
    def short(rows: Sequence[Item]) -> list[Item]:
        return [*rows[1:]]

    stream = order_stream().step(items).step(short)
    stream.to("out")
    with run(stream, ORDERS[:1]) as cluster:
        ((_, failure), *_) = cluster.failed("orders")
        assert "return one for each row" in failure.message
        assert values(cluster) == []


class Prices(dict[str, float]):
    pass


class Service:
    def __init__(self) -> None:
        self.is_open = True


def test_a_task_opens_what_its_steps_need_and_closes_it() -> None:
    log: list[str] = []

    def prices() -> Iterator[Prices]:
        log.append("open prices")
        yield Prices(tea=2.0)
        log.append("close prices")

    async def service() -> AsyncIterator[Service]:
        made = Service()
        yield made
        made.is_open = False
        log.append("close service")

    def cheap(item: Item, prices: Prices) -> Item | None:
        return item if prices.get(item.name, 9.0) < 5 else None

    async def ordered(item: Item, service: Service, prices: Prices) -> str:
        assert service.is_open
        return f"{item.name}: {prices[item.name]}"

    shop = TopologyBuilder("shop")
    shop.resource(prices)
    shop.resource(service)
    stream = shop.spout("orders", KafkaSpout("orders", value=Order)).step(items).step(cheap).step(ordered)
    stream.to("raw")
    with run(stream, ORDERS) as cluster:
        assert values(cluster, "raw") == [b"tea: 2.0"] * 2
        assert log == ["open prices"] * 2
    assert sorted(log[2:]) == ["close prices", "close prices", "close service"]


def test_a_state_counts_each_row_once_however_often_it_is_replayed() -> None:
    failures: list[str] = []

    def ship(item: Item) -> None:
        if item.name == "tea" and len(failures) < 3:
            failures.append(item.name)
            raise FailTupleError("busy")

    def counted(number: int, item: Item) -> int:
        return number + 1

    def shown(pair: tuple[Item, int]) -> dict[str, int]:
        return {pair[0].name: pair[1]}

    stream = order_stream().step(items)
    stream.step(ship)
    counts = stream.key_by("name").state(counted, initial=0).step(shown)
    counts.to("out")
    with run(stream, ORDERS, seconds=60, step=1.0) as cluster:
        assert cluster.state("counted") == {"tea": 2, "milk": 1}
        assert {"tea": 2} in values(cluster)
        assert len(cluster.failed("orders")) >= 2


def test_a_state_has_objects_of_a_class() -> None:
    @dataclass
    class Totals:
        orders: int
        last: datetime.datetime | None

    def summed(totals: Totals, order: Order) -> Totals:
        return Totals(totals.orders + 1, datetime.datetime(2026, 1, totals.orders + 1, tzinfo=datetime.UTC))

    stream = order_stream()
    out = stream.key_by("id").state(summed, initial=Totals(0, None))

    def days(found: tuple[Order, Totals]) -> str:
        return f"{found[0].id} {found[1].orders} {found[1].last:%d}"

    def numbered(found: tuple[Order, Totals]) -> tuple[str, int]:
        return found[0].id, found[1].orders

    out.step(days).to("raw")
    out.step(numbered).to("out", key="_1")
    with run(stream, [ORDERS[0], ORDERS[0], ORDERS[2]]) as cluster:
        assert values(cluster, "raw") == [b"1 1 01", b"1 2 02", b"3 1 01"]
        assert [(each.key(), each.value()) for each in cluster.records("out")] == [
            *((b"1", b'["1",1]'), (b"1", b'["1",2]'), (b"3", b'["3",1]')),
        ]


def test_windows_give_rows_of_a_class() -> None:
    @dataclass
    class Click:
        page: str
        at: int
        euros: float

    @dataclass
    class Minute:
        page: str
        start: int
        clicks: int
        spent: float

    shop = TopologyBuilder("shop")
    clicks = shop.spout("orders", KafkaSpout("orders", value=Click))
    window = clicks.key_by("page").window(tumbling(seconds=60).with_timestamp_field("at"))
    window.aggregate(Minute, clicks=count(), spent=total("euros")).to("out")
    sent = [
        Click("a", 1_000, 1.5),
        Click("a", 59_000, 2.5),
        Click("b", 2_000, 0.0),
        Click("a", 61_000, 1.0),
        Click("b", 200_000, 1.0),
    ]
    with run(clicks, sent, seconds=60, step=1.0) as cluster:
        assert {"page": "a", "start": 0, "clicks": 2, "spent": 4.0} in values(cluster)


def test_a_row_with_one_wrong_result_has_none() -> None:
    def some(order: Order) -> Iterator[str]:
        yield "good"
        yield len(order.items)  # type: ignore[misc]

    stream = order_stream().step(some, on_exception="dead_letter")
    stream.to("raw")
    with run(stream, ORDERS) as cluster:
        assert (values(cluster, "raw"), len(cluster.dead_letters())) == ([], 3)


def test_rows_with_wrong_results_stop_the_task() -> None:
    def wrong(order: Order) -> Item:
        return order  # type: ignore[return-value]

    options: Any = {"max_consecutive_failures": 3, "on_consecutive_failures": "stop"}
    stream = order_stream().shuffle().step(wrong, **options)
    stream.to("out")
    with pytest.raises(TooManyFailuresError):
        run(stream, [Order(str(number), []) for number in range(10)])


def test_messages_with_lists_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counted(type_: Any) -> Callable[[bytes], Any]:
        decode = msgspec.json.Decoder(type_).decode
        return lambda value: decoded.append(value) or decode(value)  # type: ignore[func-returns-value]

    monkeypatch.setattr(typed_translation, "json_decoder", counted)
    stream = order_stream().shuffle().step(items)
    stream.to("out")
    with run(stream, [Order("1", ["tea"])] * 200 + [b"{"] + [Order("1", [])] * 50, has_hooks=False) as cluster:
        assert len(cluster.dead_letters()) == 1
        assert len(decoded) <= 260


def test_a_step_with_a_context_runs_at_most_once() -> None:
    def counts(item: Item, context: StepContext) -> str:
        context.count("items")
        return item.name

    stream = order_stream(guarantee="at_most_once").step(items).step(counts)
    stream.to("raw")
    with run(stream, ORDERS) as cluster:
        assert cluster.stats("counts").counters["items"] == 3


@pytest.mark.parametrize("is_local", [True, False])
def test_a_result_of_another_type_fails_its_row(is_local: bool) -> None:
    def wrong(item: Item) -> Item:
        return item if item.name == "tea" else item.name  # type: ignore[return-value]

    stream = order_stream().step(items)
    rows = stream.step(wrong)
    (rows if is_local else rows.shuffle()).to("out")
    with run(stream, ORDERS) as cluster:
        assert {record["name"] for record in values(cluster)} == {"tea"}
        assert cluster.acked("orders")
        ((_, failure), *_) = cluster.failed("orders")
        assert "a str is not a Item" in failure.message
        assert failure.component == "wrong"


def test_a_result_of_a_step_without_results_fails_its_row() -> None:
    def ship(item: Item) -> None:
        return item.name  # type: ignore[return-value]

    stream = order_stream().step(items)
    stream.step(ship)
    with run(stream, ORDERS[:1]) as cluster:
        ((_, failure), *_) = cluster.failed("orders")
        assert "a str was returned, and the annotation of the step says None" in failure.message


def test_steps_and_bolts_as_classes_receive_each_others_rows() -> None:
    class Upper(BasicBolt):
        streams = (declare({"name": str, "order": str}),)

        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            collector.emit((tuple_["name"].upper(), tuple_["order"]))

    shop = TopologyBuilder("shop")
    stream = shop.spout("orders", KafkaSpout("orders", value=Order)).step(items)
    shop.set_bolt("upper", Upper).local_grouping("items")
    shop.set_bolt("named", named).shuffle_grouping("upper")
    shop.stream("named").to("raw")
    with run(stream, ORDERS) as cluster:
        assert values(cluster, "raw") == [b"TEA", b"MILK", b"TEA"]
