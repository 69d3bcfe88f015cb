"""Emits tuples that come when all their windows have closed to a stream, or logs them."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafka_clients.repeated_lines import EACH, SECONDS, get_logger
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import Tuple

logger = get_logger("spout_sdk.windows")

LATE: Final = "late tuples"
"""The user counter of tuples that came when all their windows had closed."""
UNSEEN: Final = "in no window"
"""The user counter of tuples between windows, if the interval is longer than a window."""
_ADVICE: Final = (
    "If the messages of a source partition are not in the order of their time, use with_lag(); if a source was idle, "
    "use a longer with_idle_sources(); to let windows take late tuples, use with_grace()"
)


class LateTuples:
    """Handles the late tuples of a task.

    Args:
        stream: the stream that they are emitted to; None to log them.
    """

    def __init__(self, context: TaskContext, stream: str | None) -> None:
        self._context = context
        self.stream = stream
        self.fields: Sequence[str] = ()
        if stream is not None:
            self.fields = context.manifest.stream(context.component, stream).field_names
        self._unlogged, self._log_at = 0, -math.inf

    def take(self, tuple_: Tuple, emit: Callable[[Sequence[Any], str], object]) -> None:
        """Counts a tuple, and emits it to the stream with `emit`, or logs it."""
        if self.stream is not None:
            emit([tuple_[field] for field in self.fields], self.stream)
        self.count(1, tuple_.offset)

    def count(self, tuples: int, offset: int) -> None:
        """Counts late tuples; without a stream, logs them with the offset of the last one. `take` calls it."""
        self._context.count(LATE, tuples)
        if self.stream is not None:
            return
        self._unlogged += tuples
        if (now := self._context.now()) < self._log_at:
            return
        logger.warning(
            "%s/%d: %d late tuples, the last at offset %d, came when all their windows had closed; they are acked and "
            "in no window. %s, or send late tuples to a stream, with_late_tuple_stream()",
            *(self._context.component, self._context.task, self._unlogged, offset, _ADVICE),
            extra=EACH,
        )
        self._unlogged, self._log_at = 0, now + SECONDS
