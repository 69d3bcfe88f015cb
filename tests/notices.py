"""Notices as the ackers write them."""

from collections.abc import Iterable, Mapping

import numpy as np

from tuple_tree.messages import FailReason, NoticeBatch, encode_notice_batch


def notice_bytes(acked: Iterable[int], failed: Mapping[int, tuple[FailReason, str]]) -> bytes:
    """A record with acked roots, and failed ones with their reasons."""
    return encode_notice_batch(
        NoticeBatch(
            acks_partition=0,
            acks_offset=1,
            acked_roots=np.array([*acked], dtype=np.uint64),
            failed_roots=np.array([*failed], dtype=np.uint64),
            fail_reasons=np.array([reason for reason, _ in failed.values()], dtype=np.uint8),
            fail_messages=tuple(message for _, message in failed.values()),
        )
    )
