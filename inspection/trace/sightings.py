"""The records of some roots in batches of the ack log, in notices and in the headers of tuples."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from acker_worker.sessions import Sessions, Standing
from inspection.trace.records import Delivery, Dropped, LogEntry, Outcome, RootRecords
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, PAIR_BYTES, SOURCE_HEADER, edges_of_tuples
from tuple_tree.errors import WireError
from tuple_tree.headers import TRACEPARENT
from tuple_tree.ids import ID_BYTES, IdColumn
from tuple_tree.messages import AckBatch, FailReason, NoticeBatch, decode_ack_batch, decode_notice_batch
from tuple_tree.routing import acker_partition

_DROPPED: Final[dict[Standing, Dropped]] = {
    Standing.CURRENT: "",
    Standing.REPEATED: "repeated",
    Standing.SUPERSEDED: "superseded",
}


class Sightings:
    """`found` has the records of each root.

    Records of the ack log must come in the order of their offsets, from which it follows which batches are repeats.
    """

    def __init__(self, roots: Iterable[int], partitions: int) -> None:
        self.found = {root: RootRecords(root) for root in roots}
        self._partitions = partitions
        self._bytes = {root.to_bytes(ID_BYTES, "big"): root for root in self.found}
        self._wanted = np.array(sorted(self.found), dtype=np.uint64)
        self._sessions: dict[int, Sessions] = {}
        self._begun: set[int] = set()

    @property
    def ack_partitions(self) -> set[int]:
        return {acker_partition(root, self._partitions) for root in self.found}

    def see_batch(self, partition: int, offset: int, at_ms: int, value: bytes | None) -> None:
        try:
            batch = decode_ack_batch(value)
        except WireError:  # An acker skips it too.
            return
        sessions = self._sessions.setdefault(partition, Sessions())
        standing = sessions.judge(batch.writer, batch.session, batch.sequence, opens=batch.opens, offset=offset)
        if value is not None and self._mentions(value):
            self._take_batch(batch, (partition, offset, at_ms), _DROPPED[standing])

    def see_notice(self, topic: str, partition: int, offset: int, at_ms: int, value: bytes | None) -> None:
        if value is None or not self._mentions(value):
            return
        try:
            batch = decode_notice_batch(value)
        except WireError:
            return
        for root, reason, message in outcomes_of(batch):
            if root in self.found:
                self.found[root].outcomes.append(Outcome(topic, partition, offset, at_ms, reason, message))

    def see_tuple(
        self, bolt: str, task: int, offset: int, at_ms: int, headers: Sequence[tuple[str, Any]]
    ) -> list[tuple[RootRecords, Delivery]]:
        """The tuples of an inbox record that belong to the roots, without previews, each with its root's records."""
        # As for a bolt, the last of a name counts.
        named = dict(headers)
        anchors: bytes = named.get(ANCHORS_HEADER) or b""
        if len(anchors) == PAIR_BYTES:
            # The common case, and nearly always of another root.
            if anchors[:ID_BYTES] not in self._bytes:
                return []
        elif not self._mentions(anchors):
            return []
        try:
            edges = edges_of_tuples(anchors, named.get(ANCHOR_COUNTS_HEADER))
        except WireError:
            return []
        component, _, stream = (named.get(SOURCE_HEADER) or b"").decode(errors="replace").partition("/")
        traceparent = (named.get(TRACEPARENT) or b"").decode(errors="replace")
        return [
            (
                self.found[root],
                Delivery(
                    *(bolt, task, offset, at_ms, component, stream),
                    each[root],
                    len(each),
                    traceparent=traceparent,
                    index=index,
                    size=len(edges),
                ),
            )
            for index, each in enumerate(edges)
            for root in each
            if root in self.found
        ]

    def _mentions(self, value: bytes) -> bool:
        return any(root in value for root in self._bytes)

    def _take_batch(self, batch: AckBatch, at: tuple[int, int, int], dropped: Dropped) -> None:
        for row, root in self._rows(batch.init_roots):
            # A second init of an open root is ignored.
            ignored: Dropped = dropped or ("duplicate" if root in self._begun else "")
            if not dropped:
                self._begun.add(root)
            entry = LogEntry("init", *at, batch.writer, int(batch.init_vals[row]), "", batch.spout, ignored)
            self.found[root].entries.append(entry)
        for row, root in self._rows(batch.ack_roots):
            val = int(batch.ack_vals[row])
            self.found[root].entries.append(LogEntry("ack", *at, batch.writer, val, dropped=dropped))
        for row, root in self._rows(batch.fail_roots):
            message = batch.fail_messages[row]
            self.found[root].entries.append(LogEntry("fail", *at, batch.writer, message=message, dropped=dropped))
        for _, root in self._rows(batch.reset_roots):
            self.found[root].entries.append(LogEntry("reset", *at, batch.writer, dropped=dropped))

    def _rows(self, roots: IdColumn) -> list[tuple[int, int]]:
        """The rows of a column that have one of the roots, each with it."""
        rows = np.flatnonzero(np.isin(roots.astype(np.uint64), self._wanted)) if len(roots) else ()
        return [(int(row), int(roots[row])) for row in rows]


def outcomes_of(batch: NoticeBatch) -> list[tuple[int, FailReason | None, str]]:
    """Root, reason (None if it was acked) and message of each outcome."""
    failed = zip(batch.failed_roots.tolist(), map(FailReason, batch.fail_reasons), batch.fail_messages, strict=True)
    return [*((root, None, "") for root in batch.acked_roots.tolist()), *failed]
