"""What the doctor has seen: facts, without any judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuple_tree.manifest import Manifest


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """This machine.

    Attributes:
        java: the feature release of the Java that was found, such as 17; None if there is none that can be used.
        java_problem: why there is none, and what to do; empty if there is one.
    """

    java: int | None
    java_problem: str = ""


@dataclass(frozen=True, slots=True)
class ClockBounds:
    """By how much the brokers' clock is ahead of this machine's, as far as that is known.

    Attributes:
        least_s: at least so many seconds; negative if it is behind.
        most_s: at most so many seconds.
    """

    least_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The brokers.

    Attributes:
        servers: where they were asked for.
        brokers: how many are up; 0 if none answers.
        problem: why nothing could be asked, and what to do; empty if all went well.
        version: the release whose protocol they speak among themselves, such as `3.6`; None if they do not say, as
            those from 4.0 on.
        clock: None if nothing was appended while the doctor looked.
    """

    servers: str
    brokers: int = 0
    problem: str = ""
    version: str | None = None
    clock: ClockBounds | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition of a topic.

    Attributes:
        number: its number.
        has_leader: whether a broker leads it; without, nobody reads or writes it.
        replicas: how many copies it shall have.
        in_sync: how many of them are up to date.
    """

    number: int
    has_leader: bool
    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that exists.

    Attributes:
        name: its name.
        partitions: by number.
        config: its settings as the cluster has them, defaults included; None if they may not be asked for.
    """

    name: str
    partitions: tuple[PartitionFacts, ...]
    config: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """How a group got on with a partition while the doctor looked.

    Attributes:
        group: the consumer group.
        topic: what it reads.
        partition: of that topic.
        seconds: between the two looks.
        before: records that it had not done at the first look.
        after: at the second one.
        done: records that it has done in between.
        is_waiting: whether there really is a record: the marks of transactions count as lag, but are none.
    """

    group: str
    topic: str
    partition: int
    seconds: float
    before: int
    after: int
    done: int
    is_waiting: bool = True

    @property
    def rate(self) -> float:
        """Records done a second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """A topology.

    Attributes:
        manifest: as published.
        topics: those that exist of all whose names begin with the topology's, and `acker.topologies`, by name.
        hidden: topics that this user may not see.
        members: consumer group → its members; None if that may not be asked.
        backlogs: of the groups whose offsets are known.
        oldest_inputs: bolt → where its oldest open input lies, and for how many seconds it is open.
        declared: the manifest of the code, if the doctor was given the code.
    """

    manifest: Manifest
    topics: Mapping[str, TopicFacts]
    hidden: frozenset[str] = frozenset()
    members: Mapping[str, int | None] = field(default_factory=dict)
    backlogs: tuple[Backlog, ...] = ()
    oldest_inputs: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    declared: Manifest | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was seen.

    Attributes:
        machine: this one; None if it was not looked at.
        cluster: None if none is configured.
        topologies: those that were looked at.
        unreadable: topology → why its manifest cannot be read.
        wanted: the topology that was asked for by name; None for all.
        published: the names of all that are published.
    """

    machine: MachineFacts | None
    cluster: ClusterFacts | None
    topologies: tuple[TopologyFacts, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    wanted: str | None = None
    published: tuple[str, ...] = ()
