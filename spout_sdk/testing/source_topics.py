"""Source topics in memory, as a `KafkaSpout` of a simulated cluster reads and commits them."""

from collections.abc import Mapping, Sequence

from spout_sdk.kafka_spout.source import Commit, Fetched, OffsetOutOfRange, SourcePartition
from spout_sdk.records import Record
from spout_sdk.testing.broker import CommittedOffset, MemoryBroker


class MemorySource:
    """A `spout_sdk.kafka_spout.source.Source` on a broker in memory, which keeps everything and always answers."""

    def __init__(self, broker: MemoryBroker, group: str) -> None:
        self._broker = broker
        self._group = group
        self._positions: dict[SourcePartition, int] = {}
        self._paused: set[SourcePartition] = set()
        self._wanted: Mapping[SourcePartition, Sequence[int]] | None = None

    def partitions(self, topic: str) -> int:
        return self._broker.partitions(topic)

    def topic_id(self, topic: str) -> str:
        return topic

    def bounds(self, at: SourcePartition) -> tuple[int, int]:
        return 0, self._broker.end(*at)

    def committed(self, of: Sequence[SourcePartition]) -> dict[SourcePartition, Commit]:
        commits = {at: self._broker.committed(self._group, *at) for at in of}
        return {at: Commit.read(each.offset, each.metadata) for at, each in commits.items() if each is not None}

    def commit(self, commits: Mapping[SourcePartition, Commit]) -> None:
        for at, commit in commits.items():
            self._broker.commit(self._group, *at, CommittedOffset(commit.offset, commit.metadata))

    def commit_now(self, commits: Mapping[SourcePartition, Commit]) -> bool:
        self.commit(commits)
        return True

    def start(self, positions: Mapping[SourcePartition, int]) -> None:
        self._positions.update(positions)

    def pause(self, at: SourcePartition) -> None:
        self._paused.add(at)

    def resume(self, at: SourcePartition) -> None:
        self._paused.discard(at)

    def read(self, limit: int) -> tuple[Sequence[Record], Sequence[OffsetOutOfRange]]:
        records: list[Record] = []
        for at, position in self._positions.items():
            if at not in self._paused:
                fetched = self._broker.fetch(*at, position, limit - len(records))
                self._positions[at] += len(fetched)
                records += fetched
        return records, ()

    def lag(self) -> int:
        return sum(self._broker.end(*at) - position for at, position in self._positions.items())

    def fetch(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:  # noqa: ARG002 - no waiting
        self._wanted = wanted

    def fetched(self, now: float) -> Fetched | None:  # noqa: ARG002 - as above
        if self._wanted is None:
            return None
        wanted, self._wanted = self._wanted, None
        return Fetched(
            [self._broker.fetch(*at, each, 1)[0] for at, offsets in wanted.items() for each in offsets], [], []
        )

    def close(self) -> None:
        """Nothing is held."""
