"""The commit of a spout: which messages an owner may have left open."""

import pytest

from tuple_tree.done_sets import DoneSet
from tuple_tree.offsets import Runs
from tuple_tree.source_commits import SourceCommit

SET = DoneSet(3, [(5, 7)])
SPARK = "2:notices=8;done="


@pytest.mark.parametrize(
    ("metadata", "open_runs"),
    [
        (SourceCommit(SET, 4, emitted_to=9).made().metadata, [(3, 5), (7, 9)]),
        (SourceCommit(SET, 4, emitted_to=90).made().metadata, [(3, 5), (7, 20)]),
        (SourceCommit(DoneSet(3), 4, begin=3, emitted_to=3).made().metadata, []),
        ("", []),
        ("another program", []),
    ],
)
def test_messages_that_were_emitted_and_are_not_done_are_open(metadata: str, open_runs: Runs) -> None:
    assert SourceCommit.read(3, metadata).open_runs(20) == open_runs


def test_a_commit_of_the_version_before_has_what_is_done_or_has_failed_as_emitted() -> None:
    assert SourceCommit.read(3, "2:attempt=4").open_runs(20) == []
    failed = DoneSet(3, [(5, 7)], failures={3: 1, 9: 2})
    assert SourceCommit.read(3, f"2:attempt=4;done={failed.text}").open_runs(20) == [(3, 5), (7, 10)]


def test_a_driver_in_spark_that_has_not_ended_cleanly_may_have_emitted_everything() -> None:
    assert SourceCommit.read(3, SPARK + SET.text).open_runs(20) == [(3, 5), (7, 20)]
    assert SourceCommit.read(3, f"{SPARK}{SET.text};emitted=9").open_runs(20) == [(3, 5), (7, 9)]
    assert SourceCommit.read(3, "2:notices=8;emitted=3").open_runs(20) == []


def test_what_was_skipped_is_not_processed() -> None:
    commit = SourceCommit(DoneSet(9, [(11, 12)]), 4, begin=6)
    assert SourceCommit.read(9, commit.made().metadata) == commit
    assert commit.processed == DoneSet(0, [(6, 9), (11, 12)])
    assert SourceCommit(DoneSet(6), 4, begin=6).processed.size == 0
