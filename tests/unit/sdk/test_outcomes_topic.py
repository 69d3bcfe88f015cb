"""The outcomes that a Kafka spout writes to a topic: one for each message that has ended, before its offset is done."""

import json
from operator import itemgetter
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_clients.access import Operation, component_role
from spout_sdk import BasicBolt, FailReason, FailTupleError, KafkaSpout, RetryPolicy, TopologyBuilder, declare
from spout_sdk.client import OutcomeRecord, outcome_stream
from spout_sdk.errors import DeliveryError, TopologyError
from spout_sdk.testing import SimulatedCluster
from tests.components import source
from tests.unit.sdk.kafka_spout_rig import Rig
from tests.unit.sdk.sent_records import NOT_DELIVERED
from tuple_tree.components import OutcomesCodec, OutcomesManifest
from tuple_tree.manifest import Manifest
from tuple_tree.payloads import decode_tuples, payload_codec

AT_ONCE = RetryPolicy(initial_delay=0, delay_period=0, max_retries=1)


def written(rig: Rig) -> list[dict[str, Any]]:
    return [json.loads(sent.value or b"") for sent in rig.sink.to("done")]


def test_each_message_that_ends_has_an_outcome() -> None:
    def translate(record: Any) -> Any:
        return None if record.offset() == 3 else (record.value().decode(),)

    rig = Rig([0, 1, 2, 3], outcomes="done", retry=AT_ONCE, translate=translate)
    rig.work()
    rig.notify(0)
    rig.notify(failed={1: ""}, reason=FailReason.TIMEOUT)
    rig.notify(failed={2: "split: no room"})
    rig.work(1)
    rig.notify(1, failed={2: "split: still no room"})
    rig.work(2)
    found = {each["offset"]: each for each in written(rig)}
    last = "all 2 attempts failed, the last one with reason failed: split: still no room"
    fields = itemgetter("topic", "partition", "outcome", "attempts", "reason", "failure")
    assert {offset: fields(each) for offset, each in found.items()} == {
        0: ("source", 0, "acked", 1, "", ""),
        1: ("source", 0, "acked", 2, "timeout", ""),
        2: ("source", 0, "dead-letter", 2, "retries-exhausted", last),
        3: ("source", 0, "skipped", 1, "", ""),
    }
    assert all(each["first_emit"] <= each["end"] for each in found.values())
    rig.work(2)
    assert rig.committed == 4


def test_an_offset_is_done_when_its_outcome_is_delivered() -> None:
    rig = Rig([0, 1], outcomes="done")
    rig.work()
    rig.sink.holds_back = True
    rig.notify(0, 1)
    rig.work(2)
    assert len(written(rig)) == 2
    assert rig.committed == 0
    rig.restart()
    rig.sink.holds_back = False
    rig.work(2)
    rig.notify(0, 1)
    rig.work(2)
    assert rig.committed == 2
    assert [each["offset"] for each in written(rig)] == [0, 1, 0, 1], "the next owner writes them again"


def test_an_outcome_that_cannot_be_delivered_ends_the_task() -> None:
    rig = Rig([0], outcomes="done")
    rig.work()
    rig.sink.holds_back = True
    rig.notify(0)
    rig.sink.to("done")[0].deliver(NOT_DELIVERED)
    with pytest.raises(DeliveryError, match=r"an outcome for done.* was not delivered"):
        rig.work(2)
    assert rig.committed == 0


def test_a_text_that_no_encoding_takes_and_a_record_that_is_too_large_have_an_outcome() -> None:
    rig = Rig(outcomes="done", outcomes_codec="avro")
    rig.add(b"", key=b"a key that is too large")
    rig.work()
    rig.notify(failed={0: "half of \ud83d"})
    rig.work(1)
    rig.sink.holds_back = True
    rig.notify(0)
    (sent,) = rig.sink.to("done")
    assert b"half of \\ud83d" in (sent.value or b"")
    rig.sink.holds_back = False
    sent.deliver(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    assert [each.key for each in rig.sink.to("done")] == [b"a key that is too large", None]
    rig.work(2)
    assert rig.committed == 1


Source = source(declare({"value": str}))


class Picky(BasicBolt):
    def execute(self, tuple_: Any, _collector: Any) -> None:
        if tuple_["value"] == "bad":
            raise ValueError("never")


@pytest.mark.parametrize("codec", ["json", "avro"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_outcomes_of_a_topology_have_the_keys_of_its_messages(codec: OutcomesCodec, guarantee: Any) -> None:
    builder = TopologyBuilder("orders", guarantee=guarantee)
    spout = KafkaSpout("orders", outcomes="orders.outcomes", outcomes_codec=codec, retry=AT_ONCE)
    builder.set_spout("orders", spout)
    builder.set_bolt("check", Picky).local_grouping("orders")
    topology = builder.build()
    assert topology.manifest.spout("orders").outcomes == OutcomesManifest(topic="orders.outcomes", codec=codec)
    assert Manifest.from_json(topology.manifest.to_json()) == topology.manifest
    with SimulatedCluster(topology) as cluster:
        for number, value in enumerate(["good", "bad", "good"]):
            cluster.produce("orders", value, key=f"ORDER-{number}")
        cluster.run_until(lambda: len(cluster.records("orders.outcomes")) == 3)
        reader = payload_codec(outcome_stream(codec))
        records = cluster.records("orders.outcomes")
        found = {each.key(): OutcomeRecord(*decode_tuples(reader, each.value() or b"")[0]) for each in records}
        outcomes = {key: each.outcome for key, each in found.items()}
        assert outcomes == {b"ORDER-0": "acked", b"ORDER-1": "dead-letter", b"ORDER-2": "acked"}
        bad = found[b"ORDER-1"]
        assert (bad.component, bad.reason) == ("check", "retries-exhausted")
        assert bad.failure == "all 2 attempts failed, the last one with reason failed: ValueError: never"


def test_the_attempts_of_a_message_that_a_bolt_gives_up_are_all_counted() -> None:
    class FailsAndRaises(BasicBolt):
        calls = 0

        def execute(self, _tuple: Any, _collector: Any) -> None:
            type(self).calls += 1
            raise FailTupleError("later") if self.calls == 1 else ValueError("never")

    builder = TopologyBuilder("orders")
    builder.set_spout("orders", KafkaSpout("orders", outcomes="done"))
    builder.set_bolt("check", FailsAndRaises, on_exception="dead_letter").shuffle_grouping("orders")
    with SimulatedCluster(builder.build()) as cluster:
        cluster.produce("orders", "one")
        cluster.run_until(lambda: bool(cluster.records("done")))
        (found,) = map(json.loads, (each.value() or b"" for each in cluster.records("done")))
        assert (found["outcome"], found["attempts"], found["failure"]) == ("dead-letter", 2, "ValueError: never")


@pytest.mark.parametrize(
    ("spout", "options", "error"),
    [
        (KafkaSpout("orders"), {"outcomes": "orders"}, "writes its outcomes to it: name another topic"),
        (KafkaSpout("orders", outcomes="a b"), {}, "cannot write outcomes to 'a b'"),
        (KafkaSpout("orders", outcomes="a", outcomes_codec="xml"), {}, "outcomes_codec is 'xml'"),  # type: ignore[arg-type]
        (Source, {"outcomes": "done"}, "its messages are in no topic"),
    ],
)
def test_a_spout_that_knows_no_outcomes_cannot_write_them(spout: Any, options: Any, error: str) -> None:
    with pytest.raises(TopologyError, match=error):
        TopologyBuilder("orders").set_spout("orders", spout, **options)
    with pytest.raises(TopologyError, match="spout 'orders' writes outcomes, and at_most_once follows no trees"):
        TopologyBuilder("orders", guarantee="at_most_once").set_spout("orders", KafkaSpout("orders", outcomes="done"))


def test_an_external_spout_writes_outcomes() -> None:
    builder = TopologyBuilder("orders")
    streams = [declare({"value": str})]
    builder.set_spout("orders", "orders", external=True, streams=streams, outcomes="done", outcomes_codec="avro")
    builder.set_bolt("check", Picky).shuffle_grouping("orders")
    topology = builder.build()
    assert topology.manifest.spout("orders").outcomes == OutcomesManifest(topic="done", codec="avro")
    assert component_role(topology.manifest, "orders", "orders").needed_topics["done"] == (Operation.WRITE,)
    builder.set_spout("more", lambda _spark: "orders", external=True, streams=streams, outcomes="done")
    assert builder.build().manifest.spout("more").outcomes == OutcomesManifest(topic="done")
