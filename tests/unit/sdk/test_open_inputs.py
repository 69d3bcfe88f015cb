"""Inputs that stay open: what is done around them is committed, and nothing that is done happens twice."""

from typing import Any

import pytest

from spout_sdk import TaskContext, Tuple, declare
from spout_sdk.arrow import ArrowBolt, ArrowCollector
from tests.components import ByHand
from tests.packs import anchor_headers, packed, under_seed
from tests.unit.sdk.bench import Bench, BenchTask, Lines, bench_of, rig
from tuple_tree.anchors import SOURCE_HEADER
from tuple_tree.commit_metadata import Commit
from tuple_tree.done_sets import DoneSet

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])


class Collects(ByHand):
    """Holds its inputs until one says go; then emits and acks for all at once."""

    streams = (declare({"word": str}), declare(["raw"], name="raw", codec="bytes"))

    def execute(self, tuple_: Tuple) -> None:
        match tuple_["line"]:
            case "fail":
                self.collector.fail(tuple_, "no use")
            case "raise":
                raise ValueError("a bad line")
            case line:
                self.held.append(tuple_)
                if line == "go":
                    self.go()

    def go(self) -> None:
        held, self.held = self.held, []
        for tuple_ in held:
            self.collector.emit((tuple_["line"],), anchors=tuple_)
        self.collector.ack_all(held)


def pack(bench: Bench, roots: dict[int, str], task: int = 1) -> None:
    """Appends a record of a line for each root; it cannot be read if one is `unreadable`."""
    value = packed(Lines.streams[0], *((line,) for line in roots.values())).replace(b"unreadable", b"\xff" * 10)
    bench.raw("split", value, [*anchor_headers(under_seed(roots)), (SOURCE_HEADER, b"lines/default")], task=task)


def dead_letters(bench: Bench) -> int:
    return len(bench.sink.to(".dead-letters"))


def outputs(bench: Bench) -> int:
    """How many tuples are committed for the next bolt."""
    return len(bench.cluster.records("words.tuples.count"))


def done(task: BenchTask) -> Commit:
    return Commit.of(task.done)


@pytest.mark.parametrize("line", ["fail", "raise", "unreadable"])
def test_a_failure_is_committed_although_an_older_input_is_held(line: str) -> None:
    bench, task, _ = rig(Collects, guarantee="exactly_once")
    for root, each in enumerate(("a", line, "b"), 1):
        pack(bench, {root: each})
    expected = DoneSet(0, [(1, 2)])
    if line != "unreadable":  # one tuple of a record that cannot be read makes all of it unreadable
        pack(bench, {4: "a", 5: line, 6: "b"})
        expected = DoneSet(0, [(1, 2)], {3: [(1, 2)]})
    assert done(task) == Commit.of(expected)
    assert bench.sink.failed().keys() == ({2} if line == "unreadable" else {2, 5})
    assert (dead_letters(bench), outputs(bench)) == (line == "unreadable", 0)


def test_a_dead_letter_is_done_when_it_is_delivered() -> None:
    bench, task, _ = rig(Collects, on_exception="dead_letter")
    bench.sink.holds_back = True
    for root, line in enumerate(("a", "raise", "unreadable"), 1):
        pack(bench, {root: line})
    assert (done(task), dead_letters(bench)) == (Commit(0, ""), 2)
    for _ in range(2):  # dead letters, and then the acks
        bench.sink.deliver_all()
        task.flush()
    bench.sink.deliver_all()
    assert done(task) == Commit.of(DoneSet(0, [(1, 3)]))


def test_acks_of_tuples_whose_record_is_open_are_committed_when_they_are_delivered() -> None:
    bench, task, bolt = rig(Collects)
    pack(bench, dict.fromkeys(range(6), "a"))
    task.flush()
    bench.sink.holds_back = True
    bolt.collector.ack_all(bolt.held[2:4])
    assert done(task) == Commit(0, "")
    before = [*bench.sink.all]
    bolt.collector.ack(bolt.held[0])
    task.flush()
    for sent in before:
        sent.deliver()
    assert done(task) == Commit.of(DoneSet(0, tuples={0: [(2, 4)]})), "the ack of the first is not delivered"
    bench.sink.deliver_all()
    assert done(task) == Commit.of(DoneSet(0, tuples={0: [(0, 1), (2, 4)]}))


class Columns(ArrowBolt):
    """Notes its rows."""

    streams = Collects.streams[:1]

    def prepare(self, context: TaskContext) -> None:
        self.lines: list[str] = []

    def execute_batch(self, batch: Any, collector: ArrowCollector) -> None:
        self.lines += batch["line"].to_pylist()


@GUARANTEES
@pytest.mark.parametrize("columns", [False, True])
def test_what_is_done_is_not_executed_again(columns: bool, guarantee: Any) -> None:
    bench, task, _ = bench_of(Columns, guarantee=guarantee) if columns else rig(Collects, guarantee=guarantee)
    known = DoneSet(0, [(1, 2)], {0: [(0, 2), (3, 4)]})
    task.continue_from(known)
    assert done(task) == Commit.of(known)
    for roots in (range(5), range(5, 6), range(6, 7)):
        pack(bench, {root: f"line {root}" for root in roots}, task.number)
        assert done(task) == Commit.of(known)
    executed = task.bolt.lines if columns else [each["line"] for each in task.bolt.held]
    assert executed == ["line 2", "line 4", "line 6"]
    if not columns:
        task.bolt.collector.ack_all(task.bolt.held[:2])
        assert done(task) == Commit(2, "")


def test_what_another_owner_has_done_is_in_each_commit_until_its_record_is_done() -> None:
    """Whenever the record is read again."""
    known = DoneSet(0, tuples={0: [(0, 1)]})
    for tenths in range(11):
        bench, task, _ = rig(Collects)
        task.continue_from(known)
        bench.advance(1 + tenths / 10)
        pack(bench, {0: "a", 1: "b"})
        for _ in range(11):
            bench.advance(0.1)
            assert Commit.of(task.committed) == Commit.of(known)


@pytest.mark.parametrize("line", ["go", "unreadable"])
def test_a_set_that_does_not_fit_a_record_leaves_all_of_it_open(line: str) -> None:
    bench, task, _ = rig(Collects)
    task.continue_from(DoneSet(0, tuples={0: [(0, 1), (3, 8)]}))
    pack(bench, {1: line})
    assert done(task) == Commit(1, "")


@pytest.mark.parametrize("seconds", [0.0025, 0.3, 1.5])
def test_tuples_of_an_open_record_are_committed_however_seldom_a_process_ticks(seconds: float) -> None:
    bench, task, bolt = rig(Collects)
    pack(bench, dict.fromkeys(range(6), "a"))
    task.flush()
    bolt.collector.ack(bolt.held[0])
    for _ in range(int(max(2.2, 2.1 * seconds) / seconds)):
        bench.clock.advance(seconds)
        task.flush()
    assert Commit.of(task.committed) == Commit.of(DoneSet(0, tuples={0: [(0, 1)]}))


class Eager(Collects):
    """Emits for an input at once, and without an anchor for another one, and holds both."""

    def execute(self, tuple_: Tuple) -> None:
        if tuple_["line"] in ("anchored", "alone"):
            self.collector.emit(("child",), anchors=tuple_ if tuple_["line"] == "anchored" else ())
        super().execute(tuple_)


@pytest.mark.parametrize("line", ["anchored", "alone"])
def test_what_is_emitted_for_an_open_input_leaves_when_it_is_done(line: str) -> None:
    bench, task, bolt = rig(Eager, guarantee="exactly_once")
    for root, each in enumerate(("a", line, "a"), 1):
        pack(bench, {root: each})
    task.flush()
    first, second, third = bolt.held
    bolt.collector.ack(third)
    assert (done(task), outputs(bench)) == (Commit.of(DoneSet(0, [(2, 3)])), 0), "others are committed"
    bolt.collector.emit(("outside of a call",), anchors=())
    assert (done(task), outputs(bench)) == (Commit.of(DoneSet(0, [(2, 3)])), 1)
    bolt.collector.emit(("another child",), anchors=second)
    bolt.collector.ack(second)
    assert (done(task), outputs(bench)) == (Commit.of(DoneSet(0, [(1, 3)])), 3)
    bolt.collector.fail(first, "no")
    assert (task.committable, outputs(bench)) == (3, 3)


class Writes(Collects):
    def execute(self, tuple_: Tuple) -> None:
        if tuple_["line"] == "raise":
            self.collector.write(tuple_, "one", b"")
        super().execute(tuple_)


@pytest.mark.parametrize("on_exception", ["fail", "dead_letter"])
def test_a_record_leaves_with_the_input_that_it_is_written_for(on_exception: str) -> None:
    bench, task, _ = rig(Writes, guarantee="exactly_once", on_exception=on_exception)
    pack(bench, {1: "a"})
    pack(bench, {2: "raise"})
    assert (task.committable, len(bench.cluster.records("one"))) == (0, 1), "the input that is open has no effect"
    pack(bench, {3: "go"})
    assert (task.committable, len(bench.cluster.records("one"))) == (3, 1)
    assert dead_letters(bench) == (on_exception != "fail")


@pytest.mark.parametrize("shares", ["a tree", "trees", "no tree"])
def test_inputs_that_a_tuple_is_emitted_for_are_done_together(shares: str) -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    roots: list[dict[int, int]] = [{7: 1}, {"a tree": {7: 2}, "trees": {9: 2}, "no tree": {}}[shares], {8: 4}]
    for each in roots:
        bench.record("split", ("a",), each, task=1)
    task.flush()
    first, second, third = bolt.held
    bolt.collector.emit(("joined",), anchors=(first, second))
    bolt.collector.ack(first)
    assert (task.committable, outputs(bench)) == ((1, 1) if shares == "no tree" else (0, 0))
    bolt.collector.emit(("joined",), anchors=(second, third))
    bolt.collector.ack(second)
    bolt.collector.ack(third)
    assert (task.committable, outputs(bench)) == (3, 2)
    emitted = 0
    for sent in bench.sink.to(".count"):
        emitted ^= sent.edges.get(7, 0)
    assert bench.sink.checksums()[7] == emitted ^ (3 if shares == "a tree" else 1)


def test_an_input_that_emits_more_than_may_wait_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Floods(ByHand):
        streams = Collects.streams

        def execute(self, tuple_: Tuple) -> None:
            for _ in range(5_000 if tuple_["line"] == "flood" else 3):
                self.collector.emit(("child",), anchors=tuple_)
            self.collector.ack(tuple_)

    monkeypatch.setattr("spout_sdk.emitting.transactional_outbox.MOST_WAITING", 3_000)
    bench, task, _ = rig(Floods, guarantee="exactly_once")
    for root, line in enumerate(("flood", "a", "a"), 1):
        pack(bench, {root: line})
    assert task.committable == 3
    assert "3,000 tuples and records of open inputs wait" in bench.sink.failed()[1]
    assert outputs(bench) < 5_000


def test_a_failure_of_an_input_that_has_expired_has_no_effect() -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    pack(bench, {1: "a"})
    for _ in range(4):
        task.flush()
        bench.clock.advance(2 * bench.topology.manifest.max_tree_age_ms / 1000)
    pack(bench, {2: "b"})
    task.flush()
    bolt.collector.fail(bolt.held[0], "too late")
    assert (task.committable, bench.sink.failed()) == (1, {})
