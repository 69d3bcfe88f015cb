"""The findings of checks."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partialmethod


class Severity(StrEnum):
    PROBLEM = "problem"  # something does not work, or messages are at risk
    WARNING = "warning"  # it works, but not well, or not for long
    NOTE = "note"  # nothing is known to be wrong: something could not be checked, or matters only for some commands


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity  # `problem`, `warning` or `note`
    check: str  # a short, stable word, such as `topic-settings`
    subject: str  # a topology, a component, a topic, a group, a host, `java` or a broker's address
    found: str  # a sentence
    remedy: str  # a sentence
    component: str | None = None  # the component that causes it


@dataclass(frozen=True, slots=True)
class Check:
    """Makes the findings of one check about one subject; `begin` is how their sentences begin."""

    name: str
    subject: str
    begin: str = ""
    component: str | None = None

    def finding(self, severity: Severity, found: str, remedy: str) -> Finding:
        remedy = remedy[:1].upper() + remedy[1:]
        return Finding(severity, self.name, self.subject, self.begin + found, remedy, self.component)

    problem = partialmethod(finding, Severity.PROBLEM)
    warning = partialmethod(finding, Severity.WARNING)
    note = partialmethod(finding, Severity.NOTE)


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """2 if there is a problem, 1 if `strict` and there is a warning, else 0."""
    severities = {finding.severity for finding in findings}
    return 2 if Severity.PROBLEM in severities else int(strict and Severity.WARNING in severities)
