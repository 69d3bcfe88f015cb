"""Messages and fail reasons."""

import dataclasses

import numpy as np
import pytest

from tuple_tree.messages import SESSION_BYTES, AckBatch, FailReason, NoticeBatch


def test_reasons_have_the_numbers_of_the_wire_contract() -> None:
    assert {reason.word: int(reason) for reason in FailReason} == {"failed": 1, "timeout": 2, "too_old": 3, "lost": 4}


def test_a_batch_counts_its_entries() -> None:
    ids = np.arange(3, dtype=np.uint64)
    assert len(AckBatch("w", bytes(SESSION_BYTES), 0)) == 0
    assert (
        len(
            AckBatch(
                "w",
                bytes(SESSION_BYTES),
                0,
                init_roots=ids,
                init_vals=ids,
                ack_roots=ids[:2],
                ack_vals=ids[:2],
                fail_roots=ids[:1],
                fail_messages=("",),
                reset_roots=ids,
            )
        )
        == 9
    )
    assert len(NoticeBatch(0, 0)) == 0
    assert len(NoticeBatch(0, 0, acked_roots=ids, failed_roots=ids[:1])) == 4


def test_batches_are_frozen() -> None:
    batch = AckBatch("w", bytes(SESSION_BYTES), 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.sequence = 1  # type: ignore[misc]
    assert not batch.init_roots.flags.writeable
