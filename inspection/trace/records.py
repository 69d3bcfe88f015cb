"""The records of some roots: tuples, entries of the ack log, and notices, found in ack batches, notices and inboxes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

import numpy as np

from acker_worker.sessions import Sessions, Standing
from inspection.previews import Previews
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, HEAD, SOURCE_HEADER, AnchorColumns
from tuple_tree.errors import WireError
from tuple_tree.headers import TRACEPARENT
from tuple_tree.ids import ID_BYTES, IdColumn
from tuple_tree.manifest import Manifest
from tuple_tree.messages import AckBatch, FailReason, NoticeBatch, SpoutAddress, decode_ack_batch, decode_notice_batch
from tuple_tree.routing import acker_partition

Kind = Literal["init", "ack", "mark", "fail", "reset"]
DEAD_LETTER: Final = "dead letter"
"""The bolt of a node that is a dead letter: a child of the tuple that became it, by its mark. No bolt has a space."""
Dropped = Literal["", "repeated", "superseded", "duplicate"]  # why an acker does not apply an entry; empty if it does
_DROPPED: Final[dict[Standing, Dropped]] = {
    Standing.CURRENT: "",
    Standing.REPEATED: "repeated",
    Standing.SUPERSEDED: "superseded",
}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the ack log about the root."""

    kind: Kind
    partition: int
    offset: int
    at_ms: int  # the broker's append time
    writer: str  # `component/task`, or a lane of a Spark query
    val: int = 0  # of an init, an ack or a mark
    message: str = ""  # of a fail or a mark
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


class State(StrEnum):
    ACKED = "acked"
    OPEN = "open"
    FAILED = "failed"  # its task failed it
    UNCLEAR = "unclear"  # its task has sent acks that could not be distinguished


class Origin(StrEnum):
    """How it is known whose child a tuple is."""

    REPORTED = "reported"  # the init or its parent's ack holds its edge
    INFERRED = "inferred"  # only one tuple can be its parent
    AMBIGUOUS = "ambiguous"  # several can
    UNREPORTED = "unreported"
    """All that could be its parent were acked without it: its emitter was interrupted, and began again."""


@dataclass(slots=True, eq=False)
class Node:
    """A tuple of the tree: what its record in an inbox has, and what `build_tree` computes."""

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
    chain: tuple[str, ...] = ()  # components, from the one in whose task it was emitted to its source

    offsets: tuple[int, ...] = ()  # of all copies in the inbox; more than one if it was sent again
    state: State = State.OPEN
    acks: tuple[LogEntry, ...] = ()  # the entries with its edge, in order; more than one if it was executed again
    reported: tuple[LogEntry, ...] = ()  # the init, or acks of its parents, in which it is a child
    origin: Origin = Origin.AMBIGUOUS
    # Empty if it comes from the spout, or that is not known. A chain of them may be too long for `repr`.
    parents: "tuple[Node, ...]" = field(default=(), repr=False)
    committed: int | None = None  # of its bolt's consumer group in this inbox; None if that is not known

    @property
    def emitter(self) -> str:
        """The component in whose task it was emitted: its source, or the head of the chain of its source."""
        return self.chain[0] if self.chain else self.source

    @property
    def order(self) -> tuple[int, str, int, int, int]:
        """The order of tuples: by time, then by task and offset."""
        return self.emitted_ms, self.bolt, self.task, self.offset, self.index

    @property
    def place(self) -> str:
        return str(self.offset) if self.size == 1 else f"{self.offset}.{self.index}"

    @property
    def is_dead_letter(self) -> bool:
        return self.bolt == DEAD_LETTER

    @property
    def name(self) -> str:
        """`bolt/task@offset`, and `.index` if its record has several."""
        return DEAD_LETTER if self.is_dead_letter else f"{self.bolt}/{self.task}@{self.place}"

    @property
    def lag(self) -> int | None:
        """How many records before it the group has not done; negative if it has done this one too."""
        return None if self.committed is None else self.offset - self.committed


@dataclass(frozen=True, slots=True)
class Outcome:
    """A notice about the root."""

    topic: str
    partition: int  # the task of the spout
    offset: int
    at_ms: int  # the record's timestamp, by the acker's clock
    reason: FailReason | None  # why the tree failed; None if it was acked
    message: str = ""  # of the bolt that failed it, or has made a dead letter


@dataclass(slots=True)
class RootRecords:
    root: int
    nodes: list[Node] = field(default_factory=list)
    entries: list[LogEntry] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


class RecordCollector:
    """Collects the records of roots, by root, in `found`.

    Records of the ack log must be added in the order of their offsets: this shows which batches are repeats.
    """

    def __init__(self, roots: Iterable[int], manifest: Manifest) -> None:
        self.found = {root: RootRecords(root) for root in roots}
        self._partitions = manifest.ack_partitions
        self._chains = {each.name: manifest.chain(each.name) for each in manifest.components}
        self._previews = Previews(manifest)
        self._bytes = {root.to_bytes(ID_BYTES, "big") for root in self.found}
        self._wanted = np.array(sorted(self.found), dtype=np.uint64)
        self._sessions: dict[int, Sessions] = {}
        self._begun: set[int] = set()

    @property
    def ack_partitions(self) -> set[int]:
        return {acker_partition(root, self._partitions) for root in self.found}

    def add_batch(self, partition: int, offset: int, at_ms: int, value: bytes | None) -> None:
        try:
            batch = decode_ack_batch(value)
        except WireError:  # An acker skips it too.
            return
        sessions = self._sessions.setdefault(partition, Sessions())
        standing = sessions.judge(batch.writer, batch.session, batch.sequence, opens=batch.opens, offset=offset)
        if value is not None and self._mentions(value):
            self._take_batch(batch, (partition, offset, at_ms), _DROPPED[standing])

    def add_notice(self, topic: str, partition: int, offset: int, at_ms: int, value: bytes | None) -> None:
        if value is None or not self._mentions(value):
            return
        try:
            batch = decode_notice_batch(value)
        except WireError:
            return
        for root, reason, message in outcomes_of(batch):
            if root in self.found:
                self.found[root].outcomes.append(Outcome(topic, partition, offset, at_ms, reason, message))

    def add_tuple(
        self, bolt: str, task: int, offset: int, at_ms: int, headers: Sequence[tuple[str, Any]], payload: bytes | None
    ) -> None:
        # As for a bolt, the last of a name counts.
        named = dict(headers)
        anchors: bytes = named.get(ANCHORS_HEADER) or b""
        if len(anchors) == HEAD.size + ID_BYTES:
            # The common case of a record with one tuple, and nearly always of another root.
            if anchors[HEAD.size :] not in self._bytes:
                return
        elif not self._mentions(anchors):
            return
        try:
            columns = AnchorColumns.read(anchors, named.get(ANCHOR_COUNTS_HEADER))
        except WireError:
            return
        places = np.flatnonzero(np.isin(columns.roots, self._wanted))
        if not len(places):
            return
        component, _, stream = (named.get(SOURCE_HEADER) or b"").decode(errors="replace").partition("/")
        traceparent = (named.get(TRACEPARENT) or b"").decode(errors="replace")
        counts, edges = columns.counts, columns.edges
        tuples = columns.spread(np.arange(columns.tuples, dtype=np.uint64))
        for place in places.tolist():
            root, index = int(columns.roots[place]), int(tuples[place])
            preview = self._previews.of(component, stream, payload, index)
            where = bolt, task, offset, at_ms, component, stream
            also = int(edges[place]), int(counts[index]), preview, traceparent, index, columns.tuples
            chain = self._chains.get(component, (component,))
            self.found[root].nodes.append(Node(*where, *also, chain))

    def _mentions(self, value: bytes) -> bool:
        return any(root in value for root in self._bytes)

    def _take_batch(self, batch: AckBatch, at: tuple[int, int, int], dropped: Dropped) -> None:
        def take(kind: Kind, roots: IdColumn, vals: IdColumn | None = None, messages: Sequence[str] = ()) -> None:
            for row in np.flatnonzero(np.isin(roots.astype(np.uint64), self._wanted)).tolist():
                root, why, spout = int(roots[row]), dropped, None
                if kind == "init":
                    # A second init of an open root is ignored.
                    why, spout = dropped or ("duplicate" if root in self._begun else ""), batch.spout
                    if not dropped:
                        self._begun.add(root)
                val, message = 0 if vals is None else int(vals[row]), messages[row] if messages else ""
                entry = LogEntry(kind, *at, batch.writer, val, message, spout, why)
                self.found[root].entries.append(entry)
                if kind == "mark" and not why:
                    self.found[root].nodes.append(self._dead_letter(entry))

        take("init", batch.init_roots, batch.init_vals)
        take("ack", batch.ack_roots, batch.ack_vals)
        take("mark", batch.mark_roots, batch.mark_vals, batch.mark_messages)
        take("fail", batch.fail_roots, messages=batch.fail_messages)
        take("reset", batch.reset_roots)

    def _dead_letter(self, mark: LogEntry) -> Node:
        by = mark.component
        where = DEAD_LETTER, mark.task or 0, mark.offset, mark.at_ms, by, "", mark.val
        return Node(*where, preview=mark.message, chain=self._chains.get(by, (by,)), acks=(mark,))


def outcomes_of(batch: NoticeBatch) -> list[tuple[int, FailReason | None, str]]:
    """Root, reason (None if it was acked) and message of each outcome."""
    failed = zip(batch.failed_roots.tolist(), map(FailReason, batch.fail_reasons), batch.fail_messages, strict=True)
    marked = zip(batch.marked_roots.tolist(), batch.mark_messages, strict=True)
    acked = (root for root in batch.acked_roots.tolist())
    return [*((root, None, "") for root in acked), *((root, None, message) for root, message in marked), *failed]
