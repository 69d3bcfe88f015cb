"""The facts that the doctor checks, and what a check yields: findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partialmethod
from typing import Final

from confluent_kafka import TopicPartitionInfo

from inspection.state_figures import StateFigures
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic, tuples_topic
from tuple_tree.timing import EXECUTING


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
class HeldOffset:
    """An open message of a spout's source at which the offset of its group stays, while others behind it are done."""

    group: str
    topic: str
    partition: int
    offset: int
    failures: int  # 0 where they did not fit into the metadata of the commit
    age_seconds: float | None  # since it was written; None where it cannot be read
    done_behind: int
    open_behind: int  # itself included


@dataclass(frozen=True, slots=True)
class ComponentReport:
    """Reports of the processes of a component; rates are of their last seconds."""

    processes: int = 1
    pending: int = 0  # open trees of a spout; a bolt's inputs that are neither acked nor failed
    unread: int | None = None  # records of a bolt's inbox that it has not read; None where that is not known
    oldest_input: str = ""  # of a bolt, the input that is open for longest; empty if none is
    oldest_input_seconds: float = 0.0
    stalled_seconds: float = 0.0
    stalled_by: str = ""  # the work without progress
    executed_per_second: float = 0.0
    failed_per_second: float = 0.0
    failing: bool = False  # whether a bolt acks nothing, and fails
    last_error: str = ""
    state: StateFigures | None = None

    @property
    def restores(self) -> bool:
        """Whether a process restores the state of some of its tasks, which execute nothing meanwhile."""
        return self.state is not None and self.state["restore"] is not None

    @property
    def executes_since(self) -> float:
        """For how many seconds the call of `execute` that runs now has been running; 0 if that is not long."""
        return self.stalled_seconds if self.stalled_by.startswith(EXECUTING) else 0.0


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    manifest: Manifest  # as published
    # Topic → its partitions; topics that begin with the topology's name, and `acker.topologies`.
    topics: Mapping[str, Sequence[TopicPartitionInfo]]
    configs: Mapping[str, Mapping[str, str | None]]  # topic → its settings, with defaults; of readable topics
    hidden: frozenset[str] = frozenset()  # topics without a DESCRIBE ACL for this user
    members: Mapping[str, int | None] = field(default_factory=dict)  # group → count; None without a DESCRIBE ACL
    backlogs: tuple[Backlog, ...] = ()
    held: tuple[HeldOffset, ...] = ()
    reports: Mapping[str, ComponentReport] = field(default_factory=dict)  # by component, if it reports statistics
    # Partition of a changelog → its record that describes it; empty if it has none, and its task has processed records.
    # A group is missing if its commits did not arrive in time, or if this user may not read them.
    abouts: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    # Source topic whose positions a changelog contains → its current id; without topics that may not be described.
    source_ids: Mapping[str, str] = field(default_factory=dict)
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


OF_COMPONENTS: Final = ("inputs", "execute", "failures", "restores", "identities")
"""The checks whose subject is the name of a component."""


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


def timeout_s(manifest: Manifest, bolt: str) -> float:
    """The shortest message timeout of the spouts whose trees reach a bolt."""
    spouts = manifest.spouts_upstream(bolt) or manifest.spouts
    return min((spout.timeout_ms for spout in spouts), default=0) / 1000


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """2 if there is a problem, 1 if `strict` and there is a warning, else 0."""
    severities = {finding.severity for finding in findings}
    return 2 if Severity.PROBLEM in severities else int(strict and Severity.WARNING in severities)


def component_of(finding: Finding, manifest: Manifest) -> str | None:
    """The component whose name, group, inbox or notices a finding names; None if it concerns no single one.

    A component may have the topology's name; only findings from its statistics name a component by itself.
    """
    topology = manifest.topology
    for component in manifest.components:
        name = component.name
        own = (component_group(topology, name), tuples_topic(topology, name), notices_topic(topology, name))
        if finding.subject in own or (finding.subject == name and finding.check in OF_COMPONENTS):
            return name
    return None
