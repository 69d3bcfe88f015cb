"""Topics against their manifest."""

from dataclasses import replace

import pytest

from inspection.doctor import PartitionFacts, TopicFacts, TopologyFacts
from inspection.doctor.topic_checks import (
    check_copies,
    check_declared,
    check_leftovers,
    check_retention,
    check_settings,
    check_single_copies,
    check_topics,
)
from tests.unit.inspection.doctor.cases import manifest, told, topics, topology, with_setting, with_topic

ACKS, INBOX, NOTICES = "words.acks", "words.tuples.split", "words.notices.lines"


def test_a_topic_that_is_missing() -> None:
    facts = topology()
    missing = replace(facts, topics={name: each for name, each in facts.topics.items() if name != ACKS})
    (finding,) = check_topics(missing)
    assert told([finding]) == [("problem", "topics", ACKS)]
    assert finding.found == "Topic words.acks does not exist."
    assert "acker topics create" in finding.remedy
    assert list(check_topics(facts)) == []


def test_a_topic_that_may_not_be_seen_is_not_taken_for_missing() -> None:
    hidden = replace(topology(), topics={}, hidden=frozenset(topology().topics))
    assert {(str(each.severity), each.check) for each in check_topics(hidden)} == {("note", "topics")}


def test_another_number_of_partitions() -> None:
    (finding,) = check_topics(with_topic(topology(), INBOX, partitions=(PartitionFacts(0, True, 3, 3),)))
    assert told([finding]) == [("problem", "topics", INBOX)]
    assert "has 1 partitions, but the manifest says 2" in finding.found


def test_an_ack_log_on_the_writers_time() -> None:
    (finding,) = check_settings(with_setting(topology(), ACKS, "message.timestamp.type", "CreateTime"))
    assert told([finding]) == [("problem", "topic-settings", ACKS)]
    assert finding.remedy.endswith("--entity-name words.acks --add-config message.timestamp.type=LogAppendTime")
    assert list(check_settings(topology())) == []


def test_settings_that_may_not_be_asked_for() -> None:
    assert told(list(check_settings(with_topic(topology(), ACKS, config=None)))) == [("note", "topic-settings", ACKS)]


@pytest.mark.parametrize(
    ("topic", "key", "value", "wanted"),
    [
        (ACKS, "retention.ms", "899999", "retention.ms=900000"),
        (ACKS, "retention.bytes", "1000000", "retention.bytes=-1"),
        (INBOX, "retention.ms", "299999", "retention.ms=300000"),
        (NOTICES, "retention.ms", "1000", "retention.ms=300000"),
    ],
)
def test_topics_that_forget_too_early(topic: str, key: str, value: str, wanted: str) -> None:
    (finding,) = check_retention(with_setting(topology(), topic, key, value))
    assert told([finding]) == [("warning", "retention", topic)]
    assert finding.remedy.endswith(wanted)


@pytest.mark.parametrize(("topic", "value"), [(ACKS, "900000"), (INBOX, "300000"), (ACKS, "-1")])
def test_topics_that_are_kept_long_enough(topic: str, value: str) -> None:
    assert list(check_retention(with_setting(topology(), topic, "retention.ms", value))) == []


def test_dead_letters_may_be_kept_as_long_as_one_likes() -> None:
    assert list(check_retention(with_setting(topology(), "words.dead-letters", "retention.ms", "1"))) == []


@pytest.mark.parametrize(
    ("partition", "severity", "said"),
    [
        (PartitionFacts(0, False, 3, 3), "problem", "has no leader: nobody can read or write it (partitions 0 to 2)."),
        (PartitionFacts(0, True, 3, 1), "problem", "fewer than min.insync.replicas=2: nobody can write"),
        (PartitionFacts(0, True, 3, 2), "warning", "has fewer copies up to date than it shall have, 2 of 3"),
        (PartitionFacts(0, True, 1, 1), "problem", "has min.insync.replicas=2, but only 1 copies"),
    ],
)
def test_partitions_that_are_not_well(partition: PartitionFacts, severity: str, said: str) -> None:
    partitions = tuple(replace(partition, number=number) for number in range(3))
    (finding,) = check_copies(with_topic(topology(), ACKS, partitions=partitions))
    assert told([finding]) == [(severity, "copies", ACKS)]
    assert said in finding.found


def of_all(**copies: int) -> TopologyFacts:
    return replace(topology(), topics=topics(manifest(), **copies))


@pytest.mark.parametrize(
    ("copies", "least", "said"),
    [(3, 2, ""), (2, 1, ""), (1, 1, ""), (3, 3, "while one broker is down"), (3, 1, "one broker alone")],
)
def test_how_many_copies_must_have_a_record(copies: int, least: int, said: str) -> None:
    found = list(check_copies(of_all(copies=copies, in_sync=copies, least=least)))
    assert {each.subject for each in found} == (set(topology().topics) if said else set())
    assert all(said in each.found for each in found)


def test_a_leader_that_may_have_missed_records() -> None:
    (finding,) = check_copies(with_setting(topology(), ACKS, "unclean.leader.election.enable", "true"))
    assert told([finding]) == [("warning", "copies", ACKS)]


def test_one_copy_is_fine_where_there_is_one_broker() -> None:
    single = of_all(copies=1, in_sync=1, least=1)
    assert list(check_single_copies(single, 1)) == []
    assert told(list(check_single_copies(single, 3))) == [("warning", "copies", "words")]
    assert list(check_single_copies(topology(), 3)) == []


def test_topics_of_components_that_are_gone() -> None:
    facts = topology()
    for name in ("words.tuples.count", "words.replay.lines", "words.own", "words.notices.old"):
        facts = replace(facts, topics={**facts.topics, name: TopicFacts(name, (), {})})
    assert told(list(check_leftovers(facts))) == [
        ("warning", "leftovers", "words.notices.old"),
        ("warning", "leftovers", "words.tuples.count"),
    ]


def test_the_code_and_what_is_published() -> None:
    assert list(check_declared(replace(topology(), declared=manifest()))) == []
    (finding,) = check_declared(replace(topology(), declared=manifest(tasks=5, max_tree_age_ms=60_000)))
    assert told([finding]) == [("problem", "manifest", "words")]
    assert "max_tree_age_ms is 300000 instead of 60000; component split is another" in finding.found
