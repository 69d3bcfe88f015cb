"""Write 2: acks of the inputs. Runs on executors.

It is made of the `anchors` headers alone, in the order of the records' offsets, so a run that is repeated writes the
same batches under the same numbers. What cannot be decoded is acked as well: `Unpack` has failed its trees.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.entries import AckLog, record_rows
from spark_jobs.packing import Count, not_counted
from tuple_tree.anchors import ANCHORS_HEADER, PAIR_BYTES
from tuple_tree.ids import IdColumn, unpack_ids

BATCH_BITS: Final = 20
"""Of a sequence number, below the id of the micro-batch."""


@dataclass(frozen=True)
class InputAcks:
    """Acks the inputs of a micro-batch; for `mapInArrow`. A task has whole partitions of the inbox."""

    bolt: str
    log: AckLog
    session: bytes  # the id of the query
    batch_id: int
    count: Count = field(default=not_counted)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Acks batches of records with the columns `partition` and `headers`."""
        partitions: dict[int, list[IdColumn]] = defaultdict(list)
        for batch in batches:
            owners = batch.column("partition").to_numpy()
            for partition in np.unique(owners).tolist():
                partitions[partition].append(_anchors(batch.column("headers").filter(pa.array(owners == partition))))
        for partition, several in partitions.items():
            ids = np.concatenate(several)
            self.count("acks", len(ids) // 2)
            yield record_rows(list(self.log.records(partial(self._identity, partition), ids[::2], ids[1::2])))

    def _identity(self, partition: int, number: int) -> tuple[str, bytes, int]:
        return f"{self.bolt}/spark-in-{partition}", self.session, (self.batch_id << BATCH_BITS) + number


def _anchors(headers: Any) -> IdColumn:
    """Root and edge, in turn, of the anchors of records, by a column of their headers.

    A root that stands twice is added twice, which is the XOR of its edges. Of a header that is not whole nothing is
    acked.
    """
    pairs = headers.flatten()
    places = np.flatnonzero(pc.equal(pairs.field("key"), ANCHORS_HEADER).to_numpy(zero_copy_only=False))
    if not len(places):
        return np.empty(0, np.uint64)
    # The last header of a name is the one that counts, here and in `Unpack`.
    record = np.repeat(np.arange(len(headers)), np.diff(headers.offsets.to_numpy()))[places]
    values = pairs.field("value").take(pa.array(places[np.append(record[1:] != record[:-1], True)]))
    whole = pc.equal(pc.bit_wise_and(pc.binary_length(values), PAIR_BYTES - 1), 0)
    return unpack_ids(b"".join(values.filter(whole).to_pylist())).astype(np.uint64)
