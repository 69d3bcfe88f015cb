"""Checks of this machine, of the brokers, and of the manifests."""

from collections.abc import Iterator
from typing import Final

from inspection.doctor.facts import Facts
from inspection.doctor.findings import Check, Finding, Severity

LARGEST_SKEW_S: Final = 2.0  # how far clocks may differ without a finding

_OLDEST: Final = (2, 8)
"""From here on topics have ids, which distinguish a topic from a deleted one of the same name."""
_OLDEST_FOR_TRANSACTIONS: Final = (2, 5)
"""From here on a transaction that commits offsets is fenced by the group's generation."""


def check_java(facts: Facts) -> Iterator[Finding]:
    """Java is installed where the embedded broker or a Spark job needs it."""
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


def check_cluster(facts: Facts) -> Iterator[Finding]:
    """A cluster is set, and answers."""
    cluster = facts.cluster
    if cluster is None:
        severity = Severity.NOTE if facts.wanted is None else Severity.PROBLEM
        yield Finding(
            severity,
            "cluster",
            "cluster",
            "No Kafka cluster is set, so only this machine was checked.",
            "Set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS; acker kafka starts a broker.",
        )
    elif cluster.problem:
        yield Finding(
            Severity.PROBLEM, "cluster", cluster.servers, "The cluster could not be checked.", cluster.problem
        )


def check_version(facts: Facts) -> Iterator[Finding]:
    """The brokers are new enough."""
    cluster = facts.cluster
    if cluster is None or cluster.version is None:
        return
    numbers = _numbers(cluster.version)
    exactly_once = [each.manifest.topology for each in facts.topologies if each.manifest.guarantee == "exactly_once"]
    if numbers is None or numbers >= _OLDEST:
        return
    if numbers < _OLDEST_FOR_TRANSACTIONS and exactly_once:
        yield Check("version", cluster.servers).problem(
            f"The brokers speak the protocol of Kafka {cluster.version}, whose transactions do not fence a process "
            f"that the group has removed: {', '.join(exactly_once)} would not be exactly once.",
            "Upgrade them to 2.5 or newer, and raise inter.broker.protocol.version.",
        )
        return
    yield Check("version", cluster.servers).warning(
        f"The brokers speak the protocol of Kafka {cluster.version}, in which topics have no ids: a topic that was "
        "deleted and created again is not recognised.",
        "Upgrade them to 2.8 or newer, and raise inter.broker.protocol.version.",
    )


def check_clock(facts: Facts) -> Iterator[Finding]:
    """This machine's clock and that of the brokers hardly differ."""
    cluster = facts.cluster
    if cluster is None or cluster.clock is None:
        return
    least, most = cluster.clock.least_s, cluster.clock.most_s
    if least > LARGEST_SKEW_S:
        where, by = "ahead of", least
    elif most < -LARGEST_SKEW_S:
        where, by = "behind", -most
    else:
        return
    yield Check("clock", cluster.servers).warning(
        f"The brokers' clock is at least {by:.1f} s {where} this machine's. Trees do not depend on that, since only "
        "the brokers' time counts for them; searches by time do.",
        "Let an NTP service set the clocks of this machine and of the brokers.",
    )


def check_published(facts: Facts) -> Iterator[Finding]:
    """The topology is published, and manifests can be read."""
    for topology, why in sorted(facts.unreadable.items()):
        yield Check("manifest", topology).problem(
            f"Its manifest cannot be read: {why}.", "Publish it with this version: acker topics create MODULE:TOPOLOGY."
        )
    if facts.cluster is None or facts.cluster.problem or facts.wanted is None:
        return
    if facts.wanted not in facts.published:
        there = ", ".join(facts.published) or "none yet"
        yield Check("manifest", facts.wanted).problem(
            f"No topology of that name is in acker.topologies; the cluster has {there}.",
            "Check the name, or create it: acker topics create MODULE:TOPOLOGY.",
        )


def _numbers(version: str) -> tuple[int, int] | None:
    """Major and minor of a version such as `3.6-IV2`; None if it has another form."""
    major, _, rest = version.partition(".")
    minor = rest.partition("-")[0].partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
