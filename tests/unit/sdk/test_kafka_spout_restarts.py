"""A Kafka spout's task with open messages for long, and after restarts: what is done behind them is done once."""

from typing import Final

import pytest

from spout_sdk import RetryPolicy
from spout_sdk.kafka.truncated_commits import LEFT_OUT
from tests.unit.sdk.kafka_spout_rig import Rig, filled, notice
from tuple_tree.commit_metadata import LARGEST_METADATA
from tuple_tree.source_partition import SourcePartition

EACH: Final = 100
"""One in this number of messages fails for ever."""
READ: Final = 500


def restart(rig: Rig) -> None:
    """A clean one."""
    rig.stop()
    rig.restart()


def test_after_a_clean_restart_only_the_open_message_is_emitted_again() -> None:
    rig = Rig(filled(*range(300)))
    rig.work()
    rig.notify(*range(1, 300))
    assert len(rig.offsets()) == 300
    for _ in range(3):
        restart(rig)
        rig.work()
        assert rig.offsets() == [0]
    rig.notify(0)
    restart(rig)
    rig.work()
    assert rig.offsets() == []
    assert rig.topics.committed() == 300


def test_after_a_kill_what_was_acked_since_the_last_commit_is_emitted_again_too() -> None:
    rig = Rig(filled(*range(300)))
    rig.work()
    rig.notify(*range(1, 200))
    rig.work(1)
    rig.notify(*range(200, 250))
    rig.offsets()
    rig.restart()
    rig.work()
    assert rig.offsets() == [0, *range(200, 300)]


def test_failures_count_across_owners_until_a_message_becomes_a_dead_letter() -> None:
    rig = Rig(filled(0, 1), retry=RetryPolicy(initial_delay=60, delay_period=60, max_retries=3))
    attempts = []
    for _ in range(4):
        rig.work()
        attempts += [attempt for _, offset, attempt in rig.positions() if offset == 0]
        rig.fail(0)
        rig.work(2)
        assert rig.offsets() == []
        rig.restart()
    assert rig.letters() == [(b"source/0@0", "retries-exhausted")]
    assert attempts == [0, 4, 8, 12]
    rig.work()
    assert rig.offsets() == [1]


def test_a_message_whose_dead_letter_is_not_delivered_when_its_owner_ends_is_not_attempted_again() -> None:
    rig = Rig(filled(0), retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=0))
    rig.bench.sink.holds_back = True
    rig.work()
    rig.fail(0)
    rig.work(2)
    assert (rig.offsets(), len(rig.letters()), rig.topics.committed()) == ([0], 1, 0)
    rig.restart()
    rig.work(2)
    assert (rig.offsets(), len(rig.letters())) == ([], 2)
    rig.bench.sink.to(".dead-letters")[-1].deliver()
    rig.work(2)
    assert rig.topics.committed() == 1


def test_commits_by_a_tool_have_no_set() -> None:
    rig = Rig(filled(*range(10)))
    rig.work()
    rig.notify(*range(1, 10))
    rig.work(2)
    at = SourcePartition("source", 0)
    rig.topics.commits[at] = type(rig.topics.commits[at]).read(3, "")
    rig.offsets()
    rig.restart()
    rig.work()
    assert rig.offsets() == [*range(3, 10)]


@pytest.mark.parametrize("messages", [2_000, pytest.param(200_000, marks=pytest.mark.exhaustive)])
def test_all_but_the_messages_that_always_fail_are_done_at_full_speed(messages: int) -> None:
    rig = Rig(filled(*range(messages)))
    sink = rig.bench.sink
    acked = turns = 0
    while acked < messages - messages // EACH:
        turns += 1
        rig.task.tick(rig.clock.advance(0.01))
        rig.task.emit(READ)
        rig.task.flush()
        keys = dict(zip(map(rig.root, sink.tuples), rig.task.pending_messages, strict=True))
        sink.tuples.clear()
        sink.reported.clear()
        failed = {root: "no" for root, key in keys.items() if key % EACH == 0}
        rig.task.handle(notice([*(keys.keys() - failed.keys())], failed))
        acked += len(keys) - len(failed)
    assert turns <= 2 * messages / READ, "new messages get half of the calls at least"
    rig.stop()
    commit = rig.topics.commits[SourcePartition("source", 0)]
    assert commit.offset == 0
    assert len(commit.made().metadata) <= LARGEST_METADATA
    left_out = rig.bench.counters.users.get(LEFT_OUT, 0)
    assert sum(end - begin for begin, end in commit.done.runs) + left_out == acked
