"""What is found of one root: its tuples, what the acker was told, and what the acker said."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tuple_tree.messages import FailReason, SpoutAddress

Kind = Literal["init", "ack", "fail", "reset"]
Dropped = Literal["", "repeated", "superseded", "duplicate"]
"""Why an acker does not apply an entry; empty if it does."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A tuple of the tree as it lies in an inbox."""

    bolt: str  # whose inbox
    task: int  # the partition
    offset: int  # of its record
    emitted_ms: int  # the record's timestamp, by the clock of who emitted it, in milliseconds since the epoch
    source: str  # the component that emitted it; empty if the record does not say
    stream: str  # of that component
    edge: int  # for this root
    roots: int = 1  # how many trees the tuple is in
    preview: str = ""  # the payload, shortened
    traceparent: str = ""  # the header of this name; empty if the record has none
    index: int = 0  # which of the tuples of the record
    size: int = 1  # how many tuples the record has

    @property
    def place(self) -> str:
        """The offset of its record, and which of several tuples it is."""
        return str(self.offset) if self.size == 1 else f"{self.offset}.{self.index}"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the ack log about the root."""

    kind: Kind  # what it is
    partition: int  # of the ack log
    offset: int  # of the batch in it
    at_ms: int  # the broker's append time, in milliseconds since the epoch
    writer: str  # `component/task`, or a lane of a Spark query
    val: int = 0  # of an init or an ack
    message: str = ""  # of a fail
    spout: SpoutAddress | None = None  # of an init
    dropped: Dropped = ""  # why the acker does not apply it; empty if it does

    @property
    def component(self) -> str:
        """Whose writer it is."""
        return self.writer.partition("/")[0]

    @property
    def task(self) -> int | None:
        """The writer's task; None for a lane, which stands for all tasks."""
        task = self.writer.partition("/")[2]
        return int(task) if task.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A notice about the root."""

    topic: str  # where it lies
    partition: int  # of that topic, the task of the spout
    offset: int  # in that partition
    at_ms: int  # the record's timestamp, by the acker's clock, in milliseconds since the epoch
    reason: FailReason | None  # why the tree failed; None if it was acked
    message: str = ""  # what a bolt said


@dataclass(slots=True)
class RootRecords:
    """Everything that was found of one root, in any order."""

    root: int
    deliveries: list[Delivery] = field(default_factory=list)
    entries: list[LogEntry] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


def header_text(headers: Iterable[tuple[str, Any]], name: str) -> str:
    """The header of this name, the last one of several; empty if there is none."""
    found = [value for each, value in headers if each == name]
    return (found[-1] or b"").decode(errors="replace") if found else ""
