"""A Kafka spout's task: what is committed, who reads what, and where it begins; after the cases of Storm's spout."""

from typing import Any

import pytest

from spout_sdk.errors import TopicsError
from spout_sdk.kafka_spout.source import Commit, SourcePartition
from tests.unit.sdk.kafka_spout_rig import Rig, filled, notice
from tests.unit.sdk.memory_source import MemoryTopics

# Offsets


def test_the_acked_prefix_is_committed_whatever_the_order() -> None:
    rig = Rig(filled(0, 1, 2, 5, 6))
    rig.work()
    assert rig.offsets() == [0, 1, 2, 5, 6]
    rig.hear(0, 1, 2, 6)
    rig.work(2)
    assert rig.topics.committed("source") == 3
    rig.hear(5)
    rig.work(2)
    assert rig.topics.committed("source") == 7


def test_nothing_is_committed_as_long_as_the_first_is_open() -> None:
    rig = Rig(filled(*range(10)))
    rig.work()
    rig.hear(*range(1, 10))
    rig.work(2)
    assert rig.topics.committed("source") == 0


def test_a_commit_that_fails_is_said_again() -> None:
    rig = Rig(filled(0, 1))
    rig.work()
    rig.hear(0)
    rig.topics.refuses_commits = True
    rig.work(2)
    assert rig.topics.committed("source") == 0
    rig.topics.refuses_commits = False
    rig.work(2)
    assert rig.topics.committed("source") == 1


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once", "no_guarantee"])
def test_offsets_of_a_quiet_partition_are_committed_again_before_the_broker_forgets_them(mode: Any) -> None:
    rig = Rig(filled(0, 1), mode=mode)
    rig.work()
    if mode == "at_least_once":
        rig.hear(0, 1)
    rig.work(2)
    at = SourcePartition("source", 0)
    before = rig.topics.commits.pop(at)
    assert before.offset == 2
    rig.work(3_000)
    assert at not in rig.topics.commits
    rig.work(700)
    assert rig.topics.commits[at] == before


def test_a_clean_end_commits_at_once() -> None:
    rig = Rig(filled(0, 1, 2))
    rig.work()
    rig.hear(0, 1)
    rig.task.release()
    rig.task.close()
    assert rig.topics.committed("source") == 2
    assert rig.source.is_closed


def test_who_takes_over_goes_on_behind_the_acked_prefix() -> None:
    rig = Rig(filled(*range(6)))
    rig.work()
    rig.hear(0, 1, 3)
    rig.task.release()
    rig.offsets()
    rig.restart()
    rig.work()
    assert rig.offsets() == [2, 3, 4, 5]


def test_outcomes_of_an_earlier_owner_are_ignored() -> None:
    rig = Rig(filled(*range(3)))
    rig.work()
    before = [rig.root(sent) for sent in rig.bench.sink.tuples]
    rig.restart()
    rig.work()
    after = [rig.root(sent) for sent in rig.bench.sink.tuples[3:]]
    assert not set(before) & set(after)
    rig.task.handle(notice(before))
    rig.work(2)
    assert rig.topics.committed("source") == 0
    assert rig.bench.counters.ignored_notices == 3
    rig.hear(0, 1, 2)
    rig.work(2)
    assert rig.topics.committed("source") == 3


# Tasks and partitions


def test_partitions_go_round_the_tasks_and_growth_moves_none() -> None:
    topics = MemoryTopics(a=3, b=3)
    before = [set(_owned(topics, task)) for task in range(2)]
    assert before[0] | before[1] == set(topics.logs)
    assert {len(each) for each in before} == {3}
    topics.grow("a", 7)
    after = [set(_owned(topics, task)) for task in range(2)]
    assert all(old <= new for old, new in zip(before, after, strict=True))


def _owned(topics: MemoryTopics, task: int) -> dict[SourcePartition, int]:
    rig = Rig(topics, task=task, tasks=2)
    rig.work()
    return rig.source.positions


def test_a_partition_that_is_added_is_read_from_its_beginning() -> None:
    topics = filled(0, 1)
    rig = Rig(topics, first_poll="latest")
    rig.work()
    assert rig.offsets() == []
    topics.grow("source", 2)
    topics.fill("source", 1, [0, 1])
    rig.work(31)
    rig.work()
    assert rig.positions() == [(1, 0, 0), (1, 1, 0)]


def test_more_partitions_than_roots_can_tell_apart_are_refused() -> None:
    with pytest.raises(TopicsError, match=r"b has partition 2048, .* tell 2048 partitions apart of each of 2 topics"):
        Rig(MemoryTopics(a=1, b=2_049)).work()


def test_while_nobody_answers_it_waits_and_begins_then() -> None:
    topics = filled(0)
    topics.is_down = True
    rig = Rig(topics)
    rig.work()
    assert rig.offsets() == []
    topics.is_down = False
    rig.work(0.5)
    assert rig.offsets() == [], "it asks again after a second"
    rig.work(1)
    assert rig.offsets() == [0]


def test_nothing_is_emitted_before_it_is_committed_where_it_begins() -> None:
    topics = filled(0)
    topics.refuses_commits = True
    rig = Rig(topics)
    rig.work(5)
    assert rig.offsets() == []
    topics.refuses_commits = False
    rig.work(5)
    assert rig.offsets() == [0]


# First poll


@pytest.mark.parametrize(
    ("strategy", "committed", "start"),
    [
        ("uncommitted_earliest", None, 10),
        ("uncommitted_latest", None, 15),
        ("earliest", None, 10),
        ("latest", None, 15),
        ("uncommitted_earliest", Commit(12), 12),
        ("uncommitted_latest", Commit(12), 12),
        ("earliest", Commit(12), 10),
        ("latest", Commit(12), 15),
        ("earliest", Commit(12, 8), 12),
        ("latest", Commit(12, 8), 12),
    ],
)
def test_where_the_first_poll_begins(strategy: Any, committed: Commit | None, start: int) -> None:
    topics = MemoryTopics(source=1)
    topics.delete_before("source", 0, 10)
    topics.fill("source", 0, range(10, 15))
    at = SourcePartition("source", 0)
    if committed is not None:
        topics.commits[at] = committed
    rig = Rig(topics, first_poll=strategy)
    rig.work()
    assert rig.offsets() == list(range(start, 15))
    assert topics.commits[at].offset == start, "where it begins is committed, so that a crash does not move it"


def test_what_was_deleted_unread_is_told(caplog: pytest.LogCaptureFixture) -> None:
    topics = MemoryTopics(source=1)
    topics.delete_before("source", 0, 10)
    topics.fill("source", 0, [10])
    topics.commits[SourcePartition("source", 0)] = Commit(4, 4)
    rig = Rig(topics)
    rig.work()
    assert rig.offsets() == [10]
    assert "up to 6 messages of source[0], from offset 4 on, were deleted before they were read" in caplog.text
    topics.delete_before("source", 0, 30)
    topics.fill("source", 0, [30])
    rig.work()
    assert rig.offsets() == [30]
    assert "up to 19 messages of source[0], from offset 11 on" in caplog.text


def test_a_topic_that_was_made_anew_is_refused() -> None:
    topics = filled(0, 1)
    topics.commits[SourcePartition("source", 0)] = Commit(50, 4)
    with pytest.raises(TopicsError, match=r"source\[0\] ends at offset 2, before offset 50"):
        Rig(topics).work()
