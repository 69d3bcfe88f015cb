"""The doctor's checks of the machine and the cluster; those of topics are in `topic_checks`.

Those of running topologies are in `inspection.health`.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from inspection.doctor.facts import Facts
from inspection.doctor.topic_checks import OF_TOPICS, check_single_copies, component_of
from inspection.health.findings import Check, Finding, Severity
from inspection.health.limits import CLOCK_SECONDS
from inspection.health.verdict import judge, ordered

_OLDEST: Final = (2, 8)
"""The first version with topic ids, which distinguish a topic from a deleted one of the same name."""
_OLDEST_FOR_TRANSACTIONS: Final = (2, 5)
"""The first version that fences a transaction that commits offsets by the group's generation."""


def check_java(facts: Facts) -> Iterator[Finding]:
    """Java is installed where the embedded broker or a Spark job needs it."""
    if not facts.java_problem:
        return
    external = sorted(
        f"{topology.manifest.topology}.{part.name}"
        for topology in facts.topologies
        for part in topology.manifest.components
        if part.external
    )
    if not facts.servers:
        severity, needs = Severity.PROBLEM, "no Kafka cluster is set, and the embedded broker needs it"
    elif external:
        severity, needs = Severity.WARNING, f"Spark jobs need it where they are submitted: {', '.join(external)}"
    else:
        severity, needs = Severity.NOTE, "only acker kafka, acker demo, acker run --local and Spark jobs need it"
    yield Finding(severity, "java", "java", f"no Java that can be used: {needs}.", facts.java_problem)


def check_cluster(facts: Facts) -> Iterator[Finding]:
    """A cluster is set, and answers."""
    if not facts.servers:
        severity = Severity.NOTE if facts.wanted is None else Severity.PROBLEM
        yield Finding(
            severity,
            "cluster",
            "cluster",
            "No Kafka cluster is set, so only this machine was checked.",
            "Set --bootstrap-servers or ACKER_KAFKA__BOOTSTRAP_SERVERS; acker kafka starts a broker.",
        )
    elif facts.problem:
        yield Finding(Severity.PROBLEM, "cluster", facts.servers, "The cluster could not be checked.", facts.problem)


def check_version(facts: Facts) -> Iterator[Finding]:
    """The brokers are new enough."""
    numbers = _numbers(facts.version or "")
    exactly_once = [each.manifest.topology for each in facts.topologies if each.manifest.has_transactions]
    if numbers is None or numbers >= _OLDEST:
        return
    if numbers < _OLDEST_FOR_TRANSACTIONS and exactly_once:
        yield Check("version", facts.servers).problem(
            f"The brokers speak the protocol of Kafka {facts.version}, whose transactions do not fence a process "
            f"that the group has removed: {', '.join(exactly_once)} would not be exactly once.",
            "Upgrade them to 2.5 or newer, and raise inter.broker.protocol.version.",
        )
        return
    yield Check("version", facts.servers).warning(
        f"The brokers speak the protocol of Kafka {facts.version}, in which topics have no ids: a topic that was "
        "deleted and created again is not recognised.",
        "Upgrade them to 2.8 or newer, and raise inter.broker.protocol.version.",
    )


def check_clock(facts: Facts) -> Iterator[Finding]:
    """This machine's clock and that of the brokers hardly differ."""
    least, most = facts.clock or (0.0, 0.0)
    if least > CLOCK_SECONDS:
        where, by = "ahead of", least
    elif most < -CLOCK_SECONDS:
        where, by = "behind", -most
    else:
        return
    yield Check("clock", facts.servers).warning(
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
    if not facts.servers or facts.problem or facts.wanted is None:
        return
    if facts.wanted not in facts.published:
        there = ", ".join(facts.published) or "none yet"
        yield Check("manifest", facts.wanted).problem(
            f"No topology of that name is in acker.topologies; the cluster has {there}.",
            "Check the name, or create it: acker topics create MODULE:TOPOLOGY.",
        )


def _numbers(version: str) -> tuple[int, int] | None:
    """Major and minor of a version such as `3.6-IV2`; None if it has another form."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def examine(facts: Facts, *, with_health: bool = True) -> list[Finding]:
    """The findings of the machine, the cluster and its topologies, in order; `with_health` also those of what runs."""
    of_all = (check_java, check_cluster, check_version, check_clock, check_published)
    found = [finding for check in of_all for finding in check(facts)]
    for topology in facts.topologies:
        of_topics = [finding for check in OF_TOPICS for finding in check(topology)]
        found += [replace(each, component=component_of(each.subject, topology.manifest)) for each in of_topics]
        found += check_single_copies(topology, facts.brokers)
        found += judge(topology.observed) if with_health else []
    # `acker.topologies` belongs to all topologies, but is reported once.
    return ordered(found)
