"""A Kafka spout's task with open messages for long, and after restarts: what is done behind them is done once."""

import pytest

from kafka_clients.group_consumer import GroupConsumer
from spout_sdk import RetryPolicy
from spout_sdk.kafka.truncated_commits import LEFT_OUT
from tests.unit.sdk.kafka_spout_rig import Rig
from tuple_tree.commit_metadata import LARGEST_METADATA
from tuple_tree.done_sets import DoneSet
from tuple_tree.source_commits import SourceCommit


def test_after_a_clean_restart_only_the_open_message_is_emitted_again() -> None:
    rig = Rig(range(300))
    rig.work()
    rig.notify(*range(1, 300))
    assert len(rig.offsets()) == 300
    for _ in range(3):
        rig.restart(cleanly=True)
        rig.work()
        assert rig.offsets() == [0]
    rig.notify(0)
    rig.restart(cleanly=True)
    rig.work()
    assert rig.offsets() == []
    assert rig.committed == 300


def test_after_a_kill_what_was_acked_since_the_last_commit_is_emitted_again_too() -> None:
    rig = Rig(range(300))
    rig.work()
    rig.notify(*range(1, 200))
    rig.work(1)
    rig.notify(*range(200, 250))
    rig.offsets()
    rig.restart()
    rig.work()
    assert rig.offsets() == [0, *range(200, 300)]


def test_failures_count_across_owners_until_a_message_becomes_a_dead_letter() -> None:
    rig = Rig([0, 1], retry=RetryPolicy(initial_delay=60, delay_period=60, max_retries=3))
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
    rig = Rig([0], retry=RetryPolicy(initial_delay=0, delay_period=0, max_retries=0))
    rig.sink.holds_back = True
    rig.work()
    rig.fail(0)
    rig.work(2)
    assert (rig.offsets(), len(rig.letters()), rig.committed) == ([0], 1, 0)
    rig.restart()
    rig.work(2)
    assert (rig.offsets(), len(rig.letters())) == ([], 2)
    rig.sink.to(".dead-letters")[-1].deliver()
    rig.work(2)
    assert rig.committed == 1


def test_commits_by_a_tool_have_no_set() -> None:
    rig = Rig(range(10))
    rig.work()
    rig.notify(*range(1, 10))
    rig.work(2)
    rig.set_commit(SourceCommit(DoneSet(3)))
    rig.offsets()
    rig.restart()
    rig.work()
    assert rig.offsets() == [*range(3, 10)]


@pytest.mark.parametrize("room", [60, LARGEST_METADATA])
def test_all_but_the_messages_that_always_fail_are_done(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupConsumer, "metadata_room", room)
    messages, each = 1_000, 20  # one in `each` messages fails for ever
    rig = Rig(range(messages))
    acked = 0
    while acked < messages - messages // each:
        rig.work(0.01)
        roots = dict.fromkeys(rig.roots(), "no")
        rig.forget_sent()
        failed = {root: roots.pop(root) for root in [*roots] if rig.position(root).offset % each == 0}
        rig.handle(roots, failed)
        acked += len(roots)
    rig.restart(cleanly=True)
    commit = rig.commit()
    assert commit.offset == 0
    assert len(commit.made().metadata) <= room
    left_out = rig.stats.counters.get(LEFT_OUT, 0)
    assert bool(left_out) == (room == 60)
    assert sum(end - begin for begin, end in commit.done.runs) + left_out == acked
