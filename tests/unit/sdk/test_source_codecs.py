"""The format of a source's messages, and that its tuples travel in packs whatever it is."""

import json
from typing import Any

import pytest

from spout_sdk import BasicBolt, BasicCollector, KafkaSpout, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.errors import TopologyError
from spout_sdk.testing import SimulatedCluster
from tuple_tree.payloads import encode_tuples, payload_codec

ORDER = {"customer": str, "cents": int, "rate": float}
ORDERS = [(f"c{n % 7}", n, n / 2) for n in range(500)]


class Pass(BasicBolt):
    streams = (declare(ORDER),)

    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        collector.emit(tuple_.values)


class End(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        pass


def orders(spout: KafkaSpout) -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spout)
    builder.set_bolt("pass", Pass, tasks=2).fields_grouping("orders", "customer")
    builder.set_bolt("end", End, tasks=2).shuffle_grouping("pass")
    return builder.build()


def as_json(values: tuple[Any, ...]) -> bytes:
    return json.dumps(dict(zip(ORDER, values, strict=True))).encode()


def as_avro(values: tuple[Any, ...]) -> bytes:
    return encode_tuples(payload_codec(declare(ORDER, codec="avro")), [values])


@pytest.mark.parametrize(("codec", "write"), [(None, as_json), ("json", as_json), ("avro", as_avro)])
def test_tuples_of_a_source_in_any_format_share_records(codec: Any, write: Any) -> None:
    topology = orders(KafkaSpout("source", streams=[declare(ORDER)], codec=codec))
    with SimulatedCluster(topology, topics={"source": 1}) as cluster:
        for values in ORDERS:
            cluster.produce("source", write(values))
        cluster.run_until_idle()
        assert sorted(cluster.executed("end")) == sorted(ORDERS)
        assert len(cluster.acked("orders")) == len(ORDERS)
        for bolt in ("pass", "end"):
            records = len(cluster.records(f"t.tuples.{bolt}"))
            assert records * 5 < len(ORDERS), f"the inbox of {bolt} has {records} records"


@pytest.mark.parametrize(("hop", "write"), [("json", as_json), ("avro", as_avro)])
def test_a_stream_with_a_codec_of_its_own_has_a_record_for_each_tuple(hop: str, write: Any) -> None:
    # Its messages are decoded with that codec too, unless the spout has another one.
    cases: list[tuple[Any, Any]] = [(None, write), ("json", as_json), ("avro", as_avro)]
    for codec, message in cases:
        spout = KafkaSpout("source", streams=[declare(ORDER, codec=hop)], codec=codec)
        with SimulatedCluster(orders(spout), topics={"source": 1}) as cluster:
            for values in ORDERS[:20]:
                cluster.produce("source", message(values))
            cluster.run_until_idle()
            inbox = cluster.records("t.tuples.pass")
            assert sorted(each.value() or b"" for each in inbox) == sorted(
                as_json(values).replace(b" ", b"") if hop == "json" else as_avro(values) for values in ORDERS[:20]
            )


def test_messages_that_are_not_in_the_format_become_dead_letters() -> None:
    spout = KafkaSpout("source", streams=[declare(ORDER)])
    odd = [b"no", b"{}", b'{"customer": 1, "cents": 2, "rate": 0.5}', None, as_avro(ORDERS[0])]
    with SimulatedCluster(orders(spout), topics={"source": 1}) as cluster:
        for value in [*odd, b'{"customer": "a", "cents": 2, "rate": 1, "more": 5}']:
            cluster.produce("source", value)
        cluster.run_until_idle()
        assert [each.value for each in cluster.dead_letters()] == odd
        assert {each.reason for each in cluster.dead_letters()} == {"bad-payload"}
        assert cluster.executed("end") == [("a", 2, 1.0)]


def test_one_field_of_text_is_the_message_unless_a_codec_is_given() -> None:
    cases: list[tuple[Any, str]] = [(None, '{"customer": "a"}'), ("json", "a")]
    for codec, expected in cases:
        spout = KafkaSpout("source", streams=[declare({"customer": str})], codec=codec)
        builder = TopologyBuilder("t")
        builder.set_spout("orders", spout)
        builder.set_bolt("end", End).shuffle_grouping("orders")
        with SimulatedCluster(builder.build(), topics={"source": 1}) as cluster:
            cluster.produce("source", '{"customer": "a"}')
            cluster.run_until_idle()
            assert cluster.executed("end") == [(expected,)]


def test_a_codec_that_decodes_nothing_is_refused() -> None:
    with pytest.raises(TopologyError, match="codec of a KafkaSpout is 'xml': it must be one of json, avro"):
        KafkaSpout("source", codec="xml")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="has translate=, which decodes its messages, and codec="):
        KafkaSpout("source", codec="json", translate=lambda _record: None)
    with pytest.raises(TopologyError, match=r'picture. of type bytes, which JSON lacks: pass codec="avro"'):
        KafkaSpout("source", streams=[declare({"name": str, "picture": bytes})])
