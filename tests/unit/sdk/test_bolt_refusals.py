"""What a bolt's task does with what it cannot emit, deliver or read."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from spout_sdk import DeliveryError, EmitError
from tests.unit.sdk.bolt_rig import feed, rig
from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER


@pytest.mark.parametrize(
    ("values", "stream", "says"),
    [
        (("a", "b"), "default", "cannot emit to stream 'default' (word): 2 values for 1 fields"),
        ((5,), "default", "(5,) does not fit codec avro (TypeError: "),
        (("text",), "raw", "does not fit codec bytes"),
        ("a", "default", "values must be a tuple or a list, not str: write ('a',)"),
        (("a",), "other", "cannot emit to stream 'other': it declares default, raw; add the stream"),
    ],
)
def test_what_cannot_be_emitted_is_refused_before_anything_is_sent(values: Any, stream: str, says: str) -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {7: 9})
    with pytest.raises(EmitError) as refused:
        bolt.collector.emit(values, bolt.tuples[0], stream)
    assert says in str(refused.value)
    assert (refused.value.component, refused.value.stream) == ("split", stream)
    assert (bench.sink.tuples, bolt.tuples[0].out, bench.counters.emitted) == ([], 0, 0)


def test_a_tuple_that_kafka_does_not_take_fails_its_trees() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {7: 9, 8: 10})
    bolt.collector.emit(("w",), bolt.tuples[0])
    bolt.collector.ack(bolt.tuples[0])
    bench.sink.tuples[0].deliver("message timed out")
    task.flush()
    assert bench.sink.failed() == dict.fromkeys((7, 8), "a tuple of split was not delivered: message timed out")
    assert bench.counters.undelivered == 1


@pytest.mark.parametrize(
    ("payload", "headers", "reason"),
    [
        (b"\xff\xff", [(ANCHORS_HEADER, b"\0" * 16), (SOURCE_HEADER, b"lines/default")], "bad-payload"),
        (None, [(SOURCE_HEADER, b"lines/default")], "no-payload"),
        (b"\x02a", [(ANCHORS_HEADER, b"\0" * 15), (SOURCE_HEADER, b"lines/default")], "ragged-anchors"),
        (b"\x02a", [(ANCHORS_HEADER, b"\0" * 16), (SOURCE_HEADER, b"nobody/default")], "unknown-source"),
        (b"\x02a", [(SOURCE_HEADER, b"lines/other")], "unknown-source"),
        (b"\x02a", [(SOURCE_HEADER, b"split/default")], "unknown-source"),
        (b"\x02a", None, "no-source"),
        (b"{]", [(SOURCE_HEADER, b"lines/numbers")], "bad-payload"),
    ],
)
def test_what_cannot_be_read_is_a_dead_letter(payload: bytes | None, headers: Any, reason: str) -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "before", {1: 1})
    task.execute(bench.raw("split", payload, headers, task=1))
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    assert (letter.topic, letter.value) == ("words.dead-letters", payload)
    assert letter.headers[: len(headers or ())] == (headers or [])
    said = {name.removeprefix("dead-letter."): value for name, value in letter.headers if name.startswith("dead-")}
    assert said.pop("detail")
    assert said == {
        "topic": b"words.tuples.split",
        "partition": b"1",
        "offset": b"1",
        "reason": reason.encode(),
        "by": b"split/1",
    }
    has_root = bool(headers) and headers[0] == (ANCHORS_HEADER, b"\0" * 16)
    assert list(bench.sink.failed()) == ([0] if has_root else [])
    assert bench.counters.dead_letters == 1
    batches = bench.sink.to(".acks")[3:]
    for batch in batches:
        batch.deliver()
    assert task.committable == 1
    letter.deliver()
    assert task.committable == 2


def test_a_dead_letter_that_outgrows_its_topic_says_only_where_it_lies() -> None:
    bench, task, _ = rig(holds_back=True)
    task.execute(bench.raw("split", b"\xff" * 1_000, None, task=1))
    bench.sink.to(".dead-letters")[0].deliver(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    place = bench.sink.to(".dead-letters")[1]
    assert place.value is None
    assert place.header["dead-letter.offset"] == b"0"
    assert task.committable == 0
    place.deliver()
    assert task.committable == 1


def test_a_dead_letter_that_is_not_delivered_stops_the_task() -> None:
    bench, task, _ = rig(holds_back=True)
    task.execute(bench.raw("split", b"\xff", None, task=1))
    bench.sink.to(".dead-letters")[0].deliver("no leader")
    with pytest.raises(DeliveryError, match=r"a dead letter for words\.dead-letters"):
        task.tick(1.0)
    assert task.committable == 0
