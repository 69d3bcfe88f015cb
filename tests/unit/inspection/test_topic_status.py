"""The status of a partition, whose lag excludes done offsets behind the committed one, and of a component."""

import pytest
from confluent_kafka import TopicPartition

from inspection.topic_status import PartitionStatus, TopicStatus, TopologyStatus
from tests.manifests import bolt, chained, manifest, spout
from tuple_tree.commit_metadata import Commit
from tuple_tree.done_sets import DoneSet


def committed(done: DoneSet, metadata: str | None = None) -> TopicPartition:
    return TopicPartition("in", 0, done.offset, Commit.of(done).metadata if metadata is None else metadata)


def test_what_is_done_behind_the_committed_offset_is_no_lag() -> None:
    commit = committed(DoneSet(10, [(11, 300), (302, 310)], failures={10: 7, 300: 1}))
    found = PartitionStatus.of(0, 0, 320, commit, 10)
    assert (found.committed, found.lag) == (10, 13), "10, 300, 301, and ten that are not done behind 310"
    assert (found.done_ahead, found.open_ahead, found.open_runs, found.failures) == (297, 3, 2, 7)


def test_with_done_offsets_behind_an_open_one_it_is_unknown_where_the_lag_is() -> None:
    """A transaction marker may follow them: a read from the end of the lag on would not find the open record."""
    for end, done, undone_from in ((15, DoneSet(10, [(11, 14)]), None), (15, DoneSet(10), 10), (10, DoneSet(10), None)):
        assert PartitionStatus.of(0, 0, end, committed(done), 10).undone_from == undone_from


@pytest.mark.parametrize("metadata", ["", "by hand", "1:attempt=3", "2:attempt=3;done=AQ"])
def test_metadata_of_others_and_of_other_versions_has_nothing_behind_the_offset(metadata: str) -> None:
    found = PartitionStatus.of(0, 0, 320, committed(DoneSet(10), metadata), 10)
    assert (found.lag, found.done_ahead, found.open_ahead) == (310, 0, 0)


def test_a_group_without_commits_may_begin_at_the_beginning() -> None:
    assert PartitionStatus.of(0, 5, 320, None, 5) == PartitionStatus(0, 5, 320, None, 315)
    assert PartitionStatus.of(0, 5, 320, None, None) == PartitionStatus(0, 5, 320, None, None)


def test_a_chained_bolt_has_the_processes_of_its_head_and_no_lag() -> None:
    inbox = TopicStatus("words.tuples.b", 1, "words.b", (PartitionStatus(0, 0, 9, 2, 7),))
    made = manifest(spout("a"), bolt("b", "a", streams=spout("a").streams), chained("c", "b"))
    status = TopologyStatus(made, (inbox,), {"words.a": 1, "words.b": 3})
    assert [status.of_component(name) for name in "abc"] == [(1, None), (3, 7), (3, None)]
    assert status.lag == 7
