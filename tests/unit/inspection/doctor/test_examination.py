"""Java, the brokers, the clocks, published manifests, and all checks together."""

from dataclasses import replace

import pytest

from inspection.doctor.checks import (
    check_clock,
    check_cluster,
    check_java,
    check_published,
    check_version,
    examine,
)
from inspection.doctor.facts import Facts
from tests.unit.inspection.doctor.cases import SERVERS, healthy, manifest, summaries, topology, with_setting
from tuple_tree.manifest import Guarantee

ALONE = Facts(java=17)
NO_JAVA = Facts(java_problem="Install Java 17.")


def test_a_healthy_cluster_has_no_findings() -> None:
    guarantees: tuple[Guarantee, ...] = ("at_most_once", "at_least_once", "exactly_once")
    for guarantee in guarantees:
        assert examine(healthy(topology(manifest(guarantee=guarantee)))) == []
    assert examine(Facts(SERVERS, brokers=1, java=21)) == []


def test_findings_are_sorted_by_severity_and_shared_ones_listed_once() -> None:
    broken = with_setting(topology(), "acker.topologies", "cleanup.policy", "delete")
    broken = with_setting(broken, "words.tuples.split", "retention.ms", "1")
    facts = replace(healthy(broken), topologies=(broken, broken), java=None, java_problem="Install Java 17.")
    assert summaries(examine(facts)) == [
        ("problem", "topic-settings", "acker.topologies"),
        ("warning", "retention", "words.tuples.split"),
        ("note", "java", "java"),
    ]
    why = "no broker answers at kafka:9092 (timed out). Start one"
    (finding,) = examine(Facts(SERVERS, problem=why, wanted="words", java=21))
    assert (*summaries([finding]), finding.remedy) == (("problem", "cluster", SERVERS), why)


def test_java_is_needed_by_the_embedded_broker_and_by_spark_jobs() -> None:
    assert list(check_java(ALONE)) == []
    spark, other = (
        replace(healthy(topology(manifest(external=external))), java_problem=NO_JAVA.java_problem)
        for external in (True, False)
    )
    for facts, severity in ((NO_JAVA, "problem"), (spark, "warning"), (other, "note")):
        (finding,) = check_java(facts)
        assert (*summaries([finding]), finding.remedy) == ((severity, "java", "java"), "Install Java 17.")
    assert "words.lines, words.split" in next(iter(check_java(spark))).found


def test_without_a_cluster_only_the_machine_is_checked() -> None:
    assert summaries(list(check_cluster(ALONE))) == [("note", "cluster", "cluster")]
    (finding,) = check_cluster(replace(ALONE, wanted="words"))
    assert summaries([finding]) == [("problem", "cluster", "cluster")]
    assert "ACKER_KAFKA__BOOTSTRAP_SERVERS" in finding.remedy


def test_versions_of_the_brokers() -> None:
    versions = {None: [], "3.6-IV2": [], "2.8-IV1": [], "2.7-IV2": ["warning"], "2.4": ["warning"], "unknown": []}
    for version, found in versions.items():
        facts = replace(healthy(), version=version)
        assert [str(each.severity) for each in check_version(facts)] == found, version
    exactly_once = healthy(topology(manifest(guarantee="exactly_once")))
    (finding,) = check_version(replace(exactly_once, version="2.4-IV1"))
    assert summaries([finding]) == [("problem", "version", SERVERS)]
    assert "words would not be exactly once" in finding.found


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        *((least, most, None) for least, most in ((-0.5, 0.5), (-9.0, 0.5), (1.9, 2.5))),
        (3.0, 4.0, "at least 3.0 s ahead of this machine's"),
        (-7.0, -5.0, "at least 5.0 s behind this machine's"),
    ],
)
def test_only_certain_clock_differences_are_reported(least: float, most: float, text: str | None) -> None:
    found = [each.found for each in check_clock(replace(healthy(), clock=(least, most)))]
    assert len(found) == (text is not None)
    assert all(text is not None and text in each for each in found)


def test_requested_manifests_must_be_readable() -> None:
    assert list(check_published(replace(healthy(), wanted="words"))) == []
    facts = replace(healthy(), unreadable={"old": "version: 0"}, wanted="old", published=("old", "words"))
    assert summaries(list(check_published(facts))) == [("problem", "manifest", "old")]
