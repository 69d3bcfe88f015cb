"""A commit has nothing whose acks are not delivered, and all that another owner has committed."""

from typing import Any
from unittest.mock import Mock

import pytest

from spout_sdk.delivery.delivery_guarantees import AtLeastOnce
from spout_sdk.errors import BrokerError
from spout_sdk.statistics.stats import Counters
from tests.unit.sdk.bolt_rig import rig
from tests.unit.sdk.memory import execute
from tests.unit.sdk.test_open_inputs import Collects, deliver, pack
from tuple_tree.commit_metadata import LARGEST_METADATA, Commit
from tuple_tree.done_sets import DoneSet


def test_tuples_that_are_noted_later_are_not_committed_when_earlier_acks_are_delivered() -> None:
    bench, task, bolt = rig(Collects)
    execute(task, pack(bench, dict.fromkeys(range(6), "a")))
    bench.sink.holds_back = True
    bolt.collector.ack_all(bolt.held[2:4])
    task.note_done()
    earlier = [*bench.sink.reported]
    bolt.collector.ack(bolt.held[0])
    task.note_done()
    for sent in earlier:
        sent.deliver()
        sent.on_delivery = None
    assert task.commit() == Commit.of(DoneSet(0, tuples={0: [(2, 4)]}))
    deliver(bench)
    assert task.commit() == Commit.of(DoneSet(0, tuples={0: [(0, 1), (2, 4)]}))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_what_another_owner_has_done_is_in_each_commit_until_its_record_is_done(guarantee: Any) -> None:
    bench, task, bolt = rig(Collects, guarantee=guarantee)
    committed = Commit.of(DoneSet(0, [(1, 2)], {0: [(0, 1)], 2: [(1, 2)]}))
    task.resume(committed.offset, committed.metadata)
    task.note_done()
    in_transaction = guarantee == "exactly_once"
    assert task.commit(in_transaction=in_transaction) == committed
    for record in (pack(bench, {0: "a", 1: "b"}), pack(bench, {2: "c"}), pack(bench, {3: "d", 4: "e"})):
        execute(task, record)
        assert task.commit(in_transaction=in_transaction) == committed
    bolt.collector.ack(bolt.held[0])
    task.note_done()
    assert task.commit(in_transaction=in_transaction) == Commit.of(DoneSet(2, tuples={2: [(1, 2)]}))
    bolt.collector.ack(bolt.held[1])
    task.note_done()
    assert task.commit(in_transaction=in_transaction) == Commit(3, "")


@pytest.mark.parametrize("line", ["go", "unreadable"])
def test_a_set_that_does_not_fit_a_record_leaves_all_of_it_open(line: str) -> None:
    bench, task, _ = rig(Collects)
    task.resume(0, Commit.of(DoneSet(0, tuples={0: [(0, 1), (3, 8)]})).metadata)
    execute(task, pack(bench, {1: line}))
    task.flush()
    assert task.commit() == Commit(1, "")


def slow(tuples: int) -> tuple[Any, AtLeastOnce, Any]:
    """A bolt that holds the tuples of a record, what commits them, and the process that it commits for."""
    bench, task, bolt = rig(Collects)
    execute(task, pack(bench, dict.fromkeys(range(tuples), "a")))
    process = Mock(metadata_room=LARGEST_METADATA)
    return bolt, AtLeastOnce("split", process, process, {1: task}, Counters()), process


def last_commit(process: Any) -> Any:
    ((_, commit),) = process.commit.call_args.args[0].items()
    return commit


@pytest.mark.parametrize("seconds", [0.0025, 0.3, 1.5])
def test_tuples_of_an_open_record_are_committed_however_seldom_a_slow_bolt_lets_its_process_tick(
    seconds: float,
) -> None:
    bolt, guarantee, process = slow(6)
    guarantee.tick(100.0)
    bolt.collector.ack(bolt.held[0])
    at = 100.0
    while at < 100.0 + max(2.2, 2.1 * seconds):
        at += seconds
        guarantee.tick(at)
    assert last_commit(process) == Commit.of(DoneSet(0, tuples={0: [(0, 1)]}))


def test_a_commit_of_a_slow_bolt_has_all_that_was_acked_before_the_last_one() -> None:
    bolt, guarantee, process = slow(9)
    for each in range(8):
        bolt.collector.ack(bolt.held[each])
        guarantee.tick(100.0 + 1.5 * each)
    assert last_commit(process) == Commit.of(DoneSet(0, tuples={0: [(0, 7)]}))


@pytest.mark.parametrize("shares", ["a tree", "no tree"])
def test_what_is_emitted_for_several_inputs_is_an_effect_of_each(shares: str) -> None:
    bench, task, bolt = rig(Collects, guarantee="exactly_once")
    roots: list[dict[int, int] | None] = [{7: 1}, {7: 2} if shares == "a tree" else None, {8: 4}]
    execute(task, *(bench.record("split", ("a",), each, task=1) for each in roots))
    first, second, other = bolt.held
    bolt.collector.emit(("joined",), anchors=(first, second))
    bolt.collector.ack(first)
    task.flush()
    assert not task.inputs.is_repeatable
    bolt.collector.ack(second)
    if shares == "no tree":
        bolt.collector.ack(other)  # as any other may have been the reason
    task.flush()
    assert task.inputs.is_repeatable
    emitted = 0
    for sent in bench.sink.to(".count"):
        emitted ^= sent.edges.get(7, 0)
    assert bench.sink.checksums()[7] == emitted ^ (3 if shares == "a tree" else 1)


def test_committed_offsets_that_were_not_known_now_and_then_do_not_end_a_process() -> None:
    guarantee = AtLeastOnce("split", Mock(), Mock(), {}, Counters())
    for _ in range(4):
        guarantee.admit([])
        for _ in range(4):
            guarantee.roll_back("the coordinator does not answer")
    with pytest.raises(BrokerError, match="5 times in a row: the coordinator does not answer"):
        guarantee.roll_back("the coordinator does not answer")
