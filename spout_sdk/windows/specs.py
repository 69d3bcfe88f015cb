"""Specifications of windows: by event time, by the number of tuples of a key, or sessions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spout_sdk.api.tuples import Tuple
from spout_sdk.arguments import check_count, check_seconds
from spout_sdk.errors import TopologyError
from spout_sdk.state.watermarks import DEFAULT_IDLE_SECONDS

Timestamp = Callable[[Tuple], int]  # the milliseconds since the epoch of a tuple


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The length of windows, and how often one closes; create it with `tumbling`, `sliding` or `session`.

    Attributes:
        count: number of tuples of a key in a window; None if its length is a time.
        seconds: length of a window in seconds of event time; None if its length is a count.
        every_count: number of tuples of a key after which a window closes; None if its length is a time.
        every_seconds: seconds between the ends of two windows; None if their length is a count.
        timestamp: the field with milliseconds since the epoch, or a function that returns them; None for windows by
            count.
        lag: by how many seconds a tuple may come after a tuple with a greater timestamp.
        late_stream: the stream for late tuples; None if they are only logged.
        gap: for sessions, the seconds without a tuple after which a session ends; None for other windows.
        grace: seconds after its end for which a window takes tuples.
        idle_after: seconds after which a source without messages holds no window open; None for the default.
    """

    count: int | None
    seconds: float | None
    every_count: int | None
    every_seconds: float | None
    timestamp: str | Timestamp | None = None
    lag: float = 0.0
    late_stream: str | None = None
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

    def with_grace(self, seconds: float) -> "WindowSpec":
        """Lets a window take tuples for `seconds` after its end. Default: 0.

        Raises:
            TopologyError: without event time, or if `seconds` is negative or not a number.
        """
        check_seconds("grace of a window", seconds, least=0)
        return self._with_time("with_grace", grace=seconds)

    def with_idle_sources(self, after: float = DEFAULT_IDLE_SECONDS) -> "WindowSpec":
        """Sets after how many seconds without a tuple a source partition holds no window open.

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
                f"{method}() is for windows by event time, and {self} has no timestamp: call "
                "with_timestamp_field() first"
            )
        return replace(self, **changes)

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

    def __str__(self) -> str:
        length = f"count={self.count}" if self.seconds is None else f"seconds={self.seconds:g}"
        if self.gap is not None:
            text = f"session(gap={self.gap:g})"
        elif self.is_tumbling:
            text = f"tumbling({length})"
        else:
            text = f"sliding({length}, every={self.every_count or self.every_seconds:g})"
        if isinstance(self.timestamp, str):
            text += f".with_timestamp_field({self.timestamp!r})"
        elif self.timestamp is not None:
            name = getattr(self.timestamp, "__qualname__", type(self.timestamp).__name__)
            text += f".with_timestamp_extractor({name})"
        text += f".with_lag({self.lag:g})" if self.lag else ""
        text += f".with_grace({self.grace:g})" if self.grace else ""
        return text + (f".with_idle_sources({self.idle_after:g})" if self.idle_after is not None else "")


def tumbling(*, count: int | None = None, seconds: float | None = None) -> WindowSpec:
    """Windows that follow each other; each tuple is in one window.

    Args:
        count: number of tuples of a key after which a window closes.
        seconds: or the length in seconds of event time; call `with_timestamp_field` as well.

    Raises:
        TopologyError: unless exactly one length is given, and it is positive.
    """
    _check_length(count, seconds, "tumbling")
    return WindowSpec(count, seconds, count, seconds)


def sliding(*, every: float, count: int | None = None, seconds: float | None = None) -> WindowSpec:
    """Windows that overlap; each window has the newest tuples when it closes.

    Args:
        every: interval after which the next window closes: a number of new tuples of the key if the length is a count,
            seconds if it is a time. If it is a time larger than the length, the tuples in between are in no window.
        count: number of tuples of a key in a window. The first windows of a key have fewer.
        seconds: or the length of a window in seconds of event time; call `with_timestamp_field` as well.

    Raises:
        TopologyError: unless exactly one length is given, and length and interval are positive.
    """
    _check_length(count, seconds, "sliding")
    if count is None:
        check_seconds("every of a window", every)
        return WindowSpec(None, seconds, None, every)
    if every != int(every):
        raise TopologyError(f"sliding(count={count}, every={every:g}): a count of tuples is a whole number")
    check_count("every of a window", int(every))
    if every > count:
        raise TopologyError(f"sliding(count={count}, every={every:g}): every is greater than count; make it smaller")
    return WindowSpec(count, None, int(every), None)


def session(*, gap: float) -> WindowSpec:
    """Windows that end when a key has had no tuple for a given time.

    Args:
        gap: seconds of event time without a tuple of the key after which its session ends. The end of a session is the
            time of its last tuple plus the gap.

    Raises:
        TopologyError: if the gap is not a positive number.
    """
    check_seconds("gap of a session", gap)
    return WindowSpec(None, None, None, None, gap=gap)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _check_length(count: int | None, seconds: float | None, kind: str) -> None:
    if (count is None) == (seconds is None):
        raise TopologyError(f"{kind}() needs one length: give count or seconds")
    if count is not None:
        check_count("count of a window", count)
    if seconds is not None:
        check_seconds("seconds of a window", seconds)
