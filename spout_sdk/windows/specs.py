"""Specifications of windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from spout_sdk.api.tuples import Tuple
from spout_sdk.arguments import check_count, check_seconds
from spout_sdk.errors import TopologyError
from spout_sdk.state.watermarks import DEFAULT_IDLE_SECONDS

_SHORTEST_TICK_SECONDS: Final = 0.01
_LONGEST_TICK_SECONDS: Final = 1.0
_TICKS_A_STEP: Final = 10

_MILLISECOND: Final = 1_000_000  # in nanoseconds

Timestamp = Callable[[Tuple], int]  # the milliseconds since the epoch of a tuple


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The length of windows, and how often one closes; create it with `tumbling`, `sliding` or `session`.

    Attributes:
        count: largest number of tuples in a window; None if its length is a time.
        seconds: length of a window in seconds; None if its length is a count.
        every_count: number of tuples after which a window closes; None if it closes by the clock.
        every_seconds: seconds after which a window closes; None if it closes by count.
        flush_after: seconds after which a tumbling window by count closes even if it is not full; None for never.
        timestamp: for windows by event time, the field with milliseconds since the epoch, or a function that returns
            them; None for windows by the task's clock.
        lag: by how many seconds a tuple may come after a tuple with a greater timestamp.
        late_stream: the stream for late tuples; None if they are only logged.
        watermark_interval: seconds of the task's clock between two watermarks.
        gap: for sessions, the seconds without a tuple after which a session ends; None for other windows.
        grace: seconds after its end for which a window of an `AggregateBolt` takes tuples.
        idle_after: for an `AggregateBolt`, seconds after which a source without messages holds no window open; None
            for the default.
    """

    count: int | None
    seconds: float | None
    every_count: int | None
    every_seconds: float | None
    flush_after: float | None = None
    timestamp: str | Timestamp | None = None
    lag: float = 0.0
    late_stream: str | None = None
    watermark_interval: float = 1.0
    gap: float | None = None
    grace: float = 0.0
    idle_after: float | None = None

    def with_timestamp_field(self, field: str) -> "WindowSpec":
        """Makes windows by event time, with the time from a field of the tuples.

        Args:
            field: a field with milliseconds since the epoch, as an integer; each stream that the bolt receives must
                have it.
        """
        return replace(self, timestamp=field)

    def with_timestamp_extractor(self, timestamp: Timestamp) -> "WindowSpec":
        """As `with_timestamp_field`, for a time that is not a field.

        Args:
            timestamp: returns the time of a tuple in milliseconds since the epoch, such as
                `lambda tuple_: tuple_.timestamp_ms` for the time of its record. It must return the same for each call.
        """
        return replace(self, timestamp=timestamp)

    def with_lag(self, seconds: float) -> "WindowSpec":
        """Lets a tuple come up to `seconds` after a tuple with a greater timestamp: windows wait for it. Default: 0.

        Raises:
            TopologyError: without event time, or if `seconds` is negative or not a number.
        """
        check_seconds("lag of a window", seconds, least=0)
        return self._with_time("with_lag", lag=seconds)

    def with_late_tuple_stream(self, stream: str) -> "WindowSpec":
        """Emits tuples that came when all their windows had closed to a stream; without it they are logged and acked.

        Args:
            stream: a stream of the bolt, whose fields are fields of the tuples.

        Raises:
            TopologyError: without event time.
        """
        return self._with_time("with_late_tuple_stream", late_stream=stream)

    def with_watermark_interval(self, seconds: float) -> "WindowSpec":
        """Sets the seconds of the task's clock between two watermarks, which close windows. Default: 1.

        Raises:
            TopologyError: without event time, or for less than a millisecond.
        """
        check_seconds("watermark interval of a window", seconds)
        return self._with_time("with_watermark_interval", watermark_interval=seconds)

    def with_grace(self, seconds: float) -> "WindowSpec":
        """Lets a window of an `AggregateBolt` take tuples for `seconds` after its end. Default: 0.

        Raises:
            TopologyError: without event time, or if `seconds` is negative or not a number.
        """
        check_seconds("grace of a window", seconds, least=0)
        return self._with_time("with_grace", grace=seconds)

    def with_idle_sources(self, after: float = DEFAULT_IDLE_SECONDS) -> "WindowSpec":
        """Sets after how many seconds without a tuple a source partition holds no window of an `AggregateBolt` open.

        All messages that the partition had when the window could have closed must be done first.

        Args:
            after: seconds, 20 by default. Messages with an earlier time that are sent to such a partition later may be
                late.

        Raises:
            TopologyError: without event time, or if `after` is not a positive number.
        """
        check_seconds("with_idle_sources() of a window", after)
        return self._with_time("with_idle_sources", idle_after=after)

    def _with_time(self, method: str, **changes: Any) -> "WindowSpec":
        if self.timestamp is None:
            raise TopologyError(
                f"{method}() is for windows by event time, and {self} goes by the task's clock: call "
                "with_timestamp_field() first"
            )
        return replace(self, **changes)

    def time_of(self, tuple_: Tuple) -> int:
        """The timestamp of a tuple in nanoseconds since the epoch; raises `TypeError` if it is no 64-bit integer."""
        return self.milliseconds_of(tuple_) * _MILLISECOND

    def milliseconds_of(self, tuple_: Tuple) -> int:
        """The timestamp of a tuple in milliseconds since the epoch; raises `TypeError` if it is no 64-bit integer."""
        source = self.timestamp
        millis = tuple_[source] if isinstance(source, str) else source(tuple_)  # type: ignore[misc]  # there is one
        if not isinstance(millis, int) or not -(2**63) <= millis < 2**63:
            raise TypeError(
                f"the timestamp of {tuple_!r} is {millis!r}: it must be milliseconds, a whole number of 64 bits"
            )
        return millis

    @property
    def is_tumbling(self) -> bool:
        """Whether each tuple is in exactly one window."""
        return (self.count, self.seconds) == (self.every_count, self.every_seconds)

    @property
    def tick_interval(self) -> float | None:
        """Seconds between tick tuples; None if windows close by count only."""
        if self.timestamp is not None:
            return self.watermark_interval
        times = [time for time in (self.seconds, self.every_seconds, self.flush_after) if time is not None]
        if not times:
            return None
        return max(_SHORTEST_TICK_SECONDS, min(_LONGEST_TICK_SECONDS, min(times) / _TICKS_A_STEP))

    @property
    def longest_hold(self) -> float | None:
        """The longest time in seconds for which a tuple is held; None if only further tuples make it leave.

        This is the length, the lag, and the delay of closing: the sliding interval, or else a tick. It does not include
        the time in which event time stands still because no tuple comes.
        """
        length = self.seconds or self.flush_after
        if length is None or self.tick_interval is None:
            return None
        length += self.lag
        if self.is_tumbling or self.every_seconds is None:
            return length + self.tick_interval
        return length + self.every_seconds

    def __str__(self) -> str:
        length = f"count={self.count}" if self.seconds is None else f"seconds={self.seconds:g}"
        if self.gap is not None:
            text = f"session(gap={self.gap:g})"
        elif self.is_tumbling:
            flush = "" if self.flush_after is None else f", flush_after={self.flush_after:g}"
            text = f"tumbling({length}{flush})"
        elif self.every_seconds is None:
            text = f"sliding({length}, every{'' if self.seconds is None else '_count'}={self.every_count})"
        else:
            text = f"sliding({length}, every{'' if self.count is None else '_seconds'}={self.every_seconds:g})"
        if isinstance(self.timestamp, str):
            text += f".with_timestamp_field({self.timestamp!r})"
        elif self.timestamp is not None:
            name = getattr(self.timestamp, "__qualname__", type(self.timestamp).__name__)
            text += f".with_timestamp_extractor({name})"
        text += f".with_lag({self.lag:g})" if self.lag else ""
        text += f".with_grace({self.grace:g})" if self.grace else ""
        return text + (f".with_idle_sources({self.idle_after:g})" if self.idle_after is not None else "")


def tumbling(*, count: int | None = None, seconds: float | None = None, flush_after: float | None = None) -> WindowSpec:
    """Windows that follow each other; each tuple is in one window.

    Args:
        count: number of tuples after which a window closes.
        seconds: or seconds after which a window closes.
        flush_after: with `count`, seconds after its first tuple at which a window closes even if it is not full.

    Raises:
        TopologyError: unless exactly one length is given, and it is positive.
    """
    _check_length(count, seconds, "tumbling")
    if flush_after is not None:
        if count is None:
            raise TopologyError("tumbling(seconds=…, flush_after=…): a window by time closes anyway; drop flush_after")
        check_seconds("flush_after of a window", flush_after)
    return WindowSpec(count, seconds, count, seconds, flush_after)


def sliding(
    *,
    count: int | None = None,
    seconds: float | None = None,
    every: float | None = None,
    every_count: int | None = None,
    every_seconds: float | None = None,
) -> WindowSpec:
    """Windows that overlap; each window has the newest tuples when it closes.

    Args:
        count: largest number of tuples in a window.
        seconds: or the length of a window in seconds.
        every: interval after which the next window closes: a number of new tuples if the length is a count, seconds if
            it is a time. If it is larger than the length, the tuples in between are in no window, and are acked.
        every_count: instead of `every`, a number of new tuples, for any kind of length.
        every_seconds: instead of `every`, seconds, for any kind of length.

    Raises:
        TopologyError: unless exactly one length and one interval are given, and they are positive.
    """
    _check_length(count, seconds, "sliding")
    if sum(interval is not None for interval in (every, every_count, every_seconds)) != 1:
        raise TopologyError("sliding() needs one interval: give every, every_count or every_seconds")
    if every is not None:
        if count is None:
            every_seconds = every
        elif every != int(every):
            raise TopologyError(f"sliding(count={count}, every={every:g}): a count of tuples is a whole number")
        else:
            every_count = int(every)
    if every_count is not None:
        check_count("every of a window", every_count)
    if every_seconds is not None:
        check_seconds("every of a window", every_seconds)
    return WindowSpec(count, seconds, every_count, every_seconds)


def session(*, gap: float) -> WindowSpec:
    """Windows of an `AggregateBolt` that end when a key has had no tuple for a given time.

    Args:
        gap: seconds of event time without a tuple of the key after which its session ends. The end of a session is the
            time of its last tuple plus the gap.

    Raises:
        TopologyError: if the gap is not a positive number.
    """
    check_seconds("gap of a session", gap)
    return WindowSpec(None, None, None, None, gap=gap)


def _check_length(count: int | None, seconds: float | None, kind: str) -> None:
    if (count is None) == (seconds is None):
        raise TopologyError(f"{kind}() needs one length: give count or seconds")
    if count is not None:
        check_count("count of a window", count)
    if seconds is not None:
        check_seconds("seconds of a window", seconds)
