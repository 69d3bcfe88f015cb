"""All checks, in the order of their findings."""

from collections.abc import Callable, Iterator
from typing import Final

from inspection.doctor.cluster_checks import check_clock, check_cluster, check_java, check_published, check_version
from inspection.doctor.facts import Facts, TopologyFacts
from inspection.doctor.findings import Finding, Severity
from inspection.doctor.group_checks import check_ackers, check_backlogs, check_groups, check_idle, check_inputs
from inspection.doctor.topic_checks import (
    check_copies,
    check_declared,
    check_leftovers,
    check_retention,
    check_settings,
    check_single_copies,
    check_topics,
)

_OF_ALL: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    check_java,
    check_cluster,
    check_version,
    check_clock,
    check_published,
)
_OF_A_TOPOLOGY: Final[tuple[Callable[[TopologyFacts], Iterator[Finding]], ...]] = (
    check_declared,
    check_topics,
    check_settings,
    check_retention,
    check_copies,
    check_leftovers,
    check_idle,
    check_ackers,
    check_groups,
    check_inputs,
    check_backlogs,
)
_ORDER: Final = tuple(Severity)


def examine(facts: Facts) -> list[Finding]:
    found = [finding for check in _OF_ALL for finding in check(facts)]
    found += [finding for topology in facts.topologies for check in _OF_A_TOPOLOGY for finding in check(topology)]
    brokers = facts.cluster.brokers if facts.cluster is not None else 0
    found += [finding for topology in facts.topologies for finding in check_single_copies(topology, brokers)]
    # `acker.topologies` belongs to all topologies, but is reported once.
    return sorted(dict.fromkeys(found), key=lambda finding: _ORDER.index(finding.severity))
