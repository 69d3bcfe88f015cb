"""`OutputCollector.write`: a tuple is acked when all records that were written for it are delivered."""

from typing import get_args

import pytest
from confluent_kafka import KafkaError

from spout_sdk import Tuple
from spout_sdk.errors import TupleAlreadyDoneError
from tests.unit.sdk.bench import Manual, feed, rig
from tests.unit.sdk.sent_records import NOT_DELIVERED, Sent, SentRecords
from tuple_tree.manifest import Guarantee


class Twice(Manual):
    def execute(self, tuple_: Tuple) -> None:
        for topic in ("one", "two"):
            self.collector.write(tuple_, topic, tuple_["line"].encode())


def written(sink: SentRecords) -> list[Sent]:
    return [sent for sent in sink.all if sent.topic in ("one", "two")]


@pytest.mark.parametrize(
    ("script", "acked", "failed"),
    [
        # `w1` writes a record for input 1, `d0` and `u0` report that record 0 is delivered or not.
        ("w1 w1 d0", [], []),
        ("w1 w1 d0 d1", [1], []),
        ("w1 w1 d0 u1", [], [1]),
        ("w1 w1 u0 d1", [], [1]),
        ("w1 w2 a1 a2", [], []),
        ("w1 w2 a1 a2 d0 u1", [1], [2]),
        ("w1 w2 w1 d0 d1", [2], []),
        ("w1 w2 w1 d0 d1 d2", [1, 2], []),
        ("w1 f1 d0", [], [1]),
        ("r1 w1 r1 d0", [], []),
    ],
)
def test_a_tuple_is_acked_when_all_of_its_records_are_delivered(
    script: str, acked: list[int], failed: list[int]
) -> None:
    bench, task, bolt = rig(holds_back=True)
    for number in (1, 2):
        feed(bench, task, "a", {number: number})
    for step in script.split():
        action, number = step[0], int(step[1])
        if action in "du":
            written(bench.sink)[number].deliver(None if action == "d" else NOT_DELIVERED)
            task.flush()
            continue
        tuple_ = bolt.tuples[number - 1]
        match action:
            case "w":
                bolt.collector.write(tuple_, "one", b"")
            case "a":
                bolt.collector.ack(tuple_)
            case "f":
                bolt.collector.fail(tuple_, "no")
            case "r":
                bolt.collector.retry(tuple_, "not yet")
    task.flush()
    assert (bench.sink.checksums(), list(bench.sink.failed())) == ({root: root for root in acked}, failed)
    assert sum(task.stats.failed.values()) == len(failed)
    assert task.stats.undelivered == script.count("u")


@pytest.mark.parametrize("guarantee", get_args(Guarantee))
def test_a_record_that_is_delivered_before_the_next_is_sent_does_not_ack(guarantee: Guarantee) -> None:
    """A producer reports while it waits for room, and with `exactly_once` at once."""
    bench, task, _ = rig(Twice, guarantee=guarantee)
    edges = {} if guarantee == "at_most_once" else {1: 1}
    bench.sink.full_for = {"two"}
    feed(bench, task, "a", edges)
    assert (len(written(bench.sink)), task.stats.acked, task.stats.failed) == (2, 1, {})
    assert (bench.sink.checksums(), task.committable) == (edges, 1)


@pytest.mark.parametrize("first", ["ack", "delivery"])
def test_a_record_that_is_written_after_the_ack_fails_the_tree(first: str) -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "a", {1: 1})
    bolt.collector.write(bolt.tuples[0], "one", b"")
    if first == "ack":
        bolt.collector.ack(bolt.tuples[0])
    else:
        written(bench.sink)[0].deliver()
        task.flush()
    with pytest.raises(TupleAlreadyDoneError, match="cannot write a record for the tuple"):
        bolt.collector.write(bolt.tuples[0], "two", b"")
    written(bench.sink)[0].deliver()
    task.flush()
    assert [sent.topic for sent in written(bench.sink)] == ["one"]
    assert list(bench.sink.failed()) == [1]


class AcksAndRaises(Manual):
    def execute(self, tuple_: Tuple) -> None:
        self.collector.write(tuple_, "one", b"")
        self.collector.ack(tuple_)
        raise ValueError("no")


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_a_tuple_stays_acked_though_the_ack_waits_for_records(on_exception: str) -> None:
    bench, task, _ = rig(AcksAndRaises, holds_back=True, on_exception=on_exception)
    feed(bench, task, "a", {1: 1})
    written(bench.sink)[0].deliver()
    task.flush()
    assert (bench.sink.checksums(), bench.sink.failed(), bench.sink.to(".dead-letters")) == ({1: 1}, {}, [])


@pytest.mark.parametrize("method", ["ack", "fail"])
def test_a_tuple_whose_ack_waits_for_records_has_its_outcome(method: str) -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "a", {1: 1})
    bolt.collector.write(bolt.tuples[0], "one", b"")
    bolt.collector.ack(bolt.tuples[0])
    with pytest.raises(TupleAlreadyDoneError, match=f"cannot {method} the tuple"):
        getattr(bolt.collector, method)(bolt.tuples[0])


def test_a_write_that_raises_sends_nothing_and_is_not_waited_for() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {1: 1})
    with pytest.raises(TypeError):
        bolt.collector.write(bolt.tuples[0], "one", b"", headers=1)
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    assert bench.sink.checksums() == {1: 1}


class Raises(Twice):
    def execute(self, tuple_: Tuple) -> None:
        super().execute(tuple_)
        raise ValueError("no")


def test_a_tuple_is_acked_when_its_dead_letter_and_its_records_are_delivered() -> None:
    bench, task, _ = rig(Raises, holds_back=True, on_exception="dead_letter")
    feed(bench, task, "a", {1: 1})
    for sent in written(bench.sink):
        sent.deliver()
    task.flush()
    assert not any(len(batch.ack_roots) for batch in bench.sink.batches), "only the mark is sent"
    bench.sink.to(".dead-letters")[0].deliver()
    task.flush()
    assert bench.sink.checksums() == {1: 1}


def test_a_record_that_the_client_refuses_fails_an_untracked_tuple(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, bolt = rig(guarantee="at_most_once")
    feed(bench, task, "a")
    bench.sink.refuses = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    bolt.collector.write(bolt.tuples[0], "one", b"")
    task.flush()
    assert (task.stats.acked, task.stats.failed["failed"]) == (0, 1)
    assert "MSG_SIZE_TOO_LARGE" in caplog.text
