"""When a failed message is delivered again, and when it is no longer tried. No clock in here: time is passed in."""

import heapq
from dataclasses import dataclass
from typing import Final

from spout_sdk.errors import TopologyError

_ROUNDING_S: Final = 1e-6
"""What adding delays to times in floating point may be off."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff, as Storm's `KafkaSpoutRetryExponentialBackoff`.

    The first failure is retried after `initial_delay`, the n-th after `delay_period * 2 ** (n - 1)`, none later than
    `max_delay`. It is retried until it is acked; with `max_retries` it becomes a dead letter after so many
    retries.

    Attributes:
        initial_delay: seconds.
        delay_period: seconds.
        max_delay: seconds.
        max_retries: deliveries after the first one; None, the default, for no limit.

    Raises:
        TopologyError: if a number cannot be.
    """

    initial_delay: float = 0.0
    delay_period: float = 0.1
    max_delay: float = 10.0
    max_retries: int | None = None

    def __post_init__(self) -> None:
        for name in ("initial_delay", "delay_period", "max_delay"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
                raise TopologyError(
                    f"{name} of a RetryPolicy is {seconds!r}: it must be a finite number of seconds, at least 0"
                )
        most = self.max_retries
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise TopologyError(
                f"max_retries of a RetryPolicy is {most!r}: it must be a whole number of at least 0, or None"
            )

    def delay(self, failures: int) -> float | None:
        """Seconds from a failure to the next delivery.

        Args:
            failures: how often the message has failed, this time included.

        Returns:
            None if it is no longer tried.
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        if failures <= 1:
            return min(self.initial_delay, self.max_delay)
        # Two to the power of what would overflow a float is far beyond any cap.
        return min(self.delay_period * 2.0 ** min(failures - 1, 512), self.max_delay)


class RetrySchedule:
    """What has to be delivered again, by due time; equal times in the order in which they were scheduled."""

    __slots__ = ("_due_at", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int]] = []
        self._due_at: dict[int, tuple[float, int]] = {}
        self._number = 0

    def put(self, key: int, due_at: float) -> None:
        """Schedules a key; a key that is scheduled already is moved."""
        self._number += 1
        self._due_at[key] = (due_at, self._number)
        heapq.heappush(self._heap, (due_at, self._number, key))

    def remove(self, key: int) -> bool:
        return self._due_at.pop(key, None) is not None

    def take(self, now: float, limit: int) -> list[int]:
        """Takes off what is due, the longest due first, `limit` keys at most."""
        taken: list[int] = []
        heap = self._heap
        due = now + _ROUNDING_S
        while heap and heap[0][0] <= due and len(taken) < limit:
            due_at, number, key = heapq.heappop(heap)
            # An entry that was moved or removed is left in the heap until it comes up.
            if self._due_at.get(key) == (due_at, number):
                del self._due_at[key]
                taken.append(key)
        return taken

    def is_due(self, now: float) -> bool:
        return bool(self._heap) and self._heap[0][0] <= now + _ROUNDING_S

    def __contains__(self, key: int) -> bool:
        return key in self._due_at

    def __len__(self) -> int:
        return len(self._due_at)
