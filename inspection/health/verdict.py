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

CHECKS: Final[Mapping[str, str]] = {
    "java": "no Java 17, and no cluster is set; *no Java 17, and a topology has Spark jobs*; else a note",
    "cluster": "no broker answers, or authentication failed",
    "version": "brokers before 2.5, with `exactly_once`; *brokers before 2.8*",
    "manifest": "it is missing, cannot be read, or differs from the code",
    "topics": "a topic is missing, or has another number of partitions than in the manifest",
    "topic-settings": "`LogAppendTime` of the ack log, `cleanup.policy`, or `delete.retention.ms` of changelogs make "
    "results wrong",
    "states": "a changelog was deleted, or is of another state",
    "copies": "no leader; fewer replicas, or in-sync replicas, than `min.insync.replicas`; *a replica is out of sync; "
    "`min.insync.replicas` is 1 of three, or all; unclean leader elections*",
    "groups": "a component, or a task of it, has no process while others run; *no process runs*",
    "ackers": "no acker worker runs, or an ack partition has no owner; *the same with Spark jobs alone; a worker lags "
    "by 30 s*",
    "execute": "a call of `execute` takes two thirds of the message timeout: its tuple and line of code",
    "paused": "all calls of a bolt raise, so it pauses",
    "failures": "a bolt fails all its tuples",
    "skew": "as `slow`, and one task has twice the mean: a hot key",
    "slow": "a bolt is busy for 90 % of the time, and its lag takes longer than the message timeout; *the same while "
    "the lag, or that of its spout's source, grows*",
    "undelivered": "Kafka has rejected tuples in the last minute",
    "retries": "*a tuple has failed four times, and its bolt has executed it again for more than 15 s*",
    "open-messages": "*a message that has failed four times, or is one of hundreds that stay open, holds the committed "
    "offset*",
    "dead-letters": "*a component has made dead letters in the last minute*",
    "restores": "*the restore of a state takes longer than the message timeout, or five minutes*",
    "trees": "*more than ten and more than 1 % of the trees of the last minute failed*",
    "lag": "for no reason above, the lag of a bolt takes longer than the message timeout; *that of the ack log, or of "
    "a source whose lag grows: retention may delete unread records*",
    "stalled": "a process has made no progress for 20 s though there is work; for a spout, they count from a message "
    "timeout and the time limits of its bolts on",
    "late-tuples": "*more than ten and more than 1 % of a windowed bolt's tuples came after their windows had closed, "
    "and it has no stream for them*",
    "inputs": "*an input is open for longer than the message timeout and the time limit of its bolt together*",
    "identities": "*a state keeps over 100,000 identities, and more than it executes in ten minutes*",
    "clock": "*the clocks of a host and of the brokers differ by more than 2 s*",
    "retention": "*the ack log is kept for less than three times the largest tree age, inboxes or notices for less "
    "than once; or it has a limit in bytes*",
    "leftovers": "*a topic of a component that is not in the manifest*",
}
"""All checks, and when each reports a problem, or, in italics, a warning: the site has it as a table.

Of findings of one severity, those of earlier checks come first: a cause before its effects.
"""

ORDER: Final = tuple(CHECKS)

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
    retried = [each for each in check_retries(observed) if each.component not in explained]
    again = {each.component for each in retried}
    found = [
        *causes,
        *retried,
        *(each for each in check_open_messages(observed) if not _concerns(observed, each, explained)),
        *check_dead_letters(observed),
        *check_restores(observed),
        *check_identities(observed),
        *check_late(observed),
        *check_clocks(observed),
        *(each for each in check_inputs(observed) if each.component not in explained | again),
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
