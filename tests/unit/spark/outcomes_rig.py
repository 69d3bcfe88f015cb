"""Deliveries and notices of a spout in Spark, for the tests of its outcomes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spark_jobs.delivering import NOTHING
from spark_jobs.outcomes import Outcomes
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.positions import MAX_OFFSET, Position, positional_root, topic_key

KEY = topic_key("GHbxwU_dQ5eLMDKfVpT7Vg")
LIMIT = 1_000
RETRIES = 2

At = tuple[int, int]
"""Partition and offset."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def roots(*positions: Position) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array([positional_root(position, KEY, 8) for position in positions], np.uint64)


def columns(partition: int, offsets: Sequence[int]) -> Any:
    return np.array([partition * MAX_OFFSET + offset for offset in offsets], np.int64)


def deliver(outcomes: Outcomes, partition: int, offsets: Sequence[int], mark: int = 0, rows: int = 0) -> None:
    delivered = NOTHING._replace(positions=columns(partition, offsets))
    outcomes.deliver(rows, lambda: mark, lambda: False, lambda: delivered)


def counted(outcomes: Outcomes, batch: NoticeBatch, by: Sequence[str] = ()) -> int:
    """How many of the notices were not ignored."""
    before = outcomes.ignored
    outcomes.read(batch, by)
    return len(batch) - outcomes.ignored + before


def acks(*positions: Position) -> NoticeBatch:
    return NoticeBatch(0, 0, acked_roots=roots(*positions))


def fails(*positions: Position, reason: FailReason = FailReason.FAILED, message: str = "") -> NoticeBatch:
    reasons, messages = np.full(len(positions), reason, np.uint8), (message,) * len(positions)
    return NoticeBatch(0, 0, failed_roots=roots(*positions), fail_reasons=reasons, fail_messages=messages)


def ack(outcomes: Outcomes, *positions: Position) -> int:
    return counted(outcomes, acks(*positions))


def fail(outcomes: Outcomes, *positions: Position, by: str = "", **failed: Any) -> int:
    return counted(outcomes, fails(*positions, **failed), (by,) * len(positions))


def taken(outcomes: Outcomes, most: int = 10, span: int = 100) -> dict[At, int]:
    """The attempts of a round of replays."""
    replays = outcomes.take_due(most, span)
    if replays is None:
        return {}
    places = [divmod(position, MAX_OFFSET) for position in replays.positions.tolist()]
    return dict(zip(places, replays.attempts.tolist(), strict=True))
