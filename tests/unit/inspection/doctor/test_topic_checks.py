"""Topics against their manifest."""

from dataclasses import replace

import pytest

from inspection.doctor.topic_checks import (
    check_copies,
    check_declared,
    check_leftovers,
    check_outcomes,
    check_retention,
    check_settings,
    check_single_copies,
    check_states,
    check_topics,
    unknown_topics,
)
from tests.manifests import chained, counting, spout
from tests.manifests import manifest as manifest_of
from tests.unit.inspection.doctor.cases import manifest, partitions, summaries, topology, with_setting, with_topic
from tuple_tree.components import OutcomesManifest
from tuple_tree.outcome_records import other_writers
from tuple_tree.state_records import About

ACKS, INBOX, NOTICES = "words.acks", "words.tuples.split", "words.notices.lines"


def test_topics_that_are_missing_or_of_another_size() -> None:
    """Resources without an ACL are a note, and no problem."""
    facts = topology()
    assert [*check_topics(facts), *check_settings(facts)] == []
    hidden = replace(facts, topics={}, hidden=frozenset(facts.topics))
    assert {(str(each.severity), each.check) for each in check_topics(hidden)} == {("note", "topics")}
    settings = {name: config for name, config in facts.configs.items() if name != ACKS}
    assert summaries(list(check_settings(replace(facts, configs=settings)))) == [("note", "topic-settings", ACKS)]
    (fewer,) = check_topics(with_topic(facts, INBOX, partitions(1)))
    assert summaries([fewer]) == [("problem", "topics", INBOX)]
    assert "has 1 partitions, but the manifest has 2" in fewer.found


@pytest.mark.parametrize(
    ("topic", "key", "value", "wanted"),
    [
        (ACKS, "retention.ms", "899999", "retention.ms=900000"),
        (ACKS, "retention.bytes", "1000000", "retention.bytes=-1"),
        (INBOX, "retention.ms", "299999", "retention.ms=300000"),
        (NOTICES, "retention.ms", "1000", "retention.ms=300000"),
        *((topic, "retention.ms", fine, None) for topic, fine in ((ACKS, "900000"), (INBOX, "300000"), (ACKS, "-1"))),
        ("words.dead-letters", "retention.ms", "1", None),
    ],
)
def test_topics_whose_retention_is_too_short(topic: str, key: str, value: str, wanted: str | None) -> None:
    found = list(check_retention(with_setting(topology(), topic, key, value)))
    assert summaries(found) == ([] if wanted is None else [("warning", "retention", topic)])
    assert all(finding.remedy.endswith(wanted or "") for finding in found)


def test_partitions_and_their_copies() -> None:
    for of_acks, severity, message in (
        (partitions(3, has_leader=False), "problem", "has no leader: reads and writes fail (partitions 0 to 2)."),
        (partitions(3, 3, 1), "problem", "fewer than min.insync.replicas=2: writes fail"),
        (partitions(3, 3, 2), "warning", "has fewer copies up to date than replicas, 2 of 3"),
        (partitions(3, 1, 1), "problem", "has min.insync.replicas=2, but only 1 copies"),
    ):
        (finding,) = check_copies(with_topic(topology(), ACKS, of_acks))
        assert summaries([finding]) == [(severity, "copies", ACKS)]
        assert message in finding.found
    for copies, least, message in (
        (3, 2, ""),
        (2, 1, ""),
        (1, 1, ""),
        (3, 3, "while one broker is down"),
        (3, 1, "only one broker has acknowledged"),
    ):
        found = list(check_copies(topology(copies=copies, least=least)))
        assert {each.subject for each in found} == (set(topology().topics) if message else set())
        assert all(message in each.found for each in found)
    unclean = with_setting(topology(), ACKS, "unclean.leader.election.enable", "true")
    assert summaries(list(check_copies(unclean))) == [("warning", "copies", ACKS)]
    single = topology(copies=1, least=1)
    assert summaries(list(check_single_copies(single, 3))) == [("warning", "copies", "words")]
    assert [*check_single_copies(single, 1), *check_single_copies(topology(), 3)] == []


def test_topics_of_removed_components_and_inboxes_of_chained_ones_are_a_warning() -> None:
    facts = topology()
    for name in ("words.tuples.count", "words.replay.lines", "words.own", "words.notices.old"):
        facts = with_topic(facts, name, [])
    leftovers = [("warning", "leftovers", f"words.{name}") for name in ("notices.old", "tuples.count")]
    assert summaries(list(check_leftovers(facts))) == leftovers
    facts = topology(manifest_of(spout("lines"), chained("parse", "lines")))
    assert [*check_topics(facts), *check_leftovers(facts)] == []
    (finding,) = check_leftovers(with_topic(facts, "words.tuples.parse", []))
    assert summaries([finding]) == [("warning", "leftovers", "words.tuples.parse")]
    assert "the inbox that bolt parse had before it was chained to lines" in finding.found


def test_a_topic_that_processes_read_is_not_to_be_deleted() -> None:
    """Another program of the same name was published over theirs."""
    facts = with_topic(with_topic(topology(), "words.tuples.price", []), "words.tuples.split", partitions(2))
    assert unknown_topics(facts.topics, facts.manifest) == {"words.tuples.price": "words.price"}
    (finding,) = check_leftovers(replace(facts, strangers={"words.tuples.price": 3}))
    assert summaries([finding]) == [("problem", "leftovers", "words.tuples.price")]
    assert "its group has 3 members: another program of that name was published" in finding.found
    assert "acker topics create MODULE:TOPOLOGY --replace" in finding.remedy
    assert "elete" not in finding.remedy


def test_a_topic_of_outcomes_that_another_topology_writes_to_is_noted() -> None:
    done = OutcomesManifest(topic="done")
    own, copy, more = (manifest_of(spout("lines", outcomes=done), topology=name) for name in ("words", "copy", "more"))
    others = {"lines": other_writers(own, "lines", {"copy": copy, "words": own, "bad": None, "more": more})}
    (finding,) = check_outcomes(replace(topology(own), other_writers=others))
    assert summaries([finding]) == [("note", "outcomes", "done")]
    assert "of spout lines, and of spout lines of topology copy, spout lines of topology more:" in finding.found
    alone = {"lines": other_writers(own, "lines", {"words": own, "copy": manifest_of(spout("lines"))})}
    assert list(check_outcomes(replace(topology(own), other_writers=alone))) == []


def test_a_changelog_that_is_of_another_state_or_was_deleted_is_a_problem() -> None:
    stateful = manifest_of(spout("lines"), counting("count", "lines", tasks=3))
    facts, changelog = topology(stateful), "words.state.count"
    about = About.of(stateful, "count").to_json()
    assert list(check_states(facts)) == list(check_states(replace(facts, abouts={(changelog, 0): about}))) == []
    assert list(check_retention(facts)) == [], "a changelog is compacted"
    other = about.replace(b'"long"', b'"string"')
    later = about.replace(b'"version":1', b'"version":2')
    abouts = {(changelog, 0): b"", (changelog, 1): other, (changelog, 2): later}
    findings = list(check_states(replace(facts, abouts=abouts)))
    assert summaries(findings) == [("problem", "states", changelog)] * 3
    assert "no record that describes it in partition 0, although its task has processed" in findings[0].found
    assert "partition 1: its values are count: string (json), and the manifest has count: long" in findings[1].found
    assert "is of version 2" in findings[2].found
    assert all(each.remedy.endswith("acker state reset words count.") for each in findings)
    (unset,) = check_settings(with_setting(facts, changelog, "delete.retention.ms", "1"))
    assert "has delete.retention.ms=1, but it must be 7200000" in unset.found


def test_a_source_topic_that_was_created_again_is_a_problem_of_the_state() -> None:
    stateful = manifest_of(spout("lines"), counting("count", "lines", tasks=2))
    about = About.of(stateful, "count", {"lines": {"text": "id-1"}}).to_json()
    facts = replace(topology(stateful), abouts={("words.state.count", 0): about})
    assert [*check_states(facts)] == [*check_states(replace(facts, source_ids={"text": "id-1"}))] == []
    (finding,) = check_states(replace(facts, source_ids={"text": "id-2"}))
    assert summaries([finding]) == [("problem", "states", "words.state.count")]
    assert "earlier topic 'text' in partition 0: the topic was deleted and created again" in finding.found
    assert finding.remedy.endswith("acker state reset words count --keep-values.")


def test_a_published_manifest_that_differs_from_the_code_is_a_problem() -> None:
    assert list(check_declared(replace(topology(), declared=manifest()))) == []
    (finding,) = check_declared(replace(topology(), declared=manifest(tasks=5, max_tree_age_ms=60_000)))
    assert summaries([finding]) == [("problem", "manifest", "words")]
    assert "max_tree_age_ms is 300000 instead of 60000; component split is another" in finding.found
