"""A Kafka spout's task: committed offsets with each guarantee, its partitions, and its first offsets."""

from typing import Any

import pytest

from spout_sdk.errors import TopicsError
from spout_sdk.kafka_spout.kafka_source import KafkaSource
from spout_sdk.kafka_spout.source_task import SourceTask
from spout_sdk.testing import MemoryBroker
from tests.unit.sdk.kafka_spout_rig import Rig
from tuple_tree.done_sets import DoneSet
from tuple_tree.source_commits import SourceCommit
from tuple_tree.topics import TopicSpec


def test_the_end_behind_the_marker_of_a_transaction_is_committed() -> None:
    rig = Rig([0, 2])
    rig.fill([3])
    rig.broker.delete("source", 0, 3, 4)
    rig.work()
    rig.work(2)
    assert rig.committed == 0
    rig.notify(2)
    rig.work(2)
    assert rig.committed == 0
    rig.notify(0)
    rig.work(2)
    assert rig.committed == 4
    rig.fill([4, 5])
    rig.work()
    assert rig.offsets()[-2:] == [4, 5]


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_offsets_of_an_idle_partition_are_committed_again_before_the_broker_deletes_them(guarantee: Any) -> None:
    rig = Rig([0, 1], guarantee=guarantee)
    rig.work()
    if guarantee == "at_least_once":
        rig.notify(0, 1)
    rig.work(2)
    before = rig.commit()
    assert before.offset == 2
    rig.set_commit(SourceCommit(DoneSet(1)))
    rig.work(3_000)
    assert rig.committed == 1
    rig.work(700)
    assert rig.commit() == before


def test_messages_of_a_topic_that_was_created_again_have_other_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree of an old message is still open: its outcome is not that of the new message at the same position."""
    rig = Rig([0, 1])
    rig.work()
    old = rig.roots()
    monkeypatch.setattr(KafkaSource, "topic_id", lambda _source, _topic: "another")
    rig = Rig([0, 1])
    rig.work()
    new = rig.roots()
    assert len({*old, *new}) == 4
    rig.handle(old)
    rig.work(1.5)
    assert rig.committed == 0
    rig.handle(new)
    rig.work(1.5)
    assert rig.committed == 2


def test_at_most_once_commits_before_it_emits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceTask, "calls", 1)
    rig = Rig(range(20), guarantee="at_most_once")
    rig.bench.cluster.run_until(lambda: rig.stats.emitted)
    assert (rig.stats.emitted, rig.stats.pending, rig.sink.batches) == (1, 0, [])
    assert rig.committed > 1
    rig.restart(cleanly=True)
    assert [values for (values,) in rig.emitted()] == ["source/0@0"]
    assert rig.committed == 1, "a clean end loses no message"
    rig.work()
    assert len(rig.emitted()) == 19
    rig.refuses_commits = True
    rig.fill([20, 21])
    rig.work()
    assert rig.emitted() == []
    rig.refuses_commits = False
    rig.work(2)
    assert (len(rig.emitted()), rig.committed) == (2, 22)


def test_partitions_go_round_the_tasks_and_growth_moves_none() -> None:
    def owned(task: int, **topics: int) -> set[str]:
        """The first messages of its partitions."""
        rig = Rig(topics=topics, task=task, tasks=2)
        for topic, partitions in topics.items():
            for partition in range(partitions):
                rig.fill([0], partition, topic)
        rig.work()
        return {text for (text,) in rig.emitted()}

    before = [owned(task, a=3, b=3) for task in (0, 1)]
    assert before[0] | before[1] == {f"{topic}/{partition}@0" for topic in "ab" for partition in range(3)}
    assert {len(each) for each in before} == {3}
    for task in (0, 1):
        assert before[task] <= owned(task, a=7, b=3)


def test_a_partition_that_is_added_is_read_from_its_beginning() -> None:
    rig = Rig([0, 1], first_poll="latest")
    rig.work()
    assert rig.offsets() == []
    rig.broker._logs["source"] += MemoryBroker([TopicSpec("more", 1, {})], int)._logs["more"]
    rig.fill([0, 1], partition=1)
    rig.work(31)
    rig.work()
    assert rig.positions() == [(1, 0, 0), (1, 1, 0)]


def test_the_spout_begins_after_its_first_commit() -> None:
    rig = Rig([0])
    rig.is_down = rig.refuses_commits = True
    rig.work()
    rig.is_down = False
    for seconds in (0.5, 1, 5):
        rig.work(seconds)
        assert rig.offsets() == []
    rig.refuses_commits = False
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
    for committed, begin in zip((None, SourceCommit(DoneSet(12)), SourceCommit(DoneSet(12), 8)), begins, strict=True):
        rig = Rig(range(15), first_poll=strategy)
        rig.broker.delete("source", 0, 0, 10)
        if committed is not None:
            rig.set_commit(committed)
        rig.work()
        assert rig.offsets() == list(range(begin, 15))
        # Where it begins is committed, so that a crash does not move it.
        assert rig.committed == begin


def test_messages_out_of_range_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig([10])
    rig.broker.delete("source", 0, 0, 10)
    rig.set_commit(SourceCommit(DoneSet(4), 4))
    rig.work()
    assert "up to 6 messages of source[0], from offset 4 on, were deleted before they were read" in caplog.text
    rig.fill([30])
    rig.broker.delete("source", 0, 0, 30)
    rig.work()
    assert rig.offsets() == [10, 30]
    assert "up to 19 messages of source[0], from offset 11 on" in caplog.text


def test_topics_with_an_invalid_position_are_rejected() -> None:
    # What is done behind the offset, too: messages at these offsets are others now.
    for done, offset in ((DoneSet(50), 50), (DoneSet(1, [(2, 9)]), 9)):
        rig = Rig([0, 1])
        rig.set_commit(SourceCommit(done, 4))
        with pytest.raises(TopicsError, match=rf"source\[0\] ends at offset 2, before offset {offset}"):
            rig.work()
    with pytest.raises(TopicsError, match=r"b has partition 2048, .* have room for 2048 of each of 2 topics"):
        Rig(topics={"a": 1, "b": 2_049}).work()
