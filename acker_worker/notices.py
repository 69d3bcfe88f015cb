"""Outcomes as notice batches that are small enough for any broker."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from acker_worker.fold import SpoutOutcomes
from tuple_tree.ids import IdColumn
from tuple_tree.messages import NoticeBatch

_BATCH_ROOTS: Final = 16_384  # most roots in one notice batch: 128 KiB of ids, far from a broker's largest record
_BATCH_FAILS: Final = 256
"""Most failed roots in one, since each may carry a text: half a megabyte if all are as long as they may be."""


def notice_batches(partition: int, position: int, outcomes: SpoutOutcomes) -> Iterator[NoticeBatch]:
    """The outcomes for one spout task, in the order in which they were decided, acks first.

    The fold of the partition has applied everything before offset `position`.
    """
    if outcomes.acked:
        acked: IdColumn = np.concatenate(outcomes.acked) if len(outcomes.acked) > 1 else outcomes.acked[0]
        for start in range(0, len(acked), _BATCH_ROOTS):
            yield NoticeBatch(partition, position, acked_roots=acked[start : start + _BATCH_ROOTS])
    for start in range(0, len(outcomes.failed), _BATCH_FAILS):
        roots, reasons, messages, failed_by = zip(*outcomes.failed[start : start + _BATCH_FAILS], strict=True)
        yield NoticeBatch(
            partition,
            position,
            failed_roots=np.array(roots, dtype=np.uint64),
            fail_reasons=np.array(reasons, dtype=np.uint8),
            fail_messages=messages,
            failed_by=failed_by,
        )
