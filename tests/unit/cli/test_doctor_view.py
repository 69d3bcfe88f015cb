"""The output of `acker doctor`: its summary and its findings."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from acker_cli.commands.doctor import print_findings
from inspection.doctor.facts import Facts
from inspection.health.findings import Check, Finding
from tests.unit.inspection.doctor.cases import SERVERS, topology

ONE = Facts(SERVERS, brokers=1, java=17)


def printed(facts: Facts, *findings: Finding) -> list[str]:
    out = io.StringIO()
    print_findings(Console(file=out, width=200), facts, findings)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("facts", "heading"),
    [
        (Facts(java_problem="Install Java 17."), "no Java; no cluster"),
        (Facts(SERVERS, problem="no broker answers", java=17), f"Java 17; {SERVERS}: not reached"),
        (ONE, f"Java 17; Kafka at {SERVERS}: 1 broker; topologies: none"),
        (replace(ONE, wanted="w"), f"Java 17; Kafka at {SERVERS}: 1 broker; topologies: w (not there)"),
        (
            Facts(SERVERS, brokers=3, version="3.6", clock=(-0.25, 1.5), java=17, topologies=(topology(),)),
            f"Java 17; Kafka 3.6 at {SERVERS}: 3 brokers; its clock ahead by -0.2 to +1.5 s; topologies: words",
        ),
    ],
)
def test_the_heading_has_java_the_cluster_and_its_topologies(facts: Facts, heading: str) -> None:
    assert printed(facts) == [heading, "", "nothing is wrong"]


def test_a_finding_has_its_remedy_and_is_counted() -> None:
    check = Check("retention", "words.acks")
    findings = [check.warning("it is short", "set it"), check.warning("it is long", "unset it")]
    lines = printed(Facts(), *findings)
    assert lines[2:4] == ["warning  it is short", "  → Set it"]
    assert lines[-1] == "2 warnings"
