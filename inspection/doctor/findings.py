"""A finding of the doctor: how bad it is, what was found, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FINE: Final = 0
WARNED: Final = 1
BROKEN: Final = 2


class Severity(StrEnum):
    """How bad a finding is."""

    PROBLEM = "problem"
    """Something does not work, or messages are at risk."""
    WARNING = "warning"
    """It works, but not well, or not for long."""
    NOTE = "note"
    """Nothing is known to be wrong: something could not be looked at, or matters only for some commands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has to say.

    Attributes:
        severity: how bad it is.
        check: a short, stable word for the check, such as `topic-settings`.
        subject: what it is about: a topology, a topic, a group, `java` or a broker's address.
        found: what was seen, as a sentence.
        remedy: what to do, as a sentence.
    """

    severity: Severity
    check: str
    subject: str
    found: str
    remedy: str


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """The exit code for scripts.

    Args:
        findings: all of them.
        strict: whether a warning is a reason to fail.

    Returns:
        2 if there is a problem, 1 if `strict` and there is a warning, else 0. Notes change nothing.
    """
    worst = {finding.severity for finding in findings}
    if Severity.PROBLEM in worst:
        return BROKEN
    return WARNED if strict and Severity.WARNING in worst else FINE
