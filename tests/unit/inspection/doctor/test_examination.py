"""All checks together: nothing is found where nothing is wrong, and the worst is told first."""

from dataclasses import replace

import pytest

from inspection.doctor import ClusterFacts, Facts, Finding, MachineFacts, Severity, examine, exit_code
from tests.unit.inspection.doctor.cases import SERVERS, healthy, manifest, told, topology, with_setting
from tuple_tree.manifest import Guarantee


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once", "exactly_once"])
def test_nothing_is_found_where_nothing_is_wrong(guarantee: Guarantee) -> None:
    assert examine(healthy(topology(manifest(guarantee=guarantee)))) == []


def test_an_empty_cluster_is_fine() -> None:
    assert examine(Facts(MachineFacts(21), ClusterFacts(SERVERS, brokers=1))) == []


def test_a_cluster_that_cannot_be_reached_is_the_one_finding() -> None:
    why = "no broker answers at kafka:9092 (timed out). Start one"
    (finding,) = examine(Facts(MachineFacts(21), ClusterFacts(SERVERS, problem=why), wanted="words"))
    assert told([finding]) == [("problem", "cluster", SERVERS)]
    assert finding.remedy == why


def test_the_worst_is_told_first_and_what_topologies_share_once() -> None:
    broken = with_setting(topology(), "acker.topologies", "cleanup.policy", "delete")
    broken = with_setting(broken, "words.tuples.split", "retention.ms", "1")
    facts = replace(healthy(broken), topologies=(broken, broken), machine=MachineFacts(None, "Install Java 17."))
    assert told(examine(facts)) == [
        ("problem", "topic-settings", "acker.topologies"),
        ("warning", "retention", "words.tuples.split"),
        ("note", "java", "java"),
    ]


@pytest.mark.parametrize(
    ("severities", "code", "strict"),
    [
        ([], 0, 0),
        ([Severity.NOTE], 0, 0),
        ([Severity.NOTE, Severity.WARNING], 0, 1),
        ([Severity.WARNING, Severity.PROBLEM], 2, 2),
    ],
)
def test_exit_codes(severities: list[Severity], code: int, strict: int) -> None:
    findings = [Finding(severity, "c", "s", "f", "r") for severity in severities]
    assert exit_code(findings, strict=False) == code
    assert exit_code(findings, strict=True) == strict
