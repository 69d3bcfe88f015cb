"""What a component is told besides its place in the topology; none of it concerns who else reads the manifest."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from spout_sdk.errors import TopologyError

OnException = Literal["fail", "crash", "dead_letter"]
"""What becomes of a tuple whose `execute` raised.

- `fail`: it is failed with the exception's type and text, so its spout replays it.
- `crash`: the process stops with the exception, and the tuple is read again by the next.
- `dead_letter`: its record goes to the dead letters with the exception, and the tuple is acked once that is delivered:
  its trees go on without it.
"""


@dataclass(frozen=True, slots=True)
class BoltOptions:
    """How the tasks of a bolt behave.

    Attributes:
        on_exception: what becomes of a tuple whose `execute` raised.
        max_consecutive_failures: so many exceptions in a row stop the component; None for no limit.
        tick_interval: seconds between tick tuples; None for what the bolt's class says.
    """

    on_exception: OnException = "fail"
    max_consecutive_failures: int | None = None
    tick_interval: float | None = None


DEFAULT_OPTIONS: Final = BoltOptions()


def checked_options(bolt: str, options: BoltOptions) -> BoltOptions:
    """Returns the options if they can be.

    Raises:
        TopologyError: if they cannot.
    """
    if options.on_exception not in get_args(OnException):
        raise TopologyError(
            f"on_exception of bolt {bolt!r} is {options.on_exception!r}: it must be one of "
            f"{', '.join(get_args(OnException))}"
        )
    limit = options.max_consecutive_failures
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise TopologyError(
            f"max_consecutive_failures of bolt {bolt!r} is {limit!r}: it must be a whole number of at least 1"
        )
    checked_interval(bolt, options.tick_interval)
    return options


def checked_interval(bolt: str, seconds: float | None) -> float | None:
    """Returns the seconds between ticks if they can be.

    Raises:
        TopologyError: if they cannot.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.001 <= seconds < float("inf"):
        raise TopologyError(
            f"tick_interval of bolt {bolt!r} is {seconds!r}: it must be a finite number of seconds, at least 0.001"
        )
    return seconds
