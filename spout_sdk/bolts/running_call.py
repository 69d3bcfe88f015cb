"""A call of `execute` that has not returned, as the thread that watches it sees it."""

from collections.abc import Sequence
from dataclasses import dataclass

from spout_sdk.api.tuples import NO_OFFSET, Tuple
from spout_sdk.bolts.arrow_collector import ArrowInput


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call of `execute`: since when, by the clock of the task, and for which tuples.

    Tuples that take little are executed many at a time, and the clock is read once for all: the call that runs is that
    of any of them.
    """

    since: float
    tuples: Sequence[Tuple] | ArrowInput

    def of(self, tuple_: Tuple) -> "RunningCall":
        """The same, where it is known which tuple it is."""
        return RunningCall(self.since, (tuple_,))

    @property
    def position(self) -> str:
        """The first tuple, as `topic[partition] offset N`, and how many there are if there are several."""
        tuples = self.tuples
        pack = tuples.pack if isinstance(tuples, ArrowInput) else tuples[0].pack
        if pack.offset == NO_OFFSET:
            return "a tick tuple"
        several = f" (the first of {len(tuples)} tuples)" if len(tuples) > 1 else ""
        return f"{pack.record.topic()}[{pack.partition}] offset {pack.offset}{several}"

    @property
    def roots(self) -> tuple[int, ...]:
        """The trees of the first tuple."""
        pack = self.tuples.pack if isinstance(self.tuples, ArrowInput) else self.tuples[0].pack
        index = self.tuples.first if isinstance(self.tuples, ArrowInput) else self.tuples[0].index
        return tuple(int(pack.batch.roots[place]) for place in pack.places(index))
