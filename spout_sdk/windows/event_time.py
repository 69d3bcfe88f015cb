"""Event time: the time that tuples say of themselves, and how far it has come."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from spout_sdk.api.tuples import Tuple

MILLISECOND: Final = 1_000_000
"""In nanoseconds."""

Timestamp = Callable[[Tuple], int]
"""Returns the milliseconds since the epoch of a tuple."""

Source = tuple[str, str]
"""A stream that the bolt receives: component and stream."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """Where windows take their time from, instead of the task's clock.

    Attributes:
        timestamp: the field with the milliseconds since the epoch, or what returns them.
        lag: seconds that a tuple may come later than one with a greater timestamp.
        late_stream: where tuples go that came too late; None for nowhere.
        interval: seconds of the task's clock between two watermarks.
    """

    timestamp: str | Timestamp
    lag: float = 0.0
    late_stream: str | None = None
    interval: float = 1.0

    def __str__(self) -> str:
        said = self.timestamp
        name = repr(said) if isinstance(said, str) else getattr(said, "__qualname__", type(said).__name__)
        text = f".with_timestamp_{'field' if isinstance(said, str) else 'extractor'}({name})"
        return text + (f".with_lag({self.lag:g})" if self.lag else "")

    def of(self, tuple_: Tuple) -> int:
        """When a tuple happened, in nanoseconds since the epoch.

        Raises:
            TypeError: if its timestamp is no whole number.
        """
        said = self.timestamp
        millis = tuple_[said] if isinstance(said, str) else said(tuple_)
        if not isinstance(millis, int):
            raise TypeError(f"the timestamp of {tuple_!r} is {millis!r}: it must be milliseconds, a whole number")
        return millis * MILLISECOND


class Watermark:
    """How far event time has come: the least of the streams' greatest timestamps, less the lag.

    As in Storm, there is none before each stream has had a tuple.

    Args:
        sources: the streams.
        lag: in nanoseconds.
    """

    def __init__(self, sources: Iterable[Source], lag: int) -> None:
        self._lag = lag
        self._latest: dict[Source, int | None] = dict.fromkeys(sources)

    def see(self, source: Source, at: int) -> None:
        """A tuple of a stream has this timestamp, in nanoseconds."""
        latest = self._latest.get(source)
        if latest is None or at > latest:
            self._latest[source] = at

    @property
    def now(self) -> int | None:
        """The watermark, in nanoseconds; None if there is none yet."""
        seen = [at for at in self._latest.values() if at is not None]
        return min(seen) - self._lag if len(seen) == len(self._latest) else None

    @property
    def latest(self) -> dict[str, int]:
        """`component/stream` → its greatest timestamp, in nanoseconds."""
        return {"/".join(source): at for source, at in self._latest.items() if at is not None}

    def resume(self, latest: Mapping[str, int]) -> None:
        """Takes over what another instance has seen, of the streams that there are still."""
        for source in self._latest:
            at = latest.get("/".join(source))
            if at is not None:
                self.see(source, at)
