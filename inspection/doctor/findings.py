"""A finding of the doctor: how bad it is, what was found, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic, tuples_topic

FINE: Final = 0
WARNED: Final = 1
BROKEN: Final = 2


class Severity(StrEnum):
    PROBLEM = "problem"
    """Something does not work, or messages are at risk."""
    WARNING = "warning"
    """It works, but not well, or not for long."""
    NOTE = "note"
    """Nothing is known to be wrong: something could not be looked at, or matters only for some commands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has to say."""

    severity: Severity  # how bad it is
    check: str  # a short, stable word for the check, such as `topic-settings`
    subject: str  # what it is about: a topology, a topic, a group, `java` or a broker's address
    found: str  # what was seen, as a sentence
    remedy: str  # what to do, as a sentence


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """The exit code for scripts."""
    worst = {finding.severity for finding in findings}
    if Severity.PROBLEM in worst:
        return BROKEN
    return WARNED if strict and Severity.WARNING in worst else FINE


def component_of(finding: Finding, manifest: Manifest) -> str | None:
    """The component whose name, group, inbox or notices a finding names; None if it concerns no single one."""
    topology = manifest.topology
    for component in manifest.components:
        name = component.name
        own = (name, component_group(topology, name), tuples_topic(topology, name), notices_topic(topology, name))
        if finding.subject in own:
            return name
    return None
