"""The doctor's findings: severity, what was found, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic, tuples_topic


class Severity(StrEnum):
    PROBLEM = "problem"  # something does not work, or messages are at risk
    WARNING = "warning"  # it works, but not well, or not for long
    NOTE = "note"  # nothing is known to be wrong: something could not be checked, or matters only for some commands


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    check: str  # a short, stable word, such as `topic-settings`
    subject: str  # a topology, a topic, a group, `java` or a broker's address
    found: str  # a sentence
    remedy: str  # a sentence


@dataclass(frozen=True, slots=True)
class Check:
    """Makes the findings of one check about one subject; `begin` is how their sentences begin."""

    name: str
    subject: str
    begin: str = ""

    def problem(self, found: str, remedy: str) -> Finding:
        return self.finding(Severity.PROBLEM, found, remedy)

    def warning(self, found: str, remedy: str) -> Finding:
        return self.finding(Severity.WARNING, found, remedy)

    def note(self, found: str, remedy: str) -> Finding:
        return self.finding(Severity.NOTE, found, remedy)

    def finding(self, severity: Severity, found: str, remedy: str) -> Finding:
        return Finding(severity, self.name, self.subject, self.begin + found, remedy[:1].upper() + remedy[1:])


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """2 if there is a problem, 1 if `strict` and there is a warning, else 0."""
    severities = {finding.severity for finding in findings}
    return 2 if Severity.PROBLEM in severities else int(strict and Severity.WARNING in severities)


def component_of(finding: Finding, manifest: Manifest) -> str | None:
    """The component whose name, group, inbox or notices a finding names; None if it concerns no single one.

    A component may have the topology's name; only findings about inputs name a component by itself.
    """
    topology = manifest.topology
    for component in manifest.components:
        name = component.name
        own = (component_group(topology, name), tuples_topic(topology, name), notices_topic(topology, name))
        if finding.subject in own or (finding.subject == name and finding.check == "inputs"):
            return name
    return None
