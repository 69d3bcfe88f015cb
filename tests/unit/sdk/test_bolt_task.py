"""A bolt's task, driven record by record without Kafka."""

import logging
import random
from collections.abc import Callable

import numpy as np
import pytest

from spout_sdk import (
    ComponentError,
    OutputCollector,
    Stats,
    TaskContext,
    Tuple,
    TupleAlreadyDoneError,
)
from tests.unit.sdk.bolt_rig import Manual, Split, feed, rig
from tuple_tree.anchors import ANCHORS_HEADER, SOURCE_HEADER
from tuple_tree.streams import payload_codec


def test_a_session_is_opened_before_anything_else() -> None:
    bench, task, _ = rig()
    assert task.committable is None
    opening = bench.sink.all_batches
    assert [batch.opens for batch in opening] == [True] * 3
    assert {(batch.writer, batch.sequence) for batch in opening} == {("split/1", 0)}
    assert len({batch.session for batch in opening}) == 1


def test_a_tuple_shows_its_values_and_where_it_lies() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "first")
    feed(bench, task, "a line", {7: 9, 8: 10})
    tuple_: Tuple = bolt.tuples[1]
    assert (tuple_["line"], tuple_[0], tuple_.values, list(tuple_), len(tuple_)) == (
        "a line",
        "a line",
        ("a line",),
        ["a line"],
        1,
    )
    assert (tuple_.component, tuple_.stream, tuple_.fields) == ("lines", "default", ("line",))
    assert (tuple_.topic, tuple_.partition, tuple_.offset) == ("words.tuples.split", 1, 1)
    assert tuple_.timestamp_ms == 1_700_000_000_000
    assert tuple_.key is None
    assert (tuple_.roots, tuple_.is_tracked, bolt.tuples[0].is_tracked) == ((7, 8), True, False)
    assert repr(tuple_) == "<Tuple lines/default words.tuples.split[1]@1 line='a line'>"
    with pytest.raises(KeyError, match="has no field 'word': it has line"):
        tuple_["word"]


def test_an_anchored_tuple_carries_root_edge_and_source_and_nothing_else() -> None:
    bench, task, bolt = rig(counts=2)
    feed(bench, task, "a line", {7: 9})
    bolt.collector.emit(("a",), bolt.tuples[0])
    first, second = bench.sink.tuples
    assert [name for name, _ in first.headers] == [ANCHORS_HEADER, SOURCE_HEADER]
    assert first.header[SOURCE_HEADER] == b"split/default"
    assert (first.topic, first.partition, second.partition, first.key) == ("words.tuples.count", 0, 1, None)
    assert first.value == payload_codec(Manual.streams[0]).encode(("a",))
    assert set(first.edges) == set(second.edges) == {7}
    assert first.edges[7] != second.edges[7]
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    (batch,) = bench.sink.batches
    assert batch.ack_roots.tolist() == [7]
    assert batch.ack_vals.tolist() == [9 ^ first.edges[7] ^ second.edges[7]]


def test_an_unanchored_tuple_carries_its_source_only() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a line", {7: 9})
    bolt.collector.emit(["a"])
    (sent,) = bench.sink.tuples
    assert sent.headers == [(SOURCE_HEADER, b"split/default")]
    assert bolt.tuples[0].out == 0


@pytest.mark.parametrize("seed", range(20))
def test_every_tree_of_a_random_graph_completes(seed: int) -> None:
    """Multi-anchoring, shared roots and the same anchor twice: the checksum of each root ends at zero."""
    rng = random.Random(seed)
    bench, task, bolt = rig(counts=2)
    count = bench.bolt("count", 0)
    expected: dict[int, int] = {}
    for _ in range(8):
        roots = rng.sample(range(1, 6), rng.randint(0, 3))
        edges = {root: rng.getrandbits(64) for root in roots}
        for root, edge in edges.items():
            expected[root] = expected.get(root, 0) ^ edge  # what the sender has put in
        feed(bench, task, "x", edges)
    for _ in range(12):
        bolt.collector.emit(("w",), rng.choices(bolt.tuples, k=rng.randint(0, 4)))
    rng.shuffle(bolt.tuples)
    for tuple_ in bolt.tuples:
        bolt.collector.ack(tuple_)
    task.flush()
    before = bench.sink.checksums()
    # The recipients: two tasks, each with edges of its own.
    for sent in bench.sink.tuples:
        for root, edge in sent.edges.items():
            before[root] = before.get(root, 0) ^ edge
    assert {root: val for root, val in before.items() if val} == {root: val for root, val in expected.items() if val}
    assert count.open_inputs == 0


def test_acking_and_failing_twice_raises_and_says_where() -> None:
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
        ("emit anchored to", lambda: collector.emit(("x",), [failed])),
    ]
    for action, attempt in attempts:
        with pytest.raises(TupleAlreadyDoneError, match=f"cannot {action} the tuple at words.tuples.split") as raised:
            attempt()
        assert (raised.value.topic, raised.value.partition) == ("words.tuples.split", 1)
    assert raised.value.offset == 1
    assert bench.sink.tuples == []
    collector.reset_timeout(acked)
    task.flush()
    assert [batch.reset_roots.tolist() for batch in bench.sink.batches] == [[], []]


def test_failing_fails_every_root_with_the_message() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {7: 9, 8: 10})
    bolt.collector.fail(bolt.tuples[0], "no room")
    assert task.committable == 0
    task.flush()
    assert bench.sink.failed() == {7: "no room", 8: "no room"}
    assert bench.counters.failed == {"failed": 1}
    assert task.committable == 1


def test_reset_timeout_names_every_root() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a", {6: 9, 9: 10})
    bolt.collector.reset_timeout(bolt.tuples[0])
    task.flush()
    (batch,) = bench.sink.batches
    assert sorted(batch.reset_roots.tolist()) == [6, 9]


def test_offsets_are_committable_behind_what_is_delivered_only() -> None:
    bench, task, bolt = rig(holds_back=True)
    for offset in range(4):
        feed(bench, task, "a", {3 * offset: 9})
    assert (task.committable, task.open_inputs) == (0, 4)
    for index in (1, 0, 3):
        bolt.collector.ack(bolt.tuples[index])
    task.flush()
    assert task.committable == 0
    bench.sink.reported[-1].deliver()
    assert (task.committable, task.open_inputs) == (2, 1)
    bolt.collector.ack(bolt.tuples[2])
    task.flush()
    bench.sink.reported[-1].deliver()
    assert (task.committable, task.open_inputs) == (4, 0)


def test_untracked_input_is_executed_and_nothing_is_said_about_it() -> None:
    bench, task, bolt = rig()
    feed(bench, task, "a")
    feed(bench, task, "b")
    bolt.collector.emit(("w",), bolt.tuples[0])
    bolt.collector.ack(bolt.tuples[0])
    bolt.collector.fail(bolt.tuples[1], "no")
    bolt.collector.reset_timeout(bolt.tuples[1])
    task.flush()
    assert bench.sink.batches == []
    assert bench.sink.tuples[0].headers == [(SOURCE_HEADER, b"split/default")]
    assert task.committable == 2


def test_with_acking_off_not_even_a_session_is_opened() -> None:
    bench, task, bolt = rig(guarantee="at_most_once")
    feed(bench, task, "a", {7: 9})  # of an earlier life of the topology
    bolt.collector.ack(bolt.tuples[0])
    task.flush()
    task.tick(1.0)
    assert bench.sink.reported == []
    assert (bolt.tuples[0].is_tracked, task.committable, task.failure) == (False, 1, None)


def test_a_basic_bolt_anchors_and_acks_by_itself() -> None:
    bench, task, _ = rig(Split)
    feed(bench, task, "two words", {7: 9})
    task.flush()
    first, second = bench.sink.tuples
    assert bench.sink.checksums() == {7: 9 ^ first.edges[7] ^ second.edges[7]}
    assert (bench.counters.emitted, bench.counters.executed, bench.counters.acked) == (2, 1, 1)
    assert task.committable == 1


def test_an_exception_of_a_basic_bolt_fails_the_tuple_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, _ = rig(Split)
    feed(bench, task, "one bad word", {7: 9, 8: 10})
    task.flush()
    assert bench.sink.failed() == {7: "ValueError: a bad word", 8: "ValueError: a bad word"}
    (logged,) = caplog.records
    assert logged.levelno == logging.ERROR
    assert logged.exc_info is not None
    assert "words.tuples.split[1] offset 0, roots 0000000000000007, 0000000000000008" in logged.getMessage()
    assert task.committable == 1
    feed(bench, task, "fine", {9: 1})
    task.flush()
    assert 9 in bench.sink.checksums()


def test_exceptions_of_a_kind_are_told_of_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, _ = rig(Split)
    caplog.set_level(logging.DEBUG, "spout_sdk.bolt")
    for number in range(5):
        feed(bench, task, "bad", {7 + number: 9})
    bench.clock.advance(1.0)
    feed(bench, task, "bad", {17: 9})
    assert [record.levelname for record in caplog.records] == ["ERROR", *["DEBUG"] * 4, "ERROR"]
    assert caplog.records[-1].getMessage().endswith("; 4 more since the last of this kind that was told of")
    assert all(record.exc_info for record in caplog.records)
    task.flush()
    assert len(bench.sink.failed()) == 6
    assert bench.counters.errors == 6


def test_failing_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, _ = rig(Split)
    feed(bench, task, "quiet", {7: 9})
    task.flush()
    assert bench.sink.failed() == {7: "try later"}
    assert caplog.records == []


class AcksThenRaises(Manual):
    def execute(self, tuple_: Tuple) -> None:
        if tuple_["line"] == "acked":
            self.collector.ack(tuple_)
        raise RuntimeError("after all")


def test_an_exception_of_a_plain_bolt_fails_what_is_not_settled_yet() -> None:
    bench, task, _ = rig(AcksThenRaises)
    feed(bench, task, "acked", {7: 9})
    feed(bench, task, "open", {8: 9})
    task.flush()
    assert bench.sink.checksums() == {7: 9}
    assert bench.sink.failed() == {8: "RuntimeError: after all"}
    assert task.committable == 2


class Broken(Manual):
    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        raise OSError("no disk")


def test_a_bolt_that_cannot_be_prepared_stops_its_process() -> None:
    with pytest.raises(ComponentError, match=r"split/1 stopped: prepare\(\) raised OSError: no disk"):
        rig(Broken)


class Batching(Manual):
    def cleanup(self) -> None:
        for tuple_ in self.tuples:
            self.collector.ack(tuple_)
        raise OSError("disk is gone")


def test_cleanup_may_ack_and_its_exception_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench, task, _ = rig(Batching)
    feed(bench, task, "a", {7: 9})
    task.cleanup()
    task.flush()
    assert "split/1: cleanup() raised" in caplog.text
    assert (bench.sink.checksums(), task.committable) == ({7: 9}, 1)


def test_user_counters_reach_the_stats() -> None:
    bench, _, bolt = rig()
    bolt.context.count("words")
    bolt.context.count("words", 4)
    bolt.context.count("words", np.array([1, 2]).sum())
    assert bench.counters.users == {"words": 8}
    told = Stats.snapshot("split", 1, (1,), 0, bench.counters)
    assert Stats.from_json(told.to_json()).counters == {"words": 8}
    assert (bolt.context.topology, bolt.context.component, bolt.context.task, bolt.context.tasks) == (
        "words",
        "split",
        1,
        2,
    )


def test_a_fail_may_say_an_exception() -> None:
    """Whatever stands there, what was acked beside it is sent."""
    bench, task, bolt = rig(Manual)
    for root in (7, 8, 9):
        feed(bench, task, "a", {root: 9})
    bolt.collector.ack(bolt.tuples[0])
    bolt.collector.fail(bolt.tuples[1], OSError("no disk"))
    bolt.collector.fail(bolt.tuples[2], 404)
    task.flush()
    assert bench.sink.failed() == {8: "OSError: no disk", 9: "404"}
    assert bench.sink.checksums() == {7: 9}
    assert task.committable == 3
