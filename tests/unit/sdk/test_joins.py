"""Joins of steps: with a table, as of a time, and of two streams, in a simulated cluster."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from spout_sdk import FailTupleError, KafkaSpout, RetryPolicy, Stream, TopologyBuilder
from spout_sdk.steps import KeyedStream
from spout_sdk.testing import SimulatedCluster
from tests.seeds import each_seed
from tests.unit.sdk.shop import values


@dataclass
class Sale:
    item: str
    number: int
    at: int = 0


@dataclass
class Price:
    item: str
    cents: int
    since: int = 0


@dataclass
class Priced:
    item: str
    number: int
    cents: int | None


def priced(sale: Sale, price: Price | None) -> Priced | None:
    if price is None:
        raise FailTupleError(f"no price of {sale.item} yet")
    return Priced(sale.item, sale.number, sale.number * price.cents) if sale.number else None


def streams(**options: Any) -> tuple[KeyedStream[Sale], KeyedStream[Price]]:
    shop = TopologyBuilder("shop", **options)
    retry = RetryPolicy(initial_delay=1.0)
    sales = shop.spout("sales", KafkaSpout("sales", value=Sale, retry=retry))
    return sales.key_by("item"), shop.spout("prices", KafkaSpout("prices", value=Price)).key_by("item")


def send(cluster: SimulatedCluster, *rows: Any, topics: Sequence[str] = ("sales", "prices")) -> None:
    for row in rows:
        cluster.produce(topics[isinstance(row, Price)], msgspec.json.encode(row))
        cluster.run_until_idle()


def written(stream: Stream[Any], *rows: Any, seconds: float = 0.0) -> list[Any]:
    with SimulatedCluster(stream.topology()) as cluster:
        send(cluster, *rows)
        cluster.advance(seconds)
        return values(cluster)


def test_a_row_is_joined_with_the_latest_row_of_a_table() -> None:
    sales, prices = streams()
    joined = sales.join(prices, priced, tasks=3)
    joined.to("out")
    rows = [Price("tea", 300), Sale("tea", 2), Price("tea", 400), Price("jam", 5), Sale("tea", 2), Sale("tea", 0)]
    with SimulatedCluster(joined.topology()) as cluster:
        send(cluster, *rows, Sale("jam", 3))
        found = [(each["item"], each["cents"]) for each in values(cluster)]
        assert found == [("tea", 600), ("tea", 800), ("jam", 15)]
        assert cluster.state("priced") == {
            "tea": {"item": "tea", "cents": 400, "since": 0},
            "jam": {"item": "jam", "cents": 5, "since": 0},
        }
        assert cluster.pending("sales") == []


def test_a_row_waits_for_its_row_of_the_table() -> None:
    sales, prices = streams()
    joined = sales.join(prices, priced)
    joined.to("out")
    with SimulatedCluster(joined.topology()) as cluster:
        send(cluster, Sale("tea", 2))
        cluster.run_until(lambda: cluster.failed("sales"))
        assert cluster.failed("sales")[0][1].message == "no price of tea yet"
        send(cluster, Price("tea", 300))
        cluster.advance(10)
        assert values(cluster) == [{"item": "tea", "number": 2, "cents": 600}]


def test_a_replay_does_not_bring_back_an_old_row_of_the_table() -> None:
    failures: list[str] = []

    def fail_once(price: Price) -> None:
        if price.cents == 300 and not failures:
            failures.append(price.item)
            raise FailTupleError("busy")

    sales, prices = streams()
    joined = sales.join(prices, priced)
    joined.to("out")
    prices.builder.stream("prices").shuffle().step(fail_once)  # type: ignore[attr-defined]
    with SimulatedCluster(joined.topology()) as cluster:
        send(cluster, Price("tea", 300), Price("tea", 400))
        cluster.kill("priced")
        cluster.advance(60)
        assert len(cluster.acked("prices")) == 2
        assert cluster.failed("prices")
        send(cluster, Sale("tea", 1))
        assert [each["cents"] for each in values(cluster)] == [400]


def test_a_row_has_the_row_of_the_table_as_of_its_time() -> None:
    sales, prices = streams()
    joined = sales.join(prices, priced, as_of=("at", "since"), versions=2)
    joined.to("out")
    sent = [Price("tea", 1, since=10), Price("tea", 3, since=30), Price("tea", 2, since=20), Price("tea", 4, since=30)]
    with SimulatedCluster(joined.topology()) as cluster:
        send(cluster, *sent, *(Sale("tea", 1, at) for at in (19, 20, 29, 30, 31)))
        assert [each["cents"] for each in values(cluster)] == [2, 2, 4, 4]
        assert [failure.message for _, failure in cluster.failed("sales")[:1]] == ["no price of tea yet"]


def pair(sale: Sale, price: Price) -> Priced | None:
    return Priced(sale.item, sale.at, price.since) if price.cents else None


def test_rows_are_joined_whose_times_differ_by_an_interval() -> None:
    sales, prices = streams()
    joined = sales.join_within(prices, pair, seconds=60, at=("at", "since"), keep=60)
    joined.to("out")
    with SimulatedCluster(joined.topology()) as cluster:
        send(
            cluster,
            Sale("tea", 1, 60_000),
            Price("tea", 1, since=0),
            Price("tea", 1, since=120_000),
            Price("tea", 1, since=120_001),
            Price("tea", 0, since=70_000),
            Price("jam", 1, since=60_000),
            Sale("tea", 1, 60_001),
            Sale("tea", 1, 200_000),  # rows up to 80_000 are too old
        )
        pairs = [(each["number"], each["cents"]) for each in values(cluster)]
        assert pairs == [(60_000, 0), (60_000, 120_000), (60_001, 120_000), (60_001, 120_001)]
        kept = cluster.state("pair")["tea"]
        assert [row["at"] for row in kept["left"]] == [200_000]
        assert [row["since"] for row in kept["right"]] == [120_000, 120_001]
        cluster.advance(125)
        assert cluster.state("pair") == {}


def test_a_pair_is_made_again_when_the_message_of_its_second_row_is_replayed() -> None:
    failures: list[int] = []

    def ship(found: Priced) -> Priced:
        if len(failures) < 2:
            failures.append(found.number)
            raise FailTupleError("busy")
        return found

    sales, prices = streams()
    joined = sales.join_within(prices, pair, seconds=1, at=("at", "since")).step(ship)
    joined.to("out")
    rows = [Price("tea", 1), Sale("tea", 1)]
    assert written(joined, *rows, seconds=60) == [{"item": "tea", "number": 0, "cents": 0}]
    assert failures == [0, 0]


def test_both_sides_may_be_merged_and_have_several_keys() -> None:
    shop = TopologyBuilder("shop")
    several = [shop.spout(name, KafkaSpout(name, value=Sale)) for name in ("sales", "more")]
    prices = shop.spout("prices", KafkaSpout("prices", value=Price))
    joined = several[0].merge(several[1]).key_by("item", "at").join(prices.key_by("item", "since"), priced)
    joined.to("out")
    with SimulatedCluster(joined.topology()) as cluster:
        send(cluster, Price("tea", 3, since=1), Price("tea", 4, since=2), Sale("tea", 1, 1))
        send(cluster, Sale("tea", 1, 2), topics=("more", "prices"))
        assert [each["cents"] for each in values(cluster)] == [3, 4]


def test_a_result_of_another_type_fails_its_row() -> None:
    def wrong(sale: Sale, price: Price | None) -> Priced:
        return sale  # type: ignore[return-value]

    sales, prices = streams()
    joined = sales.join(prices, wrong)
    joined.to("out")
    with SimulatedCluster(joined.topology()) as cluster:
        cluster.produce("sales", msgspec.json.encode(Sale("tea", 1)))
        cluster.run_until(lambda: cluster.failed("sales"))
        assert "a Sale is not a Priced" in cluster.failed("sales")[0][1].message


def test_joins_are_exact_whatever_fails_and_is_killed() -> None:
    each_seed(check_joins)


def check_joins(seed: int) -> None:
    chance = random.Random(seed)

    def as_of(sale: Sale, price: Price | None) -> Priced:
        return Priced(sale.item, sale.number, None if price is None else price.since)

    def flaky(found: Priced) -> Priced:
        if chance.random() < 0.3:
            raise FailTupleError("busy")
        return found

    sales, prices = streams(message_timeout=5.0)
    sales.join(prices, as_of, as_of=("at", "since")).step(flaky, name="flaky-1").to("as-of")
    within = sales.join_within(prices, pair, seconds=10, at=("at", "since")).step(flaky, name="flaky-2")
    within.to("pairs")
    items = ["tea", "jam"]
    kept = [Price(chance.choice(items), 1, since=1_000 * at) for at in chance.sample(range(60), 5)]
    sold = [Sale(chance.choice(items), number, 1_000 * chance.randrange(60)) for number in range(6)]
    with SimulatedCluster(within.topology()) as cluster:
        for topic, rows in (("prices", kept), ("sales", sold)):
            for row in rows:
                cluster.produce(topic, msgspec.json.encode(row))
                if chance.random() < 0.3:
                    cluster.kill(chance.choice(["as_of", "pair", "prices", "sales"]))
                cluster.advance(chance.choice([0.001, 0.001, 0.2, 6.0]))
            while len({*cluster.acked(topic)}) < len(rows):
                cluster.advance(1)
        found = {(each["number"], each["cents"]) for each in values(cluster, "as-of")}
        before = [[row.since for row in kept if row.item == sale.item and row.since <= sale.at] for sale in sold]
        assert found == {(sale.number, max(times, default=None)) for sale, times in zip(sold, before, strict=True)}
        pairs = {(each["item"], each["number"], each["cents"]) for each in values(cluster, "pairs")}
        near = [(sale, row) for sale in sold for row in kept if abs(sale.at - row.since) <= 10_000]
        assert pairs == {(sale.item, sale.at, row.since) for sale, row in near if sale.item == row.item}
        state = cluster.state("pair").values()
        assert sorted(row["number"] for each in state for row in each["left"]) == [*range(len(sold))]
        assert sorted(row["since"] for each in state for row in each["right"]) == sorted(row.since for row in kept)
