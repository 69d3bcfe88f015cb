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
    """A tuple of the tree as it lies in an inbox.

    Attributes:
        bolt: whose inbox.
        task: the partition.
        offset: of its record.
        index: which of the tuples of the record.
        size: how many tuples the record has.
        emitted_ms: the record's timestamp, by the clock of who emitted it, in milliseconds since the epoch.
        source: the component that emitted it; empty if the record does not say.
        stream: of that component.
        edge: for this root.
        roots: how many trees the tuple is in.
        preview: the payload, shortened.
        traceparent: the header of this name; empty if the record has none.
    """

    bolt: str
    task: int
    offset: int
    emitted_ms: int
    source: str
    stream: str
    edge: int
    roots: int = 1
    preview: str = ""
    traceparent: str = ""
    index: int = 0
    size: int = 1

    @property
    def place(self) -> str:
        """The offset of its record, and which of several tuples it is."""
        return str(self.offset) if self.size == 1 else f"{self.offset}.{self.index}"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the ack log about the root.

    Attributes:
        kind: what it is.
        partition: of the ack log.
        offset: of the batch in it.
        at_ms: the broker's append time, in milliseconds since the epoch.
        writer: `component/task`, or a lane of a Spark query.
        val: of an init or an ack.
        message: of a fail.
        spout: of an init.
        dropped: why the acker does not apply it; empty if it does.
    """

    kind: Kind
    partition: int
    offset: int
    at_ms: int
    writer: str
    val: int = 0
    message: str = ""
    spout: SpoutAddress | None = None
    dropped: Dropped = ""

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
    """A notice about the root.

    Attributes:
        topic: where it lies.
        partition: of that topic, the task of the spout.
        offset: in that partition.
        at_ms: the record's timestamp, by the acker's clock, in milliseconds since the epoch.
        reason: why the tree failed; None if it was acked.
        message: what a bolt said.
    """

    topic: str
    partition: int
    offset: int
    at_ms: int
    reason: FailReason | None
    message: str = ""


@dataclass(slots=True)
class RootRecords:
    """Everything that was found of one root, in any order.

    Attributes:
        root: its id.
    """

    root: int
    deliveries: list[Delivery] = field(default_factory=list)
    entries: list[LogEntry] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


def header_text(headers: Iterable[tuple[str, Any]], name: str) -> str:
    """The header of this name, the last one of several; empty if there is none."""
    found = [value for each, value in headers if each == name]
    return (found[-1] or b"").decode(errors="replace") if found else ""
