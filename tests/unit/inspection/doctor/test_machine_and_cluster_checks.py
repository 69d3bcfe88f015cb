"""Java, the brokers, the clocks, and what is published."""

from dataclasses import replace

import pytest

from inspection.doctor import ClockBounds, ClusterFacts, Facts, MachineFacts
from inspection.doctor.cluster_checks import check_clock, check_cluster, check_published, check_version
from inspection.doctor.machine_checks import check_java
from tests.unit.inspection.doctor.cases import SERVERS, healthy, manifest, told, topology

NO_JAVA = MachineFacts(None, "Install Java 17.")


def test_java_is_needed_by_the_embedded_broker() -> None:
    assert list(check_java(Facts(MachineFacts(17), None))) == []
    assert told(list(check_java(Facts(NO_JAVA, None)))) == [("problem", "java", "java")]


def test_java_is_needed_by_spark_jobs() -> None:
    (finding,) = check_java(replace(healthy(topology(manifest(external=True))), machine=NO_JAVA))
    assert told([finding]) == [("warning", "java", "java")]
    assert "words.lines, words.split" in finding.found
    assert finding.remedy == "Install Java 17."


def test_with_a_cluster_and_the_sdk_java_is_only_a_note() -> None:
    assert told(list(check_java(replace(healthy(), machine=NO_JAVA)))) == [("note", "java", "java")]


def test_without_a_cluster_only_the_machine_is_looked_at() -> None:
    assert told(list(check_cluster(Facts(MachineFacts(17), None)))) == [("note", "cluster", "cluster")]
    (finding,) = check_cluster(Facts(MachineFacts(17), None, wanted="words"))
    assert told([finding]) == [("problem", "cluster", "cluster")]
    assert "ACKER_KAFKA__BOOTSTRAP_SERVERS" in finding.remedy


@pytest.mark.parametrize(
    ("version", "found"),
    [(None, []), ("3.6-IV2", []), ("2.8-IV1", []), ("2.7-IV2", ["warning"]), ("2.4", ["warning"]), ("unknown", [])],
)
def test_versions(version: str | None, found: list[str]) -> None:
    facts = replace(healthy(), cluster=ClusterFacts(SERVERS, brokers=3, version=version))
    assert [str(each.severity) for each in check_version(facts)] == found


def test_transactions_want_more_of_the_brokers() -> None:
    exactly_once = healthy(topology(manifest(guarantee="exactly_once")))
    (finding,) = check_version(replace(exactly_once, cluster=ClusterFacts(SERVERS, brokers=3, version="2.4-IV1")))
    assert told([finding]) == [("problem", "version", SERVERS)]
    assert "words would not be exactly once" in finding.found


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (-0.5, 0.5, ""),
        (-9.0, 0.5, ""),
        (1.9, 2.5, ""),
        (3.0, 4.0, "at least 3.0 s ahead of this machine's"),
        (-7.0, -5.0, "at least 5.0 s behind this machine's"),
    ],
)
def test_only_what_is_certain_is_said_of_clocks(least: float, most: float, said: str) -> None:
    facts = replace(healthy(), cluster=ClusterFacts(SERVERS, brokers=3, clock=ClockBounds(least, most)))
    found = [each.found for each in check_clock(facts)]
    assert len(found) == bool(said)
    assert all(said in each for each in found)


def test_what_is_asked_for_must_be_published() -> None:
    assert list(check_published(replace(healthy(), wanted="words"))) == []
    (finding,) = check_published(replace(healthy(), wanted="wrods", topologies=()))
    assert told([finding]) == [("problem", "manifest", "wrods")]
    assert "the cluster has words" in finding.found


def test_a_manifest_that_cannot_be_read() -> None:
    facts = replace(healthy(), unreadable={"old": "version: 0"}, wanted="old", published=("old", "words"))
    assert told(list(check_published(facts))) == [("problem", "manifest", "old")]
