"""The facts that the doctor checks, and what a check yields: findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partialmethod

from confluent_kafka import TopicPartitionInfo

from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic, tuples_topic


@dataclass(frozen=True, slots=True)
class Backlog:
    """The lag of a group on a partition, read twice, and the records that it has done in between."""

    group: str
    topic: str
    partition: int
    seconds: float  # between the two
    before: int
    after: int
    done: int
    is_waiting: bool = True  # whether there is a record: markers of transactions count as lag, but are none

    @property
    def rate(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    manifest: Manifest  # as published
    # Topic → its partitions; those that begin with the topology's name, and `acker.topologies`.
    topics: Mapping[str, Sequence[TopicPartitionInfo]]
    configs: Mapping[str, Mapping[str, str | None]]  # topic → its settings, with defaults; of those that may be read
    hidden: frozenset[str] = frozenset()  # topics without a DESCRIBE ACL for this user
    members: Mapping[str, int | None] = field(default_factory=dict)  # group → count; None without a DESCRIBE ACL
    backlogs: tuple[Backlog, ...] = ()
    oldest_inputs: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # bolt → place, seconds it is open
    declared: Manifest | None = None  # the manifest of the code, if the doctor was given the code


@dataclass(frozen=True, slots=True)
class Facts:
    servers: str = ""  # of the cluster; empty if none is configured
    brokers: int = 0  # how many are up; 0 if none answers
    problem: str = ""  # the error of a request to the cluster, with what to do; empty if there was none
    version: str | None = None  # the inter-broker protocol, such as `3.6`; None if unknown, as from 4.0 on
    # By how many seconds the brokers' clock is ahead of this machine's, at least and at most; None if not known.
    clock: tuple[float, float] | None = None
    topologies: tuple[TopologyFacts, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)  # topology → why its manifest cannot be read
    wanted: str | None = None  # the one topology to check; None for all
    published: tuple[str, ...] = ()  # the names of all topologies
    java: int | None = None  # the feature release of this machine's Java, such as 17; None if it was not found
    java_problem: str = ""  # why it was not found, and what to do; empty if it was, or was not looked for


class Severity(StrEnum):
    PROBLEM = "problem"  # something does not work, or messages are at risk
    WARNING = "warning"  # it works, but not well, or not for long
    NOTE = "note"  # nothing is known to be wrong: something could not be checked, or matters only for some commands


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    check: str  # a short, stable word, such as `topic-settings`
    subject: str  # a topology, a topic, a group, `java` or a broker's address
    found: str  # a sentence
    remedy: str  # a sentence


@dataclass(frozen=True, slots=True)
class Check:
    """Makes the findings of one check about one subject; `begin` is how their sentences begin."""

    name: str
    subject: str
    begin: str = ""

    def finding(self, severity: Severity, found: str, remedy: str) -> Finding:
        return Finding(severity, self.name, self.subject, self.begin + found, remedy[:1].upper() + remedy[1:])

    problem = partialmethod(finding, Severity.PROBLEM)
    warning = partialmethod(finding, Severity.WARNING)
    note = partialmethod(finding, Severity.NOTE)


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """2 if there is a problem, 1 if `strict` and there is a warning, else 0."""
    severities = {finding.severity for finding in findings}
    return 2 if Severity.PROBLEM in severities else int(strict and Severity.WARNING in severities)


def component_of(finding: Finding, manifest: Manifest) -> str | None:
    """The component whose name, group, inbox or notices a finding names; None if it concerns no single one.

    A component may have the topology's name; only findings about inputs name a component by itself.
    """
    topology = manifest.topology
    for component in manifest.components:
        name = component.name
        own = (component_group(topology, name), tuples_topic(topology, name), notices_topic(topology, name))
        if finding.subject in own or (finding.subject == name and finding.check == "inputs"):
            return name
    return None
