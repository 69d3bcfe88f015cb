"""All checks of a topology, the findings of a cause before those of its effects."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from inspection.health.calls import check_executes, check_failing, check_inputs, check_paused, check_retries
from inspection.health.findings import Finding, Severity
from inspection.health.lag_checks import check_lag, check_slow, has_explained_lag
from inspection.health.messages import (
    check_dead_letters,
    check_late,
    check_open_messages,
    check_trees,
    check_undelivered,
)
from inspection.health.observation import Observation
from inspection.health.processes import (
    check_ackers,
    check_clocks,
    check_cluster,
    check_groups,
    check_idle,
    check_stalled,
)
from inspection.health.states import check_identities, check_restores
from tuple_tree.control import ControlState
from tuple_tree.names import acker_group

CAUSES: Final = (
    check_idle,
    check_groups,
    check_ackers,
    check_executes,
    check_paused,
    check_failing,
    check_slow,
    check_undelivered,
)
"""Checks whose findings explain those of the others, of the same components and of the spouts above them."""

OF_PROCESSES: Final = (check_executes, check_paused, check_stalled)
"""Checks for which the figures of one process are enough."""

ORDER: Final = (
    *("java", "cluster", "version", "manifest", "topics", "topic-settings", "states", "copies"),
    *("groups", "ackers", "execute", "paused", "failures", "skew", "slow", "undelivered"),
    *("retries", "open-messages", "dead-letters", "restores", "trees", "lag", "stalled", "late-tuples"),
    *("inputs", "identities", "clock", "retention", "leftovers"),
)
"""All checks. Of findings of one severity, those of earlier ones come first: a cause before its effects."""

EXPECTED: Final[Mapping[ControlState, frozenset[str]]] = {
    "running": frozenset(),
    "paused": frozenset({"lag", "stalled"}),
    "draining": frozenset({"lag", "stalled"}),
    "stopped": frozenset({"groups", "ackers", "lag", "stalled"}),
}
"""The checks whose findings follow from the requested state of the topology, and are left out."""


def judge(observed: Observation) -> list[Finding]:
    """The findings of a running topology, in order; none if it is healthy."""
    if unreachable := [*check_cluster(observed)]:
        # What processes report comes through the same brokers.
        return unreachable
    causes = [finding for check in CAUSES for finding in check(observed)]
    explained = _explained(observed, causes)
    found = [
        *causes,
        *(each for each in check_retries(observed) if each.component not in explained),
        *(each for each in check_open_messages(observed) if not _concerns(observed, each, explained)),
        *check_dead_letters(observed),
        *check_restores(observed),
        *check_identities(observed),
        *check_late(observed),
        *check_clocks(observed),
        *(each for each in check_inputs(observed) if each.component not in explained),
    ]
    held = {bolt.name for bolt in observed.manifest.bolts if has_explained_lag(observed, bolt.name)}
    failing = {each.component for each in found if each.check in ("open-messages", "retries") and each.component}
    found += check_lag(observed, explained | held)
    found += check_trees(observed, explained | failing)
    found += [each for each in check_stalled(observed) if not _concerns(observed, each, explained)]
    return ordered(each for each in found if each.check not in EXPECTED[observed.control])


def judge_processes(observed: Observation) -> list[Finding]:
    """The findings of some processes of a topology on themselves, in order, whatever the others do."""
    return ordered(finding for check in OF_PROCESSES for finding in check(observed))


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by severity, and by the order of checks; each once."""
    severities = [*Severity]
    return sorted(
        dict.fromkeys(findings), key=lambda finding: (severities.index(finding.severity), ORDER.index(finding.check))
    )


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """The verdict and the findings, as members of a snapshot's JSON."""
    return {"verdict": sentence(findings), "findings": [asdict(each) for each in findings]}


def sentence(findings: Iterable[Finding]) -> str:
    """The verdict in a line: the first finding, and how many more there are; notes do not count."""
    counted = [each for each in findings if each.severity is not Severity.NOTE]
    if not counted:
        return "healthy"
    more = f" (and {len(counted) - 1} more)" if len(counted) > 1 else ""
    return f"{counted[0].found}{more}"


def _explained(observed: Observation, causes: Iterable[Finding]) -> set[str]:
    """The components with a cause, and components in the same tasks; and the group of the ackers."""
    manifest, explained = observed.manifest, set[str]()
    for finding in causes:
        if finding.severity is Severity.NOTE:
            continue
        if finding.component is None and finding.severity is Severity.PROBLEM:
            # No tree ends; what waits for the outcomes of trees is not judged by that.
            explained |= {acker_group(observed.topology), *(spout.name for spout in manifest.spouts)}
        elif finding.component is not None:
            head = manifest.head(finding.component).name
            explained |= {head, *(bolt.name for bolt in manifest.chained_to(head))}
    return explained


def _concerns(observed: Observation, finding: Finding, explained: Collection[str]) -> bool:
    """Whether a finding follows from those of the explained components: its own, or one that its trees reach."""
    component = finding.component
    if component is None:
        return acker_group(observed.topology) in explained
    reached = {bolt.name for bolt in observed.downstream(component)}
    return component in explained or not reached.isdisjoint(explained)
