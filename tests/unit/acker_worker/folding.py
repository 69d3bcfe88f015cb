"""Drives a fold without Kafka: records with offsets and append times, outcomes as plain tuples."""

from collections.abc import Iterable

import numpy as np

from acker_worker import kernels
from acker_worker.fold import LogRecord, PartitionFold, Step
from acker_worker.ledger import MULTIPLIER, Ledger, LedgerSettings, Outcomes, Run
from tuple_tree.ids import IdColumn
from tuple_tree.messages import AckBatch, SpoutAddress, encode_ack_batch

TICK_MS = 100
SPOUT = SpoutAddress("t.notices.s", 3, 2 * TICK_MS)
SETTINGS = LedgerSettings(tick_ms=TICK_MS, max_age_ms=20 * TICK_MS, orphan_timeout_ms=2 * TICK_MS)
START_MS = 1_700_000_000_000

Outcome = tuple[SpoutAddress, int, str]


def column(*ids: int) -> IdColumn:
    return np.array(ids, dtype=">u8")


class RuleLedger(Ledger):
    """A ledger with a method for each rule, which applies it to some roots at once."""

    def init(self, roots: IdColumn, vals: IdColumn, spout: SpoutAddress) -> Outcomes:
        return self._apply_one(kernels.INIT, roots, vals, self.index_of(spout))

    def ack(self, roots: IdColumn, vals: IdColumn) -> Outcomes:
        return self._apply_one(kernels.ACK, roots, vals)

    def fail(self, roots: IdColumn) -> Outcomes:
        return self._apply_one(kernels.FAIL, roots)

    def reset(self, roots: IdColumn) -> Outcomes:
        return self._apply_one(kernels.RESET, roots)

    def records(self) -> dict[int, tuple[int, bool, bool]]:
        """By root: checksum, whether the spout is known, whether it failed; the table has to be sorted."""
        slots = self._table.reshape(-1, kernels.WORDS)
        held = slots[slots[:, 2] != 0]
        assert (held[1:, 0] > held[:-1, 0]).all()
        roots = held[:, 0] * np.uint64(pow(MULTIPLIER, -1, 2**64))
        known, failed = held[:, 2] & kernels.KNOWN != 0, held[:, 2] & kernels.FAILED != 0
        records = zip(held[:, 1].tolist(), known.tolist(), failed.tolist(), strict=True)
        return dict(zip(roots.tolist(), records, strict=True))

    def _apply_one(self, rule: int, roots: IdColumn, vals: IdColumn | None = None, spout: int = 0) -> Outcomes:
        return self.apply([Run(rule, roots, vals, spout)])


def outcomes(step: Step) -> list[Outcome]:
    """The outcomes, as (spout, root, `ack` or the fail reason), sorted since order between spouts has no meaning."""
    notified: list[Outcome] = []
    for spout, outcome in step.outcomes.items():
        notified += [(spout, root, "ack") for roots in outcome.acked for root in roots.tolist()]
        notified += [(spout, root, reason.word) for root, reason, *_ in outcome.failed]
    return notified


class Log:
    """Writes a log of one partition, as a broker would."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.records: list[LogRecord] = []
        self.now_ms = now_ms
        self._sequences: dict[tuple[str, bytes], int] = {}

    def append(self, batch: AckBatch) -> LogRecord:
        return self.append_bytes(encode_ack_batch(batch))

    def append_bytes(self, value: bytes | None) -> LogRecord:
        record = LogRecord(len(self.records), self.now_ms, value)
        self.records.append(record)
        return record

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
        spout: SpoutAddress = SPOUT,
        message: str = "no",
    ) -> LogRecord:
        """Appends the next batch of the writer."""
        sequence = self._sequences.get((writer, session), -1) + 1
        self._sequences[writer, session] = sequence
        inits, acks, fails = list(inits), list(acks), list(fails)
        return self.append(
            AckBatch(
                writer=writer,
                session=session,
                sequence=sequence,
                opens=opens,
                spout=spout if inits else None,
                init_roots=column(*(root for root, _ in inits)),
                init_vals=column(*(val for _, val in inits)),
                ack_roots=column(*(root for root, _ in acks)),
                ack_vals=column(*(val for _, val in acks)),
                fail_roots=column(*fails),
                fail_messages=tuple(message for _ in fails),
                reset_roots=column(*resets),
            )
        )

    def tick(self, ticks: int = 1) -> None:
        self.now_ms += ticks * TICK_MS


def new_fold(partitions: int = 1, partition: int = 0) -> PartitionFold:
    return PartitionFold(partition, partitions, SETTINGS)
