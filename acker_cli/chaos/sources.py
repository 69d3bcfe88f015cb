"""The messages of the source topics in a run: where it begins and ends, and which of them are done."""

from collections.abc import Mapping
from typing import Any

from inspection.topic_status import done_of
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import Catalogue
from kafka_clients.log_reader import LogReader, Place
from spout_sdk import Topology
from tuple_tree.done_sets import DoneSet
from tuple_tree.names import component_group

Offsets = Mapping[str, Mapping[Place, range]]
"""Spout → source partition → offsets."""
Done = Mapping[str, Mapping[Place, DoneSet]]
"""Spout → source partition → its done set; without partitions that have no commit."""


class SourceOffsets:
    """The source partitions of `KafkaSpout`s, as they were when it was made, before the topology starts.

    For one thread. Raises `BrokerError`.

    Attributes:
        before: what was done then.
    """

    def __init__(self, kafka: Mapping[str, Any], topology: Topology) -> None:
        self._kafka, self._topology = kafka, topology
        self._commits = ClusterStatus(kafka).commits
        counts = Catalogue(kafka).topics()
        self._places = {
            spout: [(topic, number) for topic in topics for number in range(counts.get(topic, 0))]
            for spout, topics in topology.kafka_sources.items()
        }
        self.before = self.done()
        self._begin = self._kept()

    def done(self) -> Done:
        """The done messages, by the commits of the spouts' groups."""
        groups = {spout: component_group(self._topology.name, spout) for spout in self._places}
        found = self._commits.of({group: self._places[spout] for spout, group in groups.items()})
        return {
            spout: {place: done_of(commit) for place, commit in found.get(group, {}).items()}
            for spout, group in groups.items()
        }

    def has_begun(self) -> bool:
        """Whether each spout has committed where it begins, which it does before it emits a message."""
        done = self.done()
        return all(len(done[spout]) == len(places) for spout, places in self._places.items())

    def begun(self) -> dict[str, dict[Place, int]]:
        """Where each spout begins, by its commit or its `first_poll`; call it when they have just begun."""
        now, found = self.done(), dict[str, dict[Place, int]]()
        for spout, begin in self._begin.items():
            made: Any = self._topology.factory(spout)()
            known = now[spout] if made.first_poll.endswith("latest") else self.before[spout]
            found[spout] = {at: known[at].offset if at in known else kept.start for at, kept in begin.items()}
        return found

    def since(self, begun: Mapping[str, Mapping[Place, int]]) -> Offsets:
        """The offsets of the messages from there to the ends now."""
        return {
            spout: {at: range(max(kept.start, begun[spout][at]), kept.stop) for at, kept in found.items()}
            for spout, found in self._kept().items()
        }

    def _kept(self) -> Offsets:
        # A client of its own: one from before may have lost its brokers in a fault.
        with LogReader(self._kafka) as reader:
            return {spout: reader.offset_ranges(places) for spout, places in self._places.items()}


def is_done(done: DoneSet, offset: int) -> bool:
    """Whether an offset is in a set."""
    return offset < done.offset or any(begin <= offset < end for begin, end in done.runs)


def not_done(offsets: range, done: DoneSet) -> int:
    """How many of the offsets are not in a set."""
    first = max(offsets.start, done.offset)
    behind = sum(max(0, min(end, offsets.stop) - max(begin, first)) for begin, end in done.runs)
    return max(0, offsets.stop - first) - behind
