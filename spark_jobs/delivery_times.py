"""When what is open was delivered, for the latency of its tree: a time for each micro-batch, not for each message."""

from bisect import bisect_right
from collections.abc import Iterable

from tuple_tree.source_positions import Prefix, Replay


class DeliveryTimes:
    """When attempts at positions were delivered, in seconds of a clock that only rises; not thread-safe.

    Of what an earlier process delivered it knows nothing.
    """

    def __init__(self) -> None:
        self._firsts: dict[int, list[int]] = {}
        """Partition → the first offset of each delivery that may still be open, in rising order."""
        self._begun: dict[int, list[float]] = {}
        """Partition → when that was."""
        self._again: dict[tuple[int, int], tuple[int, float]] = {}
        """Partition and offset → the attempt after the first that was made last, and when."""

    def delivered(self, partition: int, first: int, now: float) -> None:
        """Offsets from `first` on are delivered for the first time; `first` rises."""
        self._firsts.setdefault(partition, []).append(first)
        self._begun.setdefault(partition, []).append(now)

    def again(self, replays: Iterable[Replay], now: float) -> None:
        """Further attempts are delivered."""
        for replay in replays:
            self._again[replay.partition, replay.offset] = (replay.attempt, now)

    def done(self, partition: int, offset: int, attempt: int) -> float | None:
        """When the attempt that has ended a position was delivered; None if that is not known."""
        last = self._again.pop((partition, offset), None) if self._again else None
        if attempt:
            return last[1] if last is not None and last[0] == attempt else None
        firsts = self._firsts.get(partition)
        number = bisect_right(firsts, offset) if firsts else 0
        return self._begun[partition][number - 1] if number else None

    def drop(self, partition: int, offset: int) -> None:
        """A position has ended without an outcome."""
        self._again.pop((partition, offset), None)

    def forget(self, prefixes: Iterable[Prefix]) -> None:
        """Forgets deliveries of which nothing is open."""
        for prefix in prefixes:
            firsts = self._firsts.get(prefix.partition, [])
            ended = bisect_right(firsts, prefix.offset) - 1
            if ended > 0:
                del firsts[:ended], self._begun[prefix.partition][:ended]
