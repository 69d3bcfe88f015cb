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
    output.print(_heading(facts), markup=False)
    for finding in findings:
        output.print()
        output.print(Text.assemble((f"{finding.severity}  ", _STYLES[finding.severity]), finding.found))
        output.print(Text.assemble("  → ", (finding.remedy, "cyan")))
    output.print()
    counts = Counter(finding.severity for finding in findings)
    words = [f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items()]
    output.print(", ".join(words) or "nothing is wrong", markup=False)


def as_json(facts: Facts, findings: Sequence[Finding], code: int) -> dict[str, Any]:
    cluster = facts.cluster
    return {
        "exit_code": code,
        "java": facts.java,
        "cluster": None
        if cluster is None
        else {
            "bootstrap_servers": cluster.servers,
            "brokers": cluster.brokers,
            "version": cluster.version,
            "clock_ahead_s": cluster.clock,
        },
        "topologies": [topology.manifest.topology for topology in facts.topologies],
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }


def _heading(facts: Facts) -> str:
    parts = ["no Java" if facts.java is None else f"Java {facts.java}"]
    cluster = facts.cluster
    if cluster is None:
        parts.append("no cluster")
    elif cluster.problem:
        parts.append(f"{cluster.servers}: not reached")
    else:
        version = f"Kafka {cluster.version}" if cluster.version else "Kafka"
        parts.append(f"{version} at {cluster.servers}: {cluster.brokers} broker{'s' if cluster.brokers > 1 else ''}")
        if cluster.clock is not None:
            least, most = cluster.clock
            parts.append(f"its clock ahead by {least:+.1f} to {most:+.1f} s")
        nothing = "none" if facts.wanted is None else f"{facts.wanted} (not there)"
        parts.append(f"topologies: {', '.join(each.manifest.topology for each in facts.topologies) or nothing}")
    return "; ".join(parts)
