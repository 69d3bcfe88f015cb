"""Checks of this machine."""

from collections.abc import Iterator

from inspection.doctor.facts import Facts
from inspection.doctor.findings import Finding, Severity


def check_java(facts: Facts) -> Iterator[Finding]:
    """Java is there where the embedded broker or a Spark job needs it."""
    if facts.machine is None or facts.machine.java is not None:
        return
    external = sorted(
        f"{topology.manifest.topology}.{part.name}"
        for topology in facts.topologies
        for part in topology.manifest.components
        if part.external
    )
    if facts.cluster is None:
        severity, needs = Severity.PROBLEM, "no Kafka cluster is set, and the embedded broker needs it"
    elif external:
        severity, needs = Severity.WARNING, f"Spark jobs need it where they are submitted: {', '.join(external)}"
    else:
        severity, needs = Severity.NOTE, "only acker kafka, acker demo, acker run --local and Spark jobs need it"
    yield Finding(severity, "java", "java", f"no Java that can be used: {needs}.", facts.machine.java_problem)
