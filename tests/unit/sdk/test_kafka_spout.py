"""A Kafka spout's task: committed offsets with each guarantee, its partitions, and its first offsets."""

from typing import Any

import pytest

from spout_sdk.errors import TopicsError
from tests.unit.sdk.kafka_spout_rig import Rig, filled, notice
from tests.unit.sdk.memory_source import MemoryTopics
from tuple_tree.done_sets import DoneSet
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_partition import SourcePartition


def test_the_end_behind_the_marker_of_a_transaction_is_committed() -> None:
    rig = Rig(filled(0, 2))
    rig.topics.markers[SourcePartition("source", 0)] = 1
    rig.work()
    rig.work(2)
    assert rig.topics.committed() == 0
    rig.notify(2)
    rig.work(2)
    assert rig.topics.committed() == 0
    rig.notify(0)
    rig.work(2)
    assert rig.topics.committed() == 4
    rig.topics.fill("source", 0, [4, 5])
    rig.work()
    assert rig.offsets()[-2:] == [4, 5]


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_offsets_of_an_idle_partition_are_committed_again_before_the_broker_deletes_them(guarantee: Any) -> None:
    rig = Rig(filled(0, 1), guarantee=guarantee)
    rig.work()
    if guarantee == "at_least_once":
        rig.notify(0, 1)
    rig.work(2)
    at = SourcePartition("source", 0)
    before = rig.topics.commits.pop(at)
    assert before.offset == 2
    rig.work(3_000)
    assert at not in rig.topics.commits
    rig.work(700)
    assert rig.topics.commits[at] == before


def test_messages_of_a_topic_that_was_created_again_have_other_roots() -> None:
    """The tree of an old message is still open: its outcome is not that of the new message at the same position."""
    topics = filled(0, 1)
    rig = Rig(topics)
    rig.work()
    old = rig.roots()
    topics.create_again()
    topics.fill("source", 0, range(2))
    rig.restart()
    rig.work()
    new = rig.roots()
    assert len({*old, *new}) == 4
    rig.task.handle(notice(old))
    rig.work(1.5)
    assert topics.committed() == 0
    rig.task.handle(notice(new))
    rig.work(1.5)
    assert topics.committed() == 2


def test_at_most_once_commits_before_it_emits() -> None:
    topics = filled(*range(20))
    rig = Rig(topics, guarantee="at_most_once")
    rig.task.tick(rig.clock())
    rig.task.emit(5)
    assert [values for (values,) in rig.emitted()] == [f"source/0@{n}" for n in range(5)]
    assert topics.committed() == 20
    assert (rig.task.pending, rig.bench.sink.batches) == (0, [])
    rig.stop()
    assert topics.committed() == 5, "a clean end loses no message"
    rig.restart()
    rig.work()
    assert len(rig.emitted()) == 15
    topics.refuses_commits = True
    topics.fill("source", 0, [20, 21])
    rig.work()
    assert rig.emitted() == []
    topics.refuses_commits = False
    rig.work(2)
    assert (len(rig.emitted()), topics.committed()) == (2, 22)


def test_partitions_go_round_the_tasks_and_growth_moves_none() -> None:
    def owned(task: int) -> set[SourcePartition]:
        rig = Rig(topics, task=task, tasks=2)
        rig.work()
        return set(rig.source.positions)

    topics = MemoryTopics(a=3, b=3)
    before = [owned(0), owned(1)]
    assert before[0] | before[1] == set(topics.logs)
    assert {len(each) for each in before} == {3}
    topics.grow("a", 7)
    assert before[0] <= owned(0)
    assert before[1] <= owned(1)


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


def test_the_spout_begins_after_its_first_commit() -> None:
    topics = filled(0)
    topics.is_down = topics.refuses_commits = True
    rig = Rig(topics)
    rig.work()
    topics.is_down = False
    for seconds in (0.5, 1, 5):
        rig.work(seconds)
        assert rig.offsets() == []
    topics.refuses_commits = False
    rig.work(5)
    assert rig.offsets() == [0]


@pytest.mark.parametrize(
    ("strategy", "begins"),
    [
        # Without a commit, after one of another program, and after one of a topology's.
        ("uncommitted_earliest", (10, 12, 12)),
        ("uncommitted_latest", (15, 12, 12)),
        ("earliest", (10, 10, 12)),
        ("latest", (15, 15, 12)),
    ],
)
def test_where_the_first_poll_begins(strategy: Any, begins: tuple[int, ...]) -> None:
    at = SourcePartition("source", 0)
    for committed, begin in zip((None, SourceCommit(DoneSet(12)), SourceCommit(DoneSet(12), 8)), begins, strict=True):
        topics = filled(*range(10, 15))
        topics.first[at] = 10
        if committed is not None:
            topics.commits[at] = committed
        rig = Rig(topics, first_poll=strategy)
        rig.work()
        assert rig.offsets() == list(range(begin, 15))
        # Where it begins is committed, so that a crash does not move it.
        assert topics.commits[at].offset == begin


def test_messages_out_of_range_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    topics = filled(10)
    topics.delete_before("source", 0, 10)
    topics.commits[SourcePartition("source", 0)] = SourceCommit(DoneSet(4), 4)
    rig = Rig(topics)
    rig.work()
    assert "up to 6 messages of source[0], from offset 4 on, were deleted before they were read" in caplog.text
    topics.delete_before("source", 0, 30)
    topics.fill("source", 0, [30])
    rig.work()
    assert rig.offsets() == [10, 30]
    assert "up to 19 messages of source[0], from offset 11 on" in caplog.text


def test_topics_with_an_invalid_position_are_rejected() -> None:
    topics = filled(0, 1)
    topics.commits[SourcePartition("source", 0)] = SourceCommit(DoneSet(50), 4)
    with pytest.raises(TopicsError, match=r"source\[0\] ends at offset 2, before offset 50"):
        Rig(topics).work()
    # What is done behind the offset, too: messages at these offsets are others now.
    topics.commits[SourcePartition("source", 0)] = SourceCommit(DoneSet(1, [(2, 9)]), 4)
    with pytest.raises(TopicsError, match=r"source\[0\] ends at offset 2, before offset 9"):
        Rig(topics).work()
    with pytest.raises(TopicsError, match=r"b has partition 2048, .* have room for 2048 of each of 2 topics"):
        Rig(MemoryTopics(a=1, b=2_049)).work()
