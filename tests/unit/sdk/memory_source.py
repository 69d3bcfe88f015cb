"""Source topics in memory, and a group that commits for them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition

from spout_sdk.errors import BrokerError
from spout_sdk.kafka.kafka_reader import KafkaReader
from spout_sdk.kafka_spout.kafka_source import Fetched, KafkaSource, OffsetOutOfRange
from spout_sdk.records import Record
from spout_sdk.testing import MemoryRecord
from tuple_tree.positions import MAX_PARTITIONS, Position, position_of, topic_key
from tuple_tree.source_commits import SourceCommit
from tuple_tree.source_partition import SourcePartition


class MemoryTopics:
    """Topics with any offsets, and the committed offsets of a group."""

    def __init__(self, **partitions: int) -> None:
        self.logs: dict[SourcePartition, dict[int, MemoryRecord]] = {
            SourcePartition(topic, partition): {} for topic, count in partitions.items() for partition in range(count)
        }
        self.first: dict[SourcePartition, int] = defaultdict(int)
        self.markers: dict[SourcePartition, int] = defaultdict(int)  # of transactions, at the end
        self.commits: dict[SourcePartition, SourceCommit] = {}
        self.generation = 0
        self.is_down = False
        self.refuses_commits = False

    def create_again(self) -> None:
        """Deletes all topics and the committed offsets of the group, and creates them again."""
        self.logs = {at: {} for at in self.logs}
        self.first.clear()
        self.commits.clear()
        self.generation += 1

    def topic_id(self, topic: str) -> str:
        return f"{topic}-{self.generation}"

    def position(self, root: int, spout: int, partitions: int = 2) -> Position:
        """The position of a root's message; the partition is the number in positional roots."""
        topics = dict.fromkeys(at.topic for at in self.logs)
        found = (position_of(root, topic_key(self.topic_id(topic)), partitions) for topic in topics)
        share = MAX_PARTITIONS // len(topics)
        return next(each for each in found if each.spout == spout and each.partition % share < len(self.logs))

    def grow(self, topic: str, count: int) -> None:
        for partition in range(count):
            self.logs.setdefault(SourcePartition(topic, partition), {})

    def add(self, topic: str, partition: int, offset: int, value: bytes | None, **more: Any) -> None:
        """Adds a message, with a key or headers as of a `MemoryRecord`."""
        self.logs[SourcePartition(topic, partition)][offset] = MemoryRecord(topic, partition, offset, value, **more)

    def fill(self, topic: str, partition: int, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self.add(topic, partition, offset, f"{topic}/{partition}@{offset}".encode())

    def delete(self, topic: str, partition: int, offset: int) -> None:
        """As compaction does."""
        del self.logs[SourcePartition(topic, partition)][offset]

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """As retention does."""
        at = SourcePartition(topic, partition)
        self.first[at] = offset
        self.logs[at] = {each: record for each, record in self.logs[at].items() if each >= offset}

    def end(self, at: SourcePartition) -> int:
        return max(self.logs[at], default=self.first[at] - 1) + 1 + self.markers[at]

    def committed(self, topic: str = "source", partition: int = 0) -> int | None:
        found = self.commits.get(SourcePartition(topic, partition))
        return None if found is None else found.offset


class MemoryReader(KafkaReader):
    """The member of the group that commits for a source."""

    def __init__(self, source: "MemorySource") -> None:
        self._source = source
        self._last_commits = {}

    def begin_commit(self, offsets: list[TopicPartition]) -> None:
        if not self.commit_and_wait(offsets, 0.0):
            self.forget_commits()

    def commit_and_wait(self, offsets: list[TopicPartition], seconds: float) -> bool:
        if self._source.topics.refuses_commits or self._source.is_fenced:
            return False
        for each in offsets:
            at = SourcePartition(each.topic, each.partition)
            self._source.topics.commits[at] = SourceCommit.read(each.offset, each.metadata)
        return True


class MemorySource(KafkaSource):
    """The source of a task, on `MemoryTopics`; `is_fenced` once the group has taken its partitions away."""

    def __init__(self, topics: MemoryTopics) -> None:
        self.topics = topics
        self._member = self.reader = MemoryReader(self)
        self.positions: dict[SourcePartition, int] = {}
        self.paused: set[SourcePartition] = set()
        self.wanted: list[tuple[SourcePartition, int]] = []
        self.is_closed = False
        self.is_fenced = False

    def partitions(self, topic: str) -> int:
        self._ask()
        return sum(at.topic == topic for at in self.topics.logs)

    def topic_id(self, topic: str) -> str:
        self._ask()
        return self.topics.topic_id(topic)

    def bounds(self, at: SourcePartition) -> tuple[int, int]:
        self._ask()
        return self.topics.first[at], self.topics.end(at)

    def committed(self, of: Sequence[SourcePartition]) -> dict[SourcePartition, SourceCommit]:
        self._ask()
        return {
            at: SourceCommit.read(found.offset, found.made().metadata)
            for at in of
            if (found := self.topics.commits.get(at)) is not None
        }

    def start(self, positions: Mapping[SourcePartition, int]) -> None:
        assert not positions.keys() & self.positions.keys()
        self.positions.update(positions)

    def pause(self, at: SourcePartition) -> None:
        self.paused.add(at)

    def resume(self, at: SourcePartition) -> None:
        self.paused.discard(at)

    def read(self, limit: int, seconds: float = 0.0) -> tuple[Sequence[Record], Sequence[OffsetOutOfRange]]:
        records: list[Record] = []
        out_of_range: list[OffsetOutOfRange] = []
        for at in self.positions.keys() - self.paused:
            log, first = self.topics.logs[at], self.topics.first[at]
            if self.positions[at] < first:
                out_of_range.append(OffsetOutOfRange(at, self.positions[at], first))
                self.positions[at] = first
            end = max(log, default=-1) + 1
            while self.positions[at] < end and len(records) < limit:
                if (record := log.get(self.positions[at])) is not None:
                    records.append(record)
                self.positions[at] += 1
        return records, out_of_range

    def take_ends(self) -> Mapping[SourcePartition, int]:
        ends = {at: self.topics.end(at) for at in self.positions.keys() - self.paused}
        # It may report an end again.
        return {at: end for at, end in ends.items() if self.positions[at] >= end - self.topics.markers[at]}

    def lag(self, at: SourcePartition) -> int:
        return max(0, self.topics.end(at) - self.positions[at])

    def fetch(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:
        assert not self.wanted
        assert all(list(offsets) == sorted(offsets) for offsets in wanted.values())
        self.wanted = [(at, offset) for at, offsets in wanted.items() for offset in offsets]

    def fetched(self, now: float) -> Fetched | None:
        wanted, self.wanted = self.wanted, []
        if not wanted:
            return None
        if self.topics.is_down:
            return Fetched([], [], wanted)
        there = [self.topics.logs[at].get(offset) for at, offset in wanted]
        gone = [at for at, record in zip(wanted, there, strict=True) if record is None]
        return Fetched([record for record in there if record is not None], gone, [])

    def close(self) -> None:
        self.is_closed = True

    def _ask(self) -> None:
        if self.topics.is_down:
            raise BrokerError("no answer")
