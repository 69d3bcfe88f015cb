"""`KafkaBolt`, in memory."""

import io
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import fastavro
import pytest
from confluent_kafka import KafkaError

from kafka_clients.access import Operation, component_role
from spout_sdk import KafkaBolt, KafkaSpout, RetryPolicy, Topology, TopologyBuilder, Tuple, declare
from spout_sdk.errors import TopologyError
from spout_sdk.testing import SimulatedCluster, broker, clients
from tests.components import source
from tests.packs import under_seed
from tests.unit.sdk.bench import Bench
from tuple_tree.manifest import Guarantee

STREAM = declare({"word": str, "count": int, "raw": bytes})
ROWS = [("to", 2, b"\x00"), ("be", 1, b"\xff")]


Counts = source(STREAM)


def topology(bolt: Callable[[], KafkaBolt], guarantee: Guarantee = "at_least_once") -> Topology:
    builder = TopologyBuilder("words", guarantee=guarantee)
    builder.set_spout("counts", Counts)
    builder.set_bolt("publish", bolt).shuffle_grouping("counts")
    return builder.build()


def published(bolt: Callable[[], KafkaBolt], *, guarantee: Guarantee = "at_least_once") -> list[Any]:
    """The records of `ROWS`, by key."""
    topics = {"out": 3, "elsewhere": 1}
    with SimulatedCluster(topology(bolt, guarantee), sources={"counts": ROWS}, topics=topics) as cluster:
        cluster.run_until_idle()
        if guarantee != "at_most_once":
            assert sorted(cluster.acked("counts")) == [0, 1]
        return sorted(cluster.records("out"), key=lambda record: record.key() or b"")


@pytest.mark.parametrize("guarantee", get_args(Guarantee))
def test_each_tuple_is_a_record_and_acked(guarantee: Guarantee) -> None:
    headers: Any = {"raw": "raw", "by": lambda _: "me"}
    bolt = partial(KafkaBolt, "out", key="word", value=["count", "word"], headers=headers)
    records = published(bolt, guarantee=guarantee)
    assert [(each.key(), json.loads(each.value())) for each in records] == [
        (b"be", {"count": 1, "word": "be"}),
        (b"to", {"count": 2, "word": "to"}),
    ]
    assert records[0].headers() == [("raw", b"\xff"), ("by", b"me")]


@pytest.mark.parametrize(("field", "values"), [("raw", [b"\xff", b"\x00"]), ("word", [b"be", b"to"])])
def test_values_are_the_bytes_of_a_field(field: str, values: list[bytes]) -> None:
    records = published(lambda: KafkaBolt("out", key="word", value=[field], codec="bytes"))
    assert [each.value() for each in records] == values


def test_values_are_avro_or_the_result_of_a_function() -> None:
    schema = fastavro.parse_schema(declare({"word": str, "count": int}).avro_schema())
    avro = published(lambda: KafkaBolt("out", key="word", value=["word", "count"], codec="avro"))
    assert fastavro.schemaless_reader(io.BytesIO(avro[0].value()), schema, None) == {"word": "be", "count": 1}

    def topic(tuple_: Tuple) -> str:
        return "out" if tuple_["count"] == 1 else "elsewhere"

    made = published(lambda: KafkaBolt(topic, key=lambda each: each["raw"], value=lambda _: None))
    assert [(each.key(), each.value()) for each in made] == [(b"\xff", None)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"key": "nothing"}, "the key 'nothing', but stream counts/default has the fields word, count, raw: name one"),
        ({"key": "count"}, r"the key 'count', whose type in stream counts/default is long.*str\(tuple_\['count'\]\)"),
        ({"headers": {"h": "none"}}, "the header 'none'"),
        ({"value": ["word", "gone"]}, "the value 'gone'"),
        ({"value": ["gone"], "codec": "bytes"}, "the value 'gone'"),
        ({"codec": "bytes"}, r"codec='bytes' of a KafkaBolt takes one field: name it, as in value=\['text'\]"),
    ],
)
def test_records_that_cannot_be_made_are_errors_of_build(arguments: Any, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        topology(lambda: KafkaBolt("out", **arguments))


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(TopologyError, match=r"value='word' of a KafkaBolt is text: write value=\['word'\]"):
        KafkaBolt("out", value="word")
    with pytest.raises(TopologyError, match="codec of a KafkaBolt is 'xml': it must be one of json, avro, bytes"):
        KafkaBolt("out", codec="xml")  # type: ignore[arg-type]


def run(bolt: Callable[[], KafkaBolt], *rows: Any, guarantee: Guarantee = "at_least_once") -> tuple[Bench, Any]:
    """A bench whose sink holds records back, and the task, which has executed rows with roots from 1 on."""
    bench = Bench(topology(bolt, guarantee), holds_back=True)
    task = bench.bolt("publish")
    roots = [{number: number} if guarantee == "at_least_once" else {} for number in range(1, len(rows) + 1)]
    for row, edges in zip(rows, roots, strict=True):
        bench.record("publish", row, edges, source="counts/default")
    task.flush()
    return bench, task


def test_a_tuple_is_acked_when_its_record_is_delivered_and_fails_when_it_is_not() -> None:
    bench, task = run(lambda: KafkaBolt("out", value=["word"]), *ROWS)
    assert bench.sink.batches == []
    first, second = bench.sink.to("out")
    first.deliver()
    second.deliver(KafkaError(KafkaError._MSG_TIMED_OUT))
    task.flush()
    assert bench.sink.checksums() == {1: 1}
    (message,) = bench.sink.failed().values()
    assert message.startswith("a record for topic out was not delivered: ")


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_record_that_is_not_delivered_is_an_error_with_topic_and_reason(
    guarantee: Guarantee, caplog: pytest.LogCaptureFixture
) -> None:
    bench, task = run(lambda: KafkaBolt("out", value=["word"]), *ROWS * 50, guarantee=guarantee)
    for record in bench.sink.to("out"):
        record.deliver(KafkaError(KafkaError._UNKNOWN_TOPIC))
    task.flush()
    (line,) = caplog.messages
    assert line.startswith("publish/0: a record for topic out was not delivered: ")
    assert "_UNKNOWN_TOPIC" in line
    assert task.stats.undelivered == 100


def test_a_key_of_another_type_fails_the_tuple_with_a_remedy() -> None:
    bench, _ = run(KafkaBolt("out", key=lambda tuple_: tuple_["count"]), ROWS[0])
    message = "TypeError: keys, values and headers of records are text or bytes, not int: convert it"
    assert bench.sink.failed() == {1: message}


def test_an_instance_is_a_factory_of_the_bolts_of_tasks() -> None:
    made = topology(KafkaBolt("out", key="word"))
    assert made.kafka_targets == {"publish": "out"}
    one, other = made.factory("publish")(), made.factory("publish")()
    assert one is not other
    assert (one.topic, one.key) == (other.topic, other.key) == ("out", "word")  # type: ignore[union-attr]


def test_the_topics_of_kafka_bolts_are_in_the_topology() -> None:
    made = topology(partial(KafkaBolt, "out"))
    assert made.kafka_targets == {"publish": "out"}
    assert topology(lambda: KafkaBolt(lambda tuple_: tuple_["word"])).kafka_targets == {}
    permissions = component_role(made.manifest, "publish", targets=["out"]).permissions
    assert [each.operations for each in permissions if each.name == "out"] == [(Operation.WRITE,)]


ESCAPED = bytes(range(32)).decode()
LARGE = "".join(random.Random(1).choices(ESCAPED, k=10_000))
"""A text that fits in a pack with others, and as JSON is too large for a record of the test."""


@pytest.mark.parametrize("guarantee", get_args(Guarantee))
def test_a_record_that_is_too_large_fails_alone(guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbours in the call are written once, and acked at their first attempt."""
    monkeypatch.setattr(broker, "LARGEST_RECORD", 15_000)
    monkeypatch.setattr(clients, "_LARGEST", 30_000)
    builder = TopologyBuilder("sizes", guarantee=guarantee)
    retry = RetryPolicy(initial_delay=1, delay_period=0, max_delay=1, max_retries=3)
    outcomes = None if guarantee == "at_most_once" else "ended"
    builder.set_spout("texts", KafkaSpout("texts", retry=retry), outcomes=outcomes)
    builder.set_bolt("publish", partial(KafkaBolt, "out", value=["value"])).shuffle_grouping("texts")
    words = [f"{number}" for number in range(59)]
    with SimulatedCluster(builder.build()) as cluster:
        for word in [*words[:29], LARGE, *words[29:]]:
            cluster.produce("texts", word)
        cluster.run_until_idle()
        written = [json.loads(record.value() or b"")["value"] for record in cluster.records("out")]
        assert sorted(written) == sorted(words)
        if guarantee == "at_most_once":
            return
        cluster.advance(10)
        assert len(cluster.records("out")) == 59
        ended = [cluster.message_outcome("texts", offset) for offset in range(60)]
        assert [(each.outcome, each.attempts) for each in ended if each and each.offset != 29] == 59 * [("acked", 1)]
        assert (large := ended[29]) is not None
        assert (large.outcome, large.attempts) == ("dead-letter", 4)
        assert "a record for topic out was not delivered" in large.failure


@pytest.mark.parametrize("value", [["word"], lambda tuple_: tuple_["word"]], ids=["columns", "tuples"])
def test_each_tuple_of_a_call_is_acked_or_fails_with_its_own_record(value: Any) -> None:
    bench = Bench(topology(lambda: KafkaBolt("out", value=value)), holds_back=True)
    task = bench.bolt("publish")
    edges = under_seed(range(1, 5))
    bench.pack("publish", [(word, 1, b"") for word in "abcd"], edges, source="counts/default")
    task.flush()
    a, b, c, d = bench.sink.to("out")
    c.deliver()
    a.deliver()
    b.deliver(KafkaError(KafkaError._MSG_TIMED_OUT))
    task.flush()
    acked = {root: edge for each in edges for root, edge in each.items()}
    del acked[2]
    waits = acked.pop(4)
    assert (bench.sink.checksums(), list(bench.sink.failed())) == (acked, [2])
    d.deliver()
    task.flush()
    assert bench.sink.checksums() == {**acked, 4: waits}
