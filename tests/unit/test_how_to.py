"""Runs the topologies of how-to pages."""

import json
from typing import Any

from confluent_kafka.serialization import MessageField, SerializationContext

from spout_sdk import FailReason, TopologyBuilder
from spout_sdk.testing import SimulatedCluster
from tests.pages import names_of


def test_held_tuples_do_not_time_out_but_get_too_old() -> None:
    topology = names_of("docs/how-to/timeouts.md")["topology"]()
    with SimulatedCluster(topology, topics={"pages": 1}, step=1.0) as cluster:
        cluster.produce("pages", "a")
        cluster.advance(590)
        assert len(cluster.pending("pages")) == 1
        cluster.advance(20)
        [(_, failure)] = cluster.failed("pages")
        assert failure.reason is FailReason.TOO_OLD


def test_a_bill_takes_both_streams() -> None:
    page = names_of("docs/how-to/change-a-topology.md")
    Price: Any = page["Price"]  # noqa: N806

    class OldPrice(Price):  # type: ignore[misc]
        def execute(self, tuple_: Any, collector: Any) -> None:
            collector.emit((tuple_["order"], 19.99))

    for price in (Price, OldPrice):
        with SimulatedCluster(page["topology"], sources={"orders": [(7,)]}, bolts={"price": price}) as cluster:
            cluster.run_until_idle()
            assert cluster.acked("orders") == [0]
            assert cluster.bolt("bill").billed == {7: 1999}


def test_duplicates_are_dropped_for_five_minutes() -> None:
    payments = names_of("docs/how-to/deduplicate.md")["payments"]
    with SimulatedCluster(payments(), topics={"payments": 2}, step=1.0) as cluster:
        for partition in (0, 1, 0):
            cluster.produce("payments", '{"id": "a", "cents": 5}', partition=partition)
            cluster.run_until_idle()
        assert cluster.emitted("first") == [("a", 5)]
        cluster.kill("first", 0)
        cluster.advance(310)
        cluster.produce("payments", '{"id": "a", "cents": 5}')
        cluster.run_until_idle()
        assert cluster.emitted("first") == [("a", 5), ("a", 5)]
        assert len(cluster.acked("payments")) == 4


def test_a_replay_of_the_first_duplicate_passes_again() -> None:
    page = names_of("docs/how-to/deduplicate.md")
    builder = TopologyBuilder("payments")
    builder.set_spout("payments", page["KafkaSpout"]("payments", streams=[page["PAYMENT"]]))
    builder.set_bolt("first", page["First"]).fields_grouping("payments", "id")
    builder.set_bolt("again", page["First"]).fields_grouping("first", "id")
    with SimulatedCluster(builder.build(), topics={"payments": 1}, paused=["again"]) as cluster:
        for _ in range(2):
            cluster.produce("payments", '{"id": "a", "cents": 5}')
        cluster.advance(31)  # the first one times out, and is replayed
        cluster.resume("again")
        cluster.advance(1)
        assert cluster.emitted("first") == [("a", 5), ("a", 5)]
        assert len(cluster.acked("payments")) == 2


def test_an_order_without_a_price_in_the_table_waits_for_it() -> None:
    page = names_of("docs/how-to/join.md")
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", page["KafkaSpout"]("orders"))
    builder.set_bolt("priced", page["PricedFromTable"], tasks=4).shuffle_grouping("orders")
    with SimulatedCluster(builder.build(), topics={"orders": 1}, step=0.5) as cluster:
        cluster.produce("orders", '{"item": "tea", "count": 2}')
        cluster.produce("orders", '{"item": "jam", "count": 1}')
        cluster.run_until(lambda: cluster.failed("orders"))
        page["PRICES"]["jam"] = 7
        cluster.advance(90)
        assert sorted(cluster.emitted("priced")) == [("jam", 1, 7), ("tea", 2, 6)]


def test_orders_are_records_of_their_customers() -> None:
    published = names_of("docs/how-to/write-to-kafka.md")["published"]
    with SimulatedCluster(published("exactly_once"), topics={"orders": 1, "bills": 2}) as cluster:
        for customer, cents in (("ann", 300), ("bob", 50), ("ann", 200)):
            cluster.produce("orders", f'{{"customer": "{customer}", "cents": {cents}}}')
        cluster.run_until_idle()
        records = [(record.key(), record.value()) for record in cluster.records("bills")]
        assert sorted(records) == [(b"ann", b'{"cents":200}'), (b"ann", b'{"cents":300}'), (b"bob", b'{"cents":50}')]


def test_an_order_waits_for_its_price() -> None:
    topology = names_of("docs/how-to/join.md")["shop"]()
    with SimulatedCluster(topology) as cluster:
        cluster.produce("orders", '{"item": "tea", "number": 2, "at": 20}')
        cluster.run_until(lambda: cluster.failed("orders"))
        cluster.produce("prices", '{"item": "tea", "cents": 300}')
        cluster.advance(5)
        assert cluster.emitted("priced") == [("tea", 2, 600)]


def test_an_order_has_the_price_of_its_time() -> None:
    with SimulatedCluster(names_of("docs/how-to/join.md")["as_of"]) as cluster:
        for since, cents in ((10, 300), (30, 500), (20, 400)):
            cluster.produce("prices", json.dumps({"item": "tea", "cents": cents, "since": since}))
        cluster.run_until_idle()
        for at in (29, 30, 10):
            cluster.produce("orders", json.dumps({"item": "tea", "number": 1, "at": at}))
        cluster.run_until_idle()
        assert [cents for _, _, cents in cluster.emitted("priced")] == [400, 500, 300]


def test_clicks_are_joined_with_views_up_to_a_minute_before() -> None:
    topology = names_of("docs/how-to/join.md")["ads"]()
    with SimulatedCluster(topology) as cluster:
        for topic, at in (("views", 1_000), ("clicks", 61_000), ("clicks", 61_001), ("views", 60_500)):
            cluster.produce(topic, json.dumps({"user": "ann", "ad": "tea", "at": at}))
            cluster.run_until_idle()
        assert sorted(cluster.emitted("clicked")) == [
            ("ann", "tea", 1_000, 61_000),
            ("ann", "tea", 60_500, 61_000),
            ("ann", "tea", 60_500, 61_001),
        ]


def test_a_tombstone_deletes_a_price() -> None:
    with SimulatedCluster(names_of("docs/how-to/join.md")["shop_of_classes"]()) as cluster:
        for price in ("300", None, "5"):
            cluster.produce("prices", price, key="tea")
            cluster.run_until_idle()
            cluster.produce("orders", '{"item": "tea", "number": 2, "at": 20}')
            cluster.run_until_idle()
        assert cluster.emitted("priced") == [("tea", 600), ("tea", 10)]


def test_scans_are_recognised() -> None:
    with SimulatedCluster(names_of("docs/how-to/long-work.md")["topology"](), topics={"scans": 1}) as cluster:
        cluster.produce("scans", '{"user": "ann", "scan": "one"}')
        cluster.run_until_idle()
        assert cluster.emitted("recognise") == [("ann", "ONE")]


def test_orders_keep_their_schema() -> None:
    page = names_of("docs/how-to/schema-registry.md")
    with SimulatedCluster(page["topology"]()) as cluster:
        order = {"customer": "ann", "cents": 500}
        cluster.produce("orders", page["serializer"]()(order, SerializationContext("orders", MessageField.VALUE)))
        cluster.produce("orders", b"no magic byte")
        cluster.run_until(lambda: cluster.records("checked") and cluster.dead_letters())
        (record,) = cluster.records("checked")
        assert (record.value() or b"")[:1] == b"\0"
        written = page["deserializer"]()(record.value(), SerializationContext("checked", MessageField.VALUE))
        assert written == order


def test_an_order_is_answered_with_its_price() -> None:
    with SimulatedCluster(names_of("docs/how-to/send-and-wait.md")["topology"]) as cluster:
        offset = cluster.produce("prices.orders", "3 apples")
        cluster.run_until_idle()
        outcome = cluster.message_outcome("prices.orders", offset)
        assert outcome is not None
        assert outcome.answer == {"euros": 1.5}
