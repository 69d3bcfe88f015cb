"""The facts that the doctor checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import TopicPartitionInfo

from inspection.health.observation import Observation
from tuple_tree.manifest import Manifest


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    observed: Observation
    # Topic → its partitions; topics that begin with the topology's name, and `acker.topologies`.
    topics: Mapping[str, Sequence[TopicPartitionInfo]]
    configs: Mapping[str, Mapping[str, str | None]]  # topic → its settings, with defaults; of readable topics
    hidden: frozenset[str] = frozenset()  # topics without a DESCRIBE ACL for this user
    # Partition of a changelog → its record that describes it; empty if it has none, and its task has processed records.
    # A group is missing if its commits did not arrive in time, or if this user may not read them.
    abouts: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    # Source topic whose positions a changelog contains → its current id; without topics that may not be described.
    source_ids: Mapping[str, str] = field(default_factory=dict)
    declared: Manifest | None = None  # the manifest of the code, if the doctor was given the code
    # Spout → topology and name of the others that write their outcomes to the same topic.
    other_writers: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    # Topic of a component that is not in the manifest → members of its group, if there are any.
    strangers: Mapping[str, int] = field(default_factory=dict)

    @property
    def manifest(self) -> Manifest:
        return self.observed.manifest


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
