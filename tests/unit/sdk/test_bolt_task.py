"""A bolt's task alone; the contract in memory shows the plain cases."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from spout_sdk import BasicBolt, BasicCollector, OutputCollector, Tuple
from spout_sdk.errors import TupleAlreadyDoneError
from tests.packs import edges_in, under_seed
from tests.unit.sdk.bench import Lines, Split, feed, rig
from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER
from tuple_tree.payloads import encode_tuples, payload_codec


def test_a_tuple_has_its_values_and_its_address() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "first")
    feed(bench, task, "a line", {7: 9, 8: 9})
    tuple_: Tuple = bolt.tuples[1]
    assert [tuple_["line"], tuple_[0], *tuple_.values, *tuple_] == ["a line"] * 4
    assert (tuple_.component, tuple_.stream, tuple_.fields, len(tuple_)) == ("lines", "default", ("line",), 1)
    assert (tuple_.topic, tuple_.partition, tuple_.offset) == ("words.tuples.split", 1, 1)
    assert (tuple_.timestamp_ms, tuple_.key) == (1_700_000_000_000, None)
    assert (tuple_.roots, tuple_.is_tracked, bolt.tuples[0].is_tracked) == ((7, 8), True, False)
    assert repr(tuple_) == "<Tuple lines/default words.tuples.split[1]@1 line='a line'>"
    with pytest.raises(KeyError, match="has no field 'word': it has line"):
        tuple_["word"]


def test_acking_or_failing_twice_raises_and_names_the_tuple() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {7: 9})
    feed(bench, task, "b", {8: 9})
    collector: OutputCollector = bolt.collector
    acked, failed = bolt.tuples
    collector.ack(acked)
    collector.fail(failed, "no")
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("ack", lambda: collector.ack(acked)),
        ("fail", lambda: collector.fail(acked)),
        ("ack", lambda: collector.ack(failed)),
        ("emit anchored to", lambda: collector.emit(("x",), anchors=[failed])),
    ]
    for action, attempt in attempts:
        with pytest.raises(TupleAlreadyDoneError, match=f"cannot {action} the tuple at words.tuples.split") as raised:
            attempt()
        assert (raised.value.topic, raised.value.partition) == ("words.tuples.split", 1)
    assert (raised.value.offset, bench.sink.tuples) == (1, [])
    collector.reset_timeout(acked)
    task.flush()
    assert [batch.reset_roots.tolist() for batch in bench.sink.batches] == [[], []]


def test_failing_and_resetting_name_every_root_and_a_fail_may_have_an_exception() -> None:
    bench, task, bolt = rig()
    for edges in ({7: 9, 8: 9}, {4: 9}, {5: 9}, {6: 9}):
        feed(bench, task, "a", edges)
    both, exception, number, acked = bolt.tuples
    bolt.collector.reset_timeout(both)
    bolt.collector.fail(both, "no room")
    bolt.collector.fail(exception, OSError("no disk"))
    bolt.collector.fail(number, 404)
    bolt.collector.ack(acked)
    task.flush()
    assert bench.sink.failed() == {7: "no room", 8: "no room", 4: "OSError: no disk", 5: "404"}
    assert sorted(root for batch in bench.sink.batches for root in batch.reset_roots.tolist()) == [7, 8]
    assert (bench.sink.checksums(), task.stats.failed, task.committable) == ({6: 9}, {"failed": 3}, 4)


ONE = encode_tuples(payload_codec(Lines.streams[0]), [("a",)])


@pytest.mark.parametrize(
    ("payload", "headers", "reason"),
    [
        (b"\xff\xff", [(ANCHORS_HEADER, bytes(20)), (SOURCE_HEADER, b"lines/default")], "bad-payload"),
        (None, [(SOURCE_HEADER, b"lines/default")], "no-payload"),
        (ONE, [(ANCHORS_HEADER, bytes(19)), (SOURCE_HEADER, b"lines/default")], "ragged-anchors"),
        (ONE, [(ANCHORS_HEADER, bytes(20)), (SOURCE_HEADER, b"missing/default")], "unknown-source"),
        (ONE, [(SOURCE_HEADER, b"lines/other")], "unknown-source"),
        (ONE, [(SOURCE_HEADER, b"split/default")], "unknown-source"),
        (ONE, None, "no-source"),
        (b"{]", [(SOURCE_HEADER, b"lines/numbers")], "bad-payload"),
    ],
)
def test_a_record_that_cannot_be_read_is_a_dead_letter(payload: bytes | None, headers: Any, reason: str) -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "before", {1: 1})
    bench.raw("split", payload, headers, task=1)
    task.flush()
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    (letter,) = bench.sink.to(".dead-letters")
    assert (letter.value, letter.header["dead-letter.reason"]) == (payload, reason.encode())
    assert letter.headers[: len(headers or ())] == (headers or [])
    has_root = bool(headers) and headers[0] == (ANCHORS_HEADER, bytes(20))
    assert list(bench.sink.failed()) == ([0] if has_root else [])
    assert task.stats.dead_letters == 1
    for batch in bench.sink.to(".acks")[3:]:
        batch.deliver()
    assert task.committable == 1
    letter.deliver()
    task.flush()
    assert task.committable == 2


def test_the_dead_letter_of_a_tuple_of_a_pack_has_its_roots_and_its_edge() -> None:
    class Picky(BasicBolt):
        streams = Split.streams

        def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
            if tuple_["line"] == "bad":
                raise ValueError("no")

    bench, task, _ = rig(Picky, on_exception="dead_letter")
    edges = under_seed([1, (), (2, 3), 4], 5)
    bench.pack("split", [("a",), ("a",), ("bad",), ("bad",)], edges, ("mine", b"x"), task=1)
    task.flush()
    letters = bench.sink.to(".dead-letters")
    assert [edges_in(letter.headers, 1) for letter in letters] == [[edges[2]], [edges[3]]]
    assert [letter.header["mine"] for letter in letters] == [b"x", b"x"]
    assert bench.sink.checksums() == {1: edges[0][1], **edges[2], **edges[3]}


def test_a_dead_letter_that_is_too_large_is_sent_without_its_value() -> None:
    bench, task, _ = rig(holds_back=True)
    bench.raw("split", b"\xff" * 1_000, None, task=1)
    task.flush()
    bench.sink.to(".dead-letters")[0].deliver(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    place = bench.sink.to(".dead-letters")[1]
    assert (place.value, place.header["dead-letter.offset"], task.committable) == (None, b"0", 0)
    place.deliver()
    task.flush()
    assert task.committable == 1
