"""What executors write into the ack log: rows of Spark's Kafka sink, made of columns of entries."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tuple_tree.codec import encode_ack_batch
from tuple_tree.ids import IdColumn
from tuple_tree.messages import SESSION_BYTES, AckBatch

ENTRIES: Final = 4096
"""Of a batch, at most."""

OUT: Final = "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
"""Rows of Spark's Kafka sink."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OUT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
    ]
)

Record = tuple[str, int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""Topic, partition, key, value and headers."""


def record_rows(records: Sequence[Record]) -> Any:
    """Records as a record batch of the type `OUT`."""
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": value} for name, value in headers],
        }
        for topic, partition, key, value, headers in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_OUT)


@dataclass(frozen=True)
class AckLog:
    """The ack log of a topology; picklable.

    Attributes:
        topic: `{topology}.acks`.
        partitions: P of `root mod P`.
    """

    topic: str
    partitions: int

    def records(
        self,
        writer: str,
        session: bytes,
        sequence: int,
        roots: IdColumn,
        vals: IdColumn,
        fails: Sequence[tuple[int, str]] = (),
    ) -> Iterator[Record]:
        """The batches with some entries, `ENTRIES` each at most; the entries of a partition keep their order.

        Args:
            writer: of the batches.
            session: of the writer, 16 bytes.
            sequence: of the first batch on each partition; it rises from there.
            roots: shape `(n,)`.
            vals: shape `(n,)`.
            fails: root and message of each tree that fails.
        """
        owners = (roots % np.uint64(self.partitions)).astype(np.intp)
        order = np.argsort(owners, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=self.partitions)).tolist()
        begin = 0
        for partition, end in enumerate(ends):
            mine = order[begin:end]
            begin = end
            failed = [fail for fail in fails if fail[0] % self.partitions == partition]
            for number, first in enumerate(range(0, max(len(mine), len(failed)), ENTRIES)):
                some, fails_here = mine[first : first + ENTRIES], failed[first : first + ENTRIES]
                batch = AckBatch(
                    writer=writer,
                    session=session,
                    sequence=sequence + number,
                    ack_roots=roots[some],
                    ack_vals=vals[some],
                    fail_roots=np.array([root for root, _ in fails_here], np.uint64),
                    fail_messages=tuple(message for _, message in fails_here),
                )
                yield self.topic, partition, None, encode_ack_batch(batch), ()


def new_session() -> bytes:
    """A session that no other writer has."""
    return os.urandom(SESSION_BYTES)


def merged(roots: Sequence[IdColumn], vals: Sequence[IdColumn]) -> tuple[IdColumn, IdColumn]:
    """Entries with one for each root: the XOR of its values."""
    if not roots:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    every, of = np.unique(np.concatenate(roots), return_inverse=True)
    sums = np.zeros(len(every), np.uint64)
    np.bitwise_xor.at(sums, of, np.concatenate(vals))
    return every, sums
