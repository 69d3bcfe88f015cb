"""Whether loops turn: what `/health` judges by."""

import time
from collections.abc import Callable, Mapping
from typing import Final

ACKER_LOOP: Final = "acker"
"""The loop of acker workers; the others have their component's name, and none may be called so."""


def loop_of(topology: str) -> str:
    """The loop of one topology's worker in a process that serves all."""
    return f"{ACKER_LOOP} of {topology}"


Silences = Callable[[], Mapping[str, float]]
"""Returns, by loop, the seconds since it turned last."""


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

    def silences(self) -> dict[str, float]:
        """Its name → seconds since it turned last; from any thread."""
        return {self._name: self._clock() - self._turned_at}


def why_stuck(silences: Mapping[str, float], stuck_after_s: float) -> str:
    """What has not turned for longer than that, in words; empty if everything has."""
    return "; ".join(
        f"the loop of {name} has not turned for {silence:.0f} s"
        for name, silence in sorted(silences.items())
        if silence > stuck_after_s
    )
