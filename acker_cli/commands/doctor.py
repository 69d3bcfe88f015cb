"""`acker doctor`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from acker_cli.commands.options import JSON, argument, command, flag, load_from_here, option
from acker_cli.settings import LoadedSettings

if TYPE_CHECKING:
    from rich.console import Console

    from inspection.doctor.facts import Facts
    from inspection.health.findings import Finding


@command(
    "doctor",
    ("acker doctor", "this machine, the cluster, and all its topologies"),
    ("acker doctor word-count", "one topology, by its name in acker.topologies"),
    ("acker doctor my_module:topology", "also compares the published manifest with the code"),
    ("acker doctor word-count --strict --json", "in a pipeline: warnings fail, too"),
)
def doctor(
    loaded: LoadedSettings,
    topology: str | None = argument(
        "NAME|MODULE:TOPOLOGY", "A topology of the cluster, by its name or by its code; all unless given.", None
    ),
    strict: bool = flag("--strict", "Exit with 1 if there is a warning."),
    watch: float = option("SECONDS", "How long lag and clocks are watched.", default=3.0, min=0.5, max=600),
    json_: bool = JSON,
) -> None:
    """Find out what is wrong, and what to do.

    Checks Java, the brokers and their version, the clocks, and for each topology its topics and their settings, its
    acker workers, the processes of its components, and whether they keep up. Nothing is changed or written.

    Exit code 2 if there is a problem, 1 if there is a warning and --strict is given, else 0; notes change nothing.
    """
    from acker_cli.console import print_json, standard_error, standard_output
    from inspection.doctor.checks import examine
    from inspection.doctor.facts import Facts
    from inspection.doctor_gathering import gather_facts, with_java
    from inspection.health.findings import exit_code
    from tuple_tree.names import check_name

    declared = load_from_here(topology).manifest if topology is not None and ":" in topology else None
    wanted = declared.topology if declared else check_name("topology", topology) if topology else None
    if loaded.settings.is_embedded:
        facts = Facts(wanted=wanted)
    else:
        loaded.check_kafka(loaded.settings.kafka)
        with standard_error().status("asking the cluster …") as status:
            facts = gather_facts(loaded.settings.kafka, wanted, declared, watch, status.update)
    facts = with_java(facts)
    findings = examine(facts)
    code = exit_code(findings, strict=strict)
    if json_:
        print_json(_as_json(facts, findings, code))
    else:
        print_findings(standard_output(), facts, findings)
    raise typer.Exit(code)


def print_findings(output: "Console", facts: "Facts", findings: "Sequence[Finding]") -> None:
    from acker_cli.views.findings import finding_lines

    output.print(_heading(facts))
    for finding in findings:
        output.print()
        output.print(*finding_lines(finding), sep="\n")
    output.print()
    counts = Counter(finding.severity for finding in findings)
    words = [f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items()]
    output.print(", ".join(words) or "nothing is wrong")


def _as_json(facts: "Facts", findings: "Sequence[Finding]", code: int) -> dict[str, Any]:
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
        "findings": [asdict(finding) for finding in findings],
    }


def _heading(facts: "Facts") -> str:
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
