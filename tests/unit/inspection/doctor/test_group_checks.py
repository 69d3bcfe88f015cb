"""Who works for a topology, and whether they keep up."""

from dataclasses import replace

import pytest

from inspection.doctor import Backlog, TopologyFacts
from inspection.doctor.group_checks import check_ackers, check_backlogs, check_groups, check_idle
from tests.unit.inspection.doctor.cases import backlog, manifest, told, topology


def with_members(facts: TopologyFacts | None = None, **members: int | None) -> TopologyFacts:
    facts = facts or topology()
    return replace(facts, members={**facts.members, **{f"words.{name}": count for name, count in members.items()}})


def with_backlogs(*backlogs: Backlog, facts: TopologyFacts | None = None) -> TopologyFacts:
    return replace(facts or topology(), backlogs=backlogs)


def source(**changed: int) -> Backlog:
    """Of a topic that the spout reads."""
    return replace(backlog("lines"), topic="orders", **changed)  # type: ignore[arg-type]


def test_a_component_without_a_process() -> None:
    (finding,) = check_groups(with_members(split=0))
    assert told([finding]) == [("problem", "groups", "words.split")]
    assert "20 records wait for it" in finding.found
    assert "--component split" in finding.remedy
    assert list(check_groups(topology())) == []


def test_a_topology_that_does_not_run_is_one_warning() -> None:
    idle = with_members(lines=0, split=0)
    assert list(check_groups(idle)) == []
    assert list(check_ackers(idle)) == []
    (finding,) = check_idle(idle)
    assert told([finding]) == [("warning", "groups", "words")]
    assert list(check_idle(topology())) == []


def test_groups_that_may_not_be_described_are_not_taken_for_empty() -> None:
    unknown = with_members(lines=0, split=None)
    assert list(check_idle(unknown)) == []
    assert told(list(check_groups(unknown))) == [("note", "groups", "words.split")]


def test_spouts_without_ackers() -> None:
    assert told(list(check_ackers(with_members(acker=0)))) == [("problem", "ackers", "words")]
    assert list(check_ackers(with_members(acker=None))) == []
    assert list(check_ackers(topology(manifest(guarantee="at_most_once")))) == []


def test_spark_jobs_join_no_group() -> None:
    spark = with_members(topology(manifest(external=True)), lines=0, split=0)
    assert list(check_groups(spark)) == []
    assert list(check_idle(spark)) == []
    assert list(check_ackers(spark)) == []
    assert told(list(check_ackers(with_members(spark, acker=0)))) == [("warning", "ackers", "words")]


@pytest.mark.parametrize(("after", "is_told"), [(3_000, False), (3_001, True)])
def test_a_lag_that_takes_longer_than_the_message_timeout(after: int, *, is_told: bool) -> None:
    """200 records in 2 s, and a timeout of 30 s."""
    found = list(check_backlogs(with_backlogs(backlog(after=after))))
    assert told(found) == ([("problem", "lag", "words.split")] if is_told else [])
    assert all("it needs 30 s for them, but their trees time out after 30 s" in each.found for each in found)
    assert all(each.found.endswith("it grows.") for each in found)


def test_ackers_that_lag_fail_no_tree() -> None:
    assert told(list(check_backlogs(with_backlogs(backlog("acker", "acks", after=10_000))))) == [
        ("warning", "lag", "words.acker")
    ]


@pytest.mark.parametrize(
    ("changed", "is_told"),
    [
        ({"after": 3_001}, True),
        ({"after": 3_000}, False),
        ({"after": 3_001, "before": 3_001}, False),
        ({"done": 0}, False),
    ],
)
def test_a_spout_that_falls_behind_its_source(changed: dict[str, int], *, is_told: bool) -> None:
    """Its oldest open tree may hold it for a while, and a lag that shrinks is being worked off."""
    found = list(check_backlogs(with_backlogs(source(**changed))))
    assert told(found) == ([("warning", "lag", "words.lines")] if is_told else [])
    assert all("3,001 messages of orders, partition 0, before it and does 100 a second" in each.found for each in found)


def test_what_waits_in_the_source_of_a_spout_that_does_not_run_is_counted() -> None:
    (finding,) = check_groups(with_members(with_backlogs(source(after=70)), lines=0))
    assert "no process runs spout lines" in finding.found
    assert "70 records wait for it" in finding.found


def test_a_partition_that_does_not_go_on() -> None:
    (finding,) = check_backlogs(with_backlogs(backlog(done=0)))
    assert told([finding]) == [("warning", "lag", "words.split")]
    assert "has done nothing of words.tuples.split, partition 0, in 2.0 s, though 20 records wait" in finding.found
    assert finding.remedy.endswith("Whether it forgot to ack one: acker trace --oldest 1 --topology words.")


@pytest.mark.parametrize(
    "fine",
    [
        backlog(done=0, before=0, after=3),
        backlog(done=0, before=1, after=1, is_waiting=False),
        backlog(done=0, before=10, after=0),
    ],
)
def test_what_has_just_come_and_marks_of_transactions_are_no_lag(fine: Backlog) -> None:
    assert list(check_backlogs(with_backlogs(fine))) == []


def test_without_members_or_trees_nothing_is_said_of_time_outs() -> None:
    late = backlog(after=1_000_000)
    assert list(check_backlogs(with_backlogs(late, facts=with_members(split=0)))) == []
    untracked = topology(manifest(guarantee="at_most_once"))
    assert list(check_backlogs(with_backlogs(late, facts=untracked))) == []
