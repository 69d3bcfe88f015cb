"""The status of a topology's topics: their partitions, the committed offsets of the groups that read them, and lags."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from tuple_tree.commit_metadata import DONE, read_commit_metadata
from tuple_tree.done_sets import DoneSet
from tuple_tree.errors import CommitError
from tuple_tree.manifest import Manifest
from tuple_tree.names import acker_group, acks_topic, component_group, notices_topic, tuples_topic


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    partition: int
    begin: int
    end: int
    committed: int | None  # of the group that reads it; None if there is none, or it may not be described
    lag: int | None  # what is not done, past the committed offset; None where no group commits
    done_ahead: int = 0  # offsets past the committed one that are done, as the commit's metadata has them
    open_ahead: int = 0  # offsets between these that are open
    open_runs: int = 0  # the runs of open offsets
    failures: int = 0  # of the message at the committed offset, as far as they fit into the metadata

    @classmethod
    def of(
        cls, partition: int, begin: int, end: int, commit: TopicPartition | None, position: int | None
    ) -> "PartitionStatus":
        """The status of a partition whose group continues at `position`, or None if that is not known."""
        if commit is None or position is None:
            return cls(partition, begin, end, None, None if position is None else max(0, end - position))
        done = done_of(commit)
        behind = sum(stop - start for start, stop in done.runs)
        reached = max((stop for _, stop in done.runs), default=position)
        return cls(
            partition,
            begin,
            end,
            commit.offset,
            max(0, end - position - behind),
            behind,
            reached - position - behind,
            len(done.runs),
            done.failures.get(commit.offset, 0),
        )

    @property
    def undone_from(self) -> int | None:
        """The offset from which on nothing is done; None without a lag, or if offsets past an open one are done."""
        return self.end - self.lag if self.lag and not self.done_ahead else None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    name: str
    expected_partitions: int  # of the manifest
    group: str | None  # that reads it
    partitions: tuple[PartitionStatus, ...]  # empty if it does not exist

    @property
    def problem(self) -> str:
        """Empty if there is none."""
        if not self.partitions:
            return "does not exist"
        if len(self.partitions) != self.expected_partitions:
            return f"has {len(self.partitions)} partitions, but the manifest has {self.expected_partitions}"
        return ""

    @property
    def lag(self) -> int | None:
        return sum_known(one.lag for one in self.partitions)

    @property
    def done_ahead(self) -> int:
        """Offsets past the committed ones that are done."""
        return sum(one.done_ahead for one in self.partitions)

    @property
    def open_ahead(self) -> int:
        """Offsets before and between these that are open."""
        return sum(one.open_ahead for one in self.partitions)


@dataclass(frozen=True, slots=True)
class TopologyStatus:
    manifest: Manifest
    topics: tuple[TopicStatus, ...]  # all of its own, in the manifest's order
    members: Mapping[str, int | None] = field(default_factory=dict)  # group → count; None without a DESCRIBE ACL

    @property
    def ackers(self) -> int | None:
        return self.members.get(acker_group(self.manifest.topology))

    @property
    def ack_lag(self) -> int | None:
        """The lag of the ackers: ack batches that no worker has committed."""
        return self._lag({acks_topic(self.manifest.topology)})

    @property
    def lag(self) -> int | None:
        """The lag of the inboxes of bolts; that of external ones only if their groups have committed."""
        return self._lag({tuples_topic(self.manifest.topology, bolt.name) for bolt in self.manifest.inboxes})

    def of_component(self, name: str) -> tuple[int | None, int | None]:
        """The number of processes of a component, and its lag; each is None if it is unknown.

        A chained bolt has the processes of its head, and no lag.
        """
        topology = self.manifest.topology
        lag = self._lag({tuples_topic(topology, name), notices_topic(topology, name)})
        return self.members.get(component_group(topology, self.manifest.head(name).name)), lag

    def _lag(self, topics: set[str]) -> int | None:
        return sum_known(topic.lag for topic in self.topics if topic.name in topics)


@dataclass(frozen=True, slots=True)
class TopologyLags:
    """The lags of the topics that a topology reads.

    Attributes:
        lags: bolt with an inbox, or `KafkaSpout` → the lag of its group; None if it may not be read, or for an external
            bolt without commits.
        dead_letters: the begin and the end of the dead letters; None without their topic.
        task_lags: bolt → task → its lag.
        done_ahead: as `lags`, how many offsets past the committed ones are done.
        own: the topics of the topology.
        sources: the topics that its spouts read.
    """

    lags: dict[str, int | None]
    dead_letters: tuple[int, int] | None
    task_lags: dict[str, dict[int, int | None]]
    done_ahead: dict[str, int]
    own: tuple[TopicStatus, ...]
    sources: tuple[TopicStatus, ...]


def done_of(commit: TopicPartition) -> DoneSet:
    """The done set of a commit; nothing after its offset if another program or version has committed."""
    offset = commit.offset
    with suppress(CommitError):
        texts = read_commit_metadata(offset, commit.metadata) or {}
        return DoneSet.read(offset, texts.get(DONE, ""))
    return DoneSet(offset)


def sum_known(lags: Iterable[int | None]) -> int | None:
    """The sum of the lags that are known; None if none is."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None
