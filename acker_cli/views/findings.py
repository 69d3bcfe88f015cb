"""Findings on a terminal."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from inspection.health.findings import Finding, Severity
from inspection.health.verdict import sentence

_STYLES: Final = {"problem": "bold red", "warning": "yellow", "note": "dim"}
_MOST: Final = 3


def finding_lines(finding: Finding) -> tuple[Text, Text]:
    """A finding, and its remedy below it."""
    found = Text.assemble((f"{finding.severity}  ", _STYLES[finding.severity]), finding.found)
    return found, Text.assemble("  → ", (finding.remedy, "cyan"))


def verdict_lines(findings: Sequence[Finding]) -> list[Text]:
    """The verdict: the first findings with their remedies, and how many more there are; notes are left out."""
    counted = [each for each in findings if each.severity is not Severity.NOTE]
    if not counted:
        return [Text(sentence(findings), "green")]
    lines = [line for finding in counted[:_MOST] for line in finding_lines(finding)]
    more = len(counted) - _MOST
    return [*lines, Text(f"… and {more} more: acker doctor has all", "dim")] if more > 0 else lines
