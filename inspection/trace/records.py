"""The records of one root: its tuples, the entries of the ack log, and notices."""

from dataclasses import dataclass, field
from typing import Literal

from tuple_tree.messages import FailReason, SpoutAddress

Kind = Literal["init", "ack", "fail", "reset"]
Dropped = Literal["", "repeated", "superseded", "duplicate"]  # why an acker does not apply an entry; empty if it does


@dataclass(frozen=True, slots=True)
class Delivery:
    """A tuple of the tree in an inbox."""

    bolt: str
    task: int
    offset: int
    emitted_ms: int  # the record's timestamp, by the clock of the task that emitted it
    source: str  # the component that emitted it; empty if the headers lack it
    stream: str
    edge: int  # for this root
    roots: int = 1  # how many trees the tuple is in
    preview: str = ""
    traceparent: str = ""
    index: int = 0  # which of the tuples of the record
    size: int = 1  # how many tuples the record has

    @property
    def order(self) -> tuple[int, str, int, int, int]:
        """By time, and by offsets where a millisecond has several."""
        return self.emitted_ms, self.bolt, self.task, self.offset, self.index

    @property
    def place(self) -> str:
        return str(self.offset) if self.size == 1 else f"{self.offset}.{self.index}"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the ack log about the root."""

    kind: Kind
    partition: int
    offset: int
    at_ms: int  # the broker's append time
    writer: str  # `component/task`, or a lane of a Spark query
    val: int = 0  # of an init or an ack
    message: str = ""  # of a fail
    spout: SpoutAddress | None = None  # of an init
    dropped: Dropped = ""

    @property
    def component(self) -> str:
        return self.writer.partition("/")[0]

    @property
    def task(self) -> int | None:
        """The writer's task; None for a lane, which acks for all tasks."""
        task = self.writer.partition("/")[2]
        return int(task) if task.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A notice about the root."""

    topic: str
    partition: int  # the task of the spout
    offset: int
    at_ms: int  # the record's timestamp, by the acker's clock
    reason: FailReason | None  # why the tree failed; None if it was acked
    message: str = ""  # of the bolt that failed it


@dataclass(slots=True)
class RootRecords:
    """All records of one root, in any order."""

    root: int
    deliveries: list[Delivery] = field(default_factory=list)
    entries: list[LogEntry] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
