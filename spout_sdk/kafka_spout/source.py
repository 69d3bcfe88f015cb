"""What a Kafka spout needs of the broker; `kafka_source` has it for Kafka, tests bring their own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from spout_sdk.kafka.commit_metadata import commit_metadata, read_commit_metadata
from spout_sdk.records import Record
from tuple_tree.positions import MAX_ATTEMPTS

_ATTEMPT: Final = "attempt"


class SourcePartition(NamedTuple):
    """A partition of a source topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class Commit:
    """What the group has committed for a partition.

    Attributes:
        offset: everything before it is done.
        next_attempt: the first attempt that no owner of the partition has used; None where another program committed.
    """

    offset: int
    next_attempt: int | None = None

    @property
    def metadata(self) -> str:
        """What stands beside the offset."""
        return "" if self.next_attempt is None else commit_metadata(_ATTEMPT, str(self.next_attempt))

    @classmethod
    def read(cls, offset: int, metadata: str | None) -> "Commit":
        """Reads a committed offset and what stands beside it.

        Raises:
            UnsupportedVersionError: if that was written by a version that this one cannot read.
        """
        digits = read_commit_metadata(_ATTEMPT, offset, metadata) or ""
        return cls(offset, int(digits) % MAX_ATTEMPTS if digits.isascii() and digits.isdigit() else None)


@dataclass(frozen=True, slots=True)
class OffsetOutOfRange:
    """That messages were deleted before they were read.

    Attributes:
        at: whose.
        expected: the offset that was to be read.
        first: the first one that is left, where reading goes on.
    """

    at: SourcePartition
    expected: int
    first: int


@dataclass(slots=True)
class Fetched:
    """What came of reading by position.

    Attributes:
        records: those that were wanted.
        gone: offsets that the source does not have any more.
        unread: offsets that could not be read in time.
    """

    records: list[Record]
    gone: list[tuple[SourcePartition, int]]
    unread: list[tuple[SourcePartition, int]]


class Source(Protocol):
    """Reads source topics, also by position, and commits for the group of the spout.

    Calls do not wait for the network unless they say so.
    """

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; waits for the answer.

        Raises:
            BrokerError: if there is no such topic, or it may not be read, or nobody answers.
        """
        ...

    def topic_id(self, topic: str) -> str:
        """What tells a topic from others of its name, as Kafka's tools print it; waits for the answer.

        Raises:
            BrokerError: as `partitions` does.
        """
        ...

    def bounds(self, at: SourcePartition) -> tuple[int, int]:
        """First offset and the one after the last; waits for the answer.

        Raises:
            BrokerError: if nobody answers.
        """
        ...

    def committed(self, of: Sequence[SourcePartition]) -> dict[SourcePartition, Commit]:
        """What the group has committed; waits for the answer.

        Raises:
            BrokerError: if nobody answers.
        """
        ...

    def commit(self, commits: Mapping[SourcePartition, Commit]) -> None:
        """Commits in the background; who made the source hears of a failure."""
        ...

    def commit_now(self, commits: Mapping[SourcePartition, Commit]) -> bool:
        """Commits, waits for it, and says whether it succeeded; why not is logged."""
        ...

    def start(self, positions: Mapping[SourcePartition, int]) -> None:
        """Begins to read these partitions as well."""
        ...

    def pause(self, of: Iterable[SourcePartition]) -> None:
        """Reads no more of these."""
        ...

    def resume(self, of: Iterable[SourcePartition]) -> None:
        """Reads on where it was paused."""
        ...

    def read(self, limit: int) -> tuple[Sequence[Record], Sequence[OffsetOutOfRange]]:
        """What is there now, in order within each partition, `limit` records at most.

        Raises:
            BrokerError: if reading cannot go on.
        """
        ...

    def lag(self) -> int:
        """Messages that are there and were not read, as far as is known without asking."""
        ...

    def fetch(self, wanted: Mapping[SourcePartition, Sequence[int]], now: float) -> None:
        """Begins to read offsets by position, in rising order for each partition; not while others are read so."""
        ...

    def fetched(self, now: float) -> Fetched | None:
        """What has come since the last call; None once nothing more will.

        Raises:
            BrokerError: if reading cannot go on.
        """
        ...

    def close(self) -> None:
        """Lets go of the broker."""
        ...
