"""A call of `execute` that has not returned; read by the thread that watches it."""

from dataclasses import dataclass

from spout_sdk.bolts.input_rows import Inputs, first_of


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call of `execute`: since when, by the clock of the task, and for which inputs; none for a tick.

    Fast tuples are executed many at a time, and the clock is read once for all of them: the running call may be for any
    of them.
    """

    since: float
    inputs: Inputs

    @property
    def position(self) -> str:
        """The first tuple, as `topic[partition] offset N`, and how many there are if there are several."""
        count = len(self.inputs)
        if not count:
            return "a tick tuple"
        pack, _ = first_of(self.inputs)
        several = f" (the first of {count} tuples)" if count > 1 else ""
        return f"{pack.record.topic()}[{pack.partition}] offset {pack.offset}{several}"

    @property
    def roots(self) -> tuple[int, ...]:
        """The trees of the first tuple."""
        if not len(self.inputs):
            return ()
        pack, index = first_of(self.inputs)
        return tuple(int(pack.batch.roots[place]) for place in pack.places(index))
