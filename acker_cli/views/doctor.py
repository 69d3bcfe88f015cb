"""What the doctor has found, for people and for programs."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from inspection.doctor.facts import Facts, Finding, Severity

_STYLES: Final = {Severity.PROBLEM: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def print_findings(output: Console, facts: Facts, findings: Sequence[Finding]) -> None:
    output.print(_heading(facts))
    for finding in findings:
        output.print()
        output.print(Text.assemble((f"{finding.severity}  ", _STYLES[finding.severity]), finding.found))
        output.print(Text.assemble("  → ", (finding.remedy, "cyan")))
    output.print()
    counts = Counter(finding.severity for finding in findings)
    words = [f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items()]
    output.print(", ".join(words) or "nothing is wrong")


def as_json(facts: Facts, findings: Sequence[Finding], code: int) -> dict[str, Any]:
    return {
        "exit_code": code,
        "java": facts.java,
        "cluster": {
            "bootstrap_servers": facts.servers,
            "brokers": facts.brokers,
            "version": facts.version,
            "clock_ahead_s": facts.clock,
        }
        if facts.servers
        else None,
        "topologies": [topology.manifest.topology for topology in facts.topologies],
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }


def _heading(facts: Facts) -> str:
    parts = ["no Java" if facts.java is None else f"Java {facts.java}"]
    if not facts.servers:
        parts.append("no cluster")
    elif facts.problem:
        parts.append(f"{facts.servers}: not reached")
    else:
        version = f"Kafka {facts.version}" if facts.version else "Kafka"
        parts.append(f"{version} at {facts.servers}: {facts.brokers} broker{'s' if facts.brokers > 1 else ''}")
        if facts.clock is not None:
            least, most = facts.clock
            parts.append(f"its clock ahead by {least:+.1f} to {most:+.1f} s")
        nothing = "none" if facts.wanted is None else f"{facts.wanted} (not there)"
        parts.append(f"topologies: {', '.join(each.manifest.topology for each in facts.topologies) or nothing}")
    return "; ".join(parts)
