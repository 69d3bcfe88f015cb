"""What a Kafka spout needs of the broker; `kafka_source` has it for Kafka, tests bring their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from spout_sdk.kafka.commit_metadata import commit_metadata, read_commit_metadata
from spout_sdk.records import Record
from tuple_tree.positions import MAX_ATTEMPTS

_ATTEMPT: Final = "attempt"


class SourcePartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class Commit:
    """What the group has committed for a partition: everything before the offset is done."""

    offset: int
    next_attempt: int | None = None
    """The first attempt that no owner of the partition has used; None where another program committed."""

    @property
    def metadata(self) -> str:
        return "" if self.next_attempt is None else commit_metadata(_ATTEMPT, str(self.next_attempt))

    @classmethod
    def read(cls, offset: int, metadata: str | None) -> "Commit":
        """Reads a committed offset and what stands beside it."""
        digits = read_commit_metadata(_ATTEMPT, offset, metadata) or ""
        return cls(offset, int(digits) % MAX_ATTEMPTS if digits.isascii() and digits.isdigit() else None)


@dataclass(frozen=True, slots=True)
class OffsetOutOfRange:
    """Messages from `expected` on were deleted before they were read; reading goes on at `first`."""

    at: SourcePartition
    expected: int
    first: int


@dataclass(slots=True)
class Fetched:
    """What came of reading by position: records, offsets that retention has deleted, and those not read in time."""

    records: list[Record]
    gone: list[tuple[SourcePartition, int]]
    unread: list[tuple[SourcePartition, int]]


class Source(Protocol):
    """Reads source topics, also by position, and commits for the group of the spout.

    Calls do not wait for the network unless they say so. They raise `BrokerError` if no broker answers, a topic does
    not exist or may not be read, or reading cannot go on.
    """

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; waits for the answer."""

    def topic_id(self, topic: str) -> str:
        """The topic id, as Kafka's tools print it; waits for the answer."""

    def bounds(self, at: SourcePartition) -> tuple[int, int]:
        """First offset and the one after the last; waits for the answer."""

    def committed(self, of: Sequence[SourcePartition]) -> dict[SourcePartition, Commit]:
        """What the group has committed; waits for the answer."""

    def commit(self, commits: Mapping[SourcePartition, Commit]) -> None:
        """Commits in the background; a failure is reported to the callback that the source was made with."""

    def commit_now(self, commits: Mapping[SourcePartition, Commit]) -> bool:
        """Commits, waits, and returns whether it succeeded; a failure is logged."""

    def start(self, positions: Mapping[SourcePartition, int]) -> None:
        """Begins to read these partitions as well."""

    def pause(self, at: SourcePartition) -> None:
        """Reads no more of a partition."""

    def resume(self, at: SourcePartition) -> None:
        """Reads on where it was paused."""

    def read(self, limit: int) -> tuple[Sequence[Record], Sequence[OffsetOutOfRange]]:
        """What is there now, in order within each partition, `limit` records at most."""

    def lag(self) -> int:
        """Messages that are there and were not read, as far as is known without asking."""

    def fetch(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:
        """Begins to read offsets by position, in rising order for each partition; not while others are read so."""

    def fetched(self, now: float) -> Fetched | None:
        """What has come since the last call; None once nothing more will."""

    def close(self) -> None:
        """Lets go of the broker."""
