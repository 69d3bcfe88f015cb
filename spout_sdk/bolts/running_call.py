"""A call of `execute` that has not returned; read by the thread that watches it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spout_sdk.api.tuples import NO_OFFSET, InputPack, Tuple

Head = Callable[[Any], tuple[InputPack, int]]
"""Returns the record of the first of several tuples, and the tuple's index in it."""


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call of `execute`: since when, by the clock of the task, and for which tuples.

    Fast tuples are executed many at a time, and the clock is read once for all of them: the running call may be for any
    of them. `head` is that of the adapter.
    """

    since: float
    tuples: Any
    head: Head

    def of(self, tuple_: Tuple) -> "RunningCall":
        """The same call, with the tuple that is known to run."""
        return RunningCall(self.since, (tuple_,), self.head)

    @property
    def position(self) -> str:
        """The first tuple, as `topic[partition] offset N`, and how many there are if there are several."""
        pack, _ = self.head(self.tuples)
        if pack.offset == NO_OFFSET:
            return "a tick tuple"
        several = f" (the first of {len(self.tuples)} tuples)" if len(self.tuples) > 1 else ""
        return f"{pack.record.topic()}[{pack.partition}] offset {pack.offset}{several}"

    @property
    def roots(self) -> tuple[int, ...]:
        pack, index = self.head(self.tuples)
        return tuple(int(pack.batch.roots[place]) for place in pack.places(index))
