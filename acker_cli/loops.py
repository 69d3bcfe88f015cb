"""Whether loops turn, and whether they do anything: what `/live` and `/health` judge by."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

ACKER_LOOP: Final = "acker"
"""The loop of acker workers; the others have their component's name, and none may be called so."""


def loop_of(topology: str) -> str:
    """The loop of one topology's worker in a process that serves all."""
    return f"{ACKER_LOOP} of {topology}"


HeartbeatAges = Callable[[], Mapping[str, float]]
"""Returns, by loop, the seconds since it turned last."""


Stalls = Callable[[], Mapping[str, tuple[float, str]]]
"""Returns, by loop, for how many seconds there has been work of which nothing was done, and what that is."""


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of the loops of a command.

    Attributes:
        heartbeat_ages: since when they do not turn.
        stalls: for how long they turn and do nothing.
    """

    heartbeat_ages: HeartbeatAges
    stalls: Stalls = dict

    def why_stalled(self, stalled_after_s: float) -> str:
        """What has done nothing for longer than that though there is work, in words; empty if there is nothing."""
        return "; ".join(
            f"{name} has made no progress for {seconds:.0f} s: {what}"
            for name, (seconds, what) in sorted(self.stalls().items())
            if seconds > stalled_after_s
        )

    def why_stuck(self, stuck_after_s: float) -> str:
        """What has not turned for longer than that, in words; empty if everything has."""
        return "; ".join(
            f"the loop of {name} has not turned for {silence:.0f} s"
            for name, silence in sorted(self.heartbeat_ages().items())
            if silence > stuck_after_s
        )


class Loop:
    """The loop of this process.

    Args:
        name: `ACKER_LOOP`, or the component's.
        clock: seconds, rising.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        # It has as long for its first turn as for any other.
        self._turned_at = clock()

    def turned(self) -> None:
        """Notes that it has turned."""
        self._turned_at = self._clock()

    def heartbeat_ages(self) -> dict[str, float]:
        """Its name → seconds since it turned last; from any thread."""
        return {self._name: self._clock() - self._turned_at}
