"""The ack log in memory: ack batches of spouts and bolts, in any order, and the ackers' folds over them."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from acker_worker.fold import LogRecord, PartitionFold, Step
from acker_worker.ledger import LedgerSettings
from tuple_tree.anchors import Edges
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, SpoutAddress, encode_ack_batch

TICK_MS = 100
SPOUT = SpoutAddress("t.notices.s", 3, 2 * TICK_MS)
SETTINGS = LedgerSettings(tick_ms=TICK_MS, max_age_ms=20 * TICK_MS, orphan_timeout_ms=2 * TICK_MS)
START_MS = 1_700_000_000_000

Outcome = tuple[SpoutAddress, int, str]


def column(*ids: int) -> IdColumn:
    return np.array(ids, dtype=">u8")


def outcomes(step: Step) -> list[Outcome]:
    """The outcomes, as (spout, root, `ack`, `marked` or the fail reason), by spout, without an order."""
    notified: list[Outcome] = []
    for spout, outcome in step.outcomes.items():
        notified += [(spout, root, "ack") for roots in outcome.acked for root in roots.tolist()]
        notified += [(spout, root, "marked") for root, *_ in outcome.marked]
        notified += [(spout, root, reason.word) for root, reason, *_ in outcome.failed]
    return notified


def acked_roots(step: Step) -> set[int]:
    return {root for _, root, outcome in outcomes(step) if outcome in ("ack", "marked")}


def new_fold(partitions: int = 1, partition: int = 0) -> PartitionFold:
    return PartitionFold(partition, partitions, SETTINGS)


class Log:
    """Writes a log of one partition, as a broker would."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.records: list[LogRecord] = []
        self.now_ms = now_ms
        self._sequences: dict[tuple[str, bytes], int] = defaultdict(int)

    def append(self, value: bytes | None) -> LogRecord:
        self.records.append(LogRecord(len(self.records), self.now_ms, value))
        return self.records[-1]

    def send(
        self,
        *,
        writer: str = "b/0",
        session: bytes = bytes(16),
        opens: bool = False,
        inits: Iterable[tuple[int, int]] = (),
        acks: Iterable[tuple[int, int]] = (),
        fails: Iterable[int] = (),
        resets: Iterable[int] = (),
        marks: Iterable[tuple[int, int]] = (),
        spout: SpoutAddress = SPOUT,
        message: str = "no",
    ) -> LogRecord:
        """Appends the next batch of the writer."""
        inits, acks, fails, marks = list(inits), list(acks), list(fails), list(marks)
        batch = AckBatch(
            writer=writer,
            session=session,
            sequence=self._sequences[writer, session],
            opens=opens,
            spout=spout if inits else None,
            init_roots=column(*(root for root, _ in inits)),
            init_vals=column(*(val for _, val in inits)),
            ack_roots=column(*(root for root, _ in acks)),
            ack_vals=column(*(val for _, val in acks)),
            fail_roots=column(*fails),
            fail_messages=(message,) * len(fails),
            reset_roots=column(*resets),
            mark_roots=column(*(root for root, _ in marks)),
            mark_vals=column(*(val for _, val in marks)),
            mark_messages=(message,) * len(marks),
        )
        self._sequences[writer, session] += 1
        return self.append(encode_ack_batch(batch))

    def tick(self, ticks: int = 1) -> None:
        self.now_ms += ticks * TICK_MS


class FoldedLog:
    """All partitions of a log, which are folded as they are written.

    Attributes:
        acked: roots with an ack among their outcomes.
        failed: root → message of its last fail.
    """

    def __init__(self, partitions: int, settings: LedgerSettings) -> None:
        self.folds = [PartitionFold(partition, partitions, settings) for partition in range(partitions)]
        self.now_ms = START_MS
        self.acked: set[int] = set()
        self.failed: dict[int, str] = {}
        self._logs = [Log() for _ in range(partitions)]

    def append(self, partition: int, value: bytes | None) -> Step:
        return self._fold(partition, self._log(partition).append(value))

    def send(self, root: int, **entries: Any) -> Step:
        """Appends a batch with entries of one root, as `Log.send`."""
        partition = root % len(self.folds)
        return self._fold(partition, self._log(partition).send(**entries))

    def init(self, trees: Edges) -> None:
        for root, val in trees.items():
            self.send(root, inits=[(root, val)])

    def ack(self, edges: Edges) -> set[int]:
        """Acks a tuple without children; returns the roots whose trees are acked by it."""
        return set().union(*(acked_roots(self.send(root, acks=[(root, edge)])) for root, edge in edges.items()))

    def _log(self, partition: int) -> Log:
        self._logs[partition].now_ms = self.now_ms
        return self._logs[partition]

    def _fold(self, partition: int, record: LogRecord) -> Step:
        step = self.folds[partition].apply([record])
        assert not step.rejected
        self.acked |= acked_roots(step)
        self.failed |= {root: message for each in step.outcomes.values() for root, _, message, _ in each.failed}
        return step
