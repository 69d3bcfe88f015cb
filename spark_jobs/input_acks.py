"""Write 2: acks of the inputs, and dead letters of those that cannot be used. Runs on executors.

It is made of the records alone, in the order of their offsets, so a run that is repeated writes the same batches under
the same numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spark_jobs.entries import AckLog, Record, dead_letter, record_rows
from spark_jobs.packing import Count, not_counted
from spark_jobs.records_in import InboxDecoder, RecordIn, Sources, records_of
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER, anchor_headers
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn

BATCH_BITS: Final = 20
"""Of a sequence number, below the id of the micro-batch."""


@dataclass(frozen=True)
class InputAcks:
    """Acks the inputs of a micro-batch; for `mapInArrow`, a task for each partition of the inbox."""

    topology: str
    inbox_topic: str
    sources: Sources
    log: AckLog | None
    session: bytes  # the id of the query
    batch_id: int
    count: Count = field(default=not_counted)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Acks batches of records with the columns `key`, `value`, `partition`, `offset` and `headers`."""
        decoder = InboxDecoder(self.sources)
        partitions: dict[int, _Entries] = {}
        for batch in batches:
            letters: list[Record] = []
            for record in records_of(batch):
                letters += self._take(decoder, record, partitions.setdefault(record.partition, _Entries()))
            if letters:
                yield record_rows(letters)
        if self.log is not None:
            for partition, entries in partitions.items():
                yield record_rows(list(self._batches(self.log, partition, entries)))

    def _take(self, decoder: InboxDecoder, record: RecordIn, entries: "_Entries") -> Iterator[Record]:
        """Adds the entries of a record, and yields its dead letters."""
        try:
            found = decoder.rows(record)
        except WireError as error:
            entries.fails += [(root, self._failed(error)) for root in decoder.all_roots(record)]
            yield self._letter(record, error)
            return
        good = np.ones(found.columns.num_rows, np.bool_)
        for index, why in found.errors.items():
            good[index] = False
            dead, edges, _ = found.anchors.take(np.array([index]))
            entries.fails += [(root, self._failed(why)) for root in dead.tolist()]
            payload = decoder.alone(found.source, record.value or b"", index)
            alone = record._replace(value=payload, headers=_headers_of_one(record, dead, edges))
            yield self._letter(alone, why, index)
        roots, edges, _ = found.anchors.take(np.flatnonzero(good))
        entries.roots.append(roots)
        entries.vals.append(edges)
        self.count("executed", int(good.sum()))
        self.count("acked", int(good.sum()))
        self.count("acks", len(roots))

    def _batches(self, log: AckLog, partition: int, entries: "_Entries") -> Iterator[Record]:
        nothing = np.empty(0, np.uint64)
        return log.records(
            f"{self.sources.bolt}/spark-in-{partition}",
            self.session,
            self.batch_id << BATCH_BITS,
            np.concatenate([*entries.roots, nothing]),
            np.concatenate([*entries.vals, nothing]),
            entries.fails,
        )

    def _failed(self, error: WireError) -> str:
        return f"{self.sources.bolt}: dead letter, {error}"

    def _letter(self, record: RecordIn, error: WireError, index: int | None = None) -> Record:
        self.count("dead", 1)
        return dead_letter(
            self.topology,
            (self.inbox_topic, record.partition, record.offset),
            reason=error.reason,
            detail=error.detail,
            by=f"{self.sources.bolt}/{record.partition}",
            key=record.key,
            value=record.value,
            headers=record.headers,
            index=index,
        )


class _Entries:
    """Acks and fails of the inputs of one partition, in the order of their offsets."""

    def __init__(self) -> None:
        self.roots: list[IdColumn] = []
        self.vals: list[IdColumn] = []
        self.fails: list[tuple[int, str]] = []


def _headers_of_one(record: RecordIn, roots: IdColumn, edges: IdColumn) -> list[tuple[str, bytes]]:
    own = [header for header in record.headers if header[0] not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)]
    anchors = anchor_headers([dict(zip(roots.tolist(), edges.tolist(), strict=True))])
    return [(name, value) for name, value in anchors if isinstance(value, bytes)] + own
