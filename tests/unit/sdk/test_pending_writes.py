"""`OutputCollector.write`: a tuple is acked when all records that were written for it are delivered."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
from confluent_kafka import KafkaError

from spout_sdk import (
    Bolt,
    OutputCollector,
    TaskContext,
    Tuple,
    TupleAlreadyDoneError,
    declare,
)
from tests.unit.sdk.bolt_rig import Manual, feed, rig
from tests.unit.sdk.memory import MemorySink, Sent
from tuple_tree.manifest import Guarantee

NOT_DELIVERED = KafkaError(KafkaError._MSG_TIMED_OUT)


class Twice(Bolt):
    streams = (declare({"word": str}),)

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tuple_: Tuple) -> None:
        for topic in ("one", "two"):
            self.collector.write(tuple_, topic, tuple_["line"].encode())


def written(sink: MemorySink, topic: str) -> list[Sent]:
    return [sent for sent in [*sink.tuples, *sink.reported] if sent.topic == topic]


def test_a_tree_fails_if_its_second_record_is_not_delivered() -> None:
    bench, task, _ = rig(Twice, holds_back=True)
    feed(bench, task, "a", {1: 1})
    feed(bench, task, "b", {2: 2})
    for sent in written(bench.sink, "one"):
        sent.deliver()
        task.flush()
    assert not bench.sink.checksums()
    first, second = written(bench.sink, "two")
    first.deliver(NOT_DELIVERED)
    second.deliver()
    task.flush()
    assert bench.sink.checksums() == {2: 2}
    assert list(bench.sink.failed()) == [1]
    assert bench.counters.undelivered == 1


def test_a_tree_fails_once_if_its_first_record_is_not_delivered() -> None:
    bench, task, _ = rig(Twice, holds_back=True)
    feed(bench, task, "a", {1: 1})
    written(bench.sink, "one")[0].deliver(NOT_DELIVERED)
    task.flush()
    written(bench.sink, "two")[0].deliver()
    task.flush()
    assert (bench.sink.checksums(), list(bench.sink.failed())) == ({}, [1])
    assert bench.counters.failed["failed"] == 1


@pytest.mark.parametrize("guarantee", get_args(Guarantee))
def test_a_record_that_is_delivered_before_the_next_is_sent_does_not_ack(guarantee: Guarantee) -> None:
    """A sink reports while it waits for room, and with `exactly_once` at once."""
    bench, task, _ = rig(Twice, guarantee=guarantee)
    edges = {} if guarantee == "at_most_once" else {1: 1}
    feed(bench, task, "a", edges)
    assert [len(written(bench.sink, topic)) for topic in ("one", "two")] == [1, 1]
    assert bench.counters.acked == 0
    task.tick(bench.clock())
    assert (bench.counters.acked, task.open_inputs) == (1, 1)
    task.flush()
    assert (bench.sink.checksums(), task.open_inputs) == (edges, 0)


def test_an_ack_waits_for_the_records_of_its_tuple() -> None:
    bench, task, bolt = rig(holds_back=True)
    for line, number in (("a", 1), ("b", 2)):
        feed(bench, task, line, {number: number})
        tuple_ = bolt.tuples[-1]
        bolt.collector.write(tuple_, "one", b"")
        bolt.collector.ack(tuple_)
        with pytest.raises(TupleAlreadyDoneError, match="cannot ack the tuple"):
            bolt.collector.ack(tuple_)
    task.flush()
    assert not bench.sink.checksums()
    first, second = written(bench.sink, "one")
    first.deliver()
    second.deliver(NOT_DELIVERED)
    task.flush()
    assert (bench.sink.checksums(), list(bench.sink.failed())) == ({1: 1}, [2])


def _after_its_ack(bolt: Manual, deliver: Callable[[], None]) -> None:
    bolt.collector.ack(bolt.tuples[0])


def _after_its_delivery(bolt: Manual, deliver: Callable[[], None]) -> None:
    deliver()


@pytest.mark.parametrize("how", [_after_its_ack, _after_its_delivery])
def test_a_record_that_is_written_after_the_ack_fails_the_tree(how: Callable[[Manual, Any], None]) -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "a", {1: 1})
    bolt.collector.write(bolt.tuples[0], "one", b"")

    def deliver() -> None:
        written(bench.sink, "one")[0].deliver()
        task.tick(bench.clock())

    how(bolt, deliver)
    with pytest.raises(TupleAlreadyDoneError, match="cannot write a record for the tuple"):
        bolt.collector.write(bolt.tuples[0], "two", b"")
    deliver()
    task.flush()
    assert not written(bench.sink, "two")
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
    written(bench.sink, "one")[0].deliver()
    task.flush()
    assert (bench.sink.checksums(), bench.sink.failed(), bench.sink.to(".dead-letters")) == ({1: 1}, {}, [])


def test_a_tuple_whose_ack_waits_for_records_cannot_be_failed() -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "a", {1: 1})
    bolt.collector.write(bolt.tuples[0], "one", b"")
    bolt.collector.ack(bolt.tuples[0])
    with pytest.raises(TupleAlreadyDoneError, match="cannot fail the tuple"):
        bolt.collector.fail(bolt.tuples[0])


def test_records_of_a_tuple_that_has_failed_change_nothing() -> None:
    bench, task, bolt = rig(holds_back=True)
    feed(bench, task, "a", {1: 1})
    bolt.collector.write(bolt.tuples[0], "one", b"")
    bolt.collector.fail(bolt.tuples[0], "no")
    written(bench.sink, "one")[0].deliver()
    task.flush()
    assert (bench.sink.checksums(), bench.sink.failed()) == ({}, {1: "no"})


def test_records_may_be_written_by_later_calls_for_several_inputs_at_a_time() -> None:
    bench, task, bolt = rig(holds_back=True)
    for line, number in (("a", 1), ("b", 2)):
        feed(bench, task, line, {number: number})
        for tuple_ in bolt.tuples:
            bolt.collector.write(tuple_, "one", b"")
    first, of_first, second = written(bench.sink, "one")
    first.deliver()
    second.deliver()
    task.flush()
    assert bench.sink.checksums() == {2: 2}
    of_first.deliver()
    task.flush()
    assert bench.sink.checksums() == {1: 1, 2: 2}


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
    for topic in ("one", "two"):
        written(bench.sink, topic)[0].deliver()
    task.flush()
    assert not bench.sink.checksums()
    bench.sink.to(".dead-letters")[0].deliver()
    task.flush()
    assert bench.sink.checksums() == {1: 1}


def test_a_record_that_the_client_refuses_fails_an_untracked_tuple(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, bolt = rig(guarantee="at_most_once")

    def refuse(*record: Any) -> None:
        record[-1](KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)

    bench.sink.send_record = refuse  # type: ignore[method-assign]
    feed(bench, task, "a")
    bolt.collector.write(bolt.tuples[0], "one", b"")
    task.flush()
    assert (bench.counters.acked, bench.counters.failed["failed"]) == (0, 1)
    assert "MSG_SIZE_TOO_LARGE" in caplog.text
