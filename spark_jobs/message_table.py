"""The messages of a Spark spout that are not done, as columns in the order of their positions."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.delivering import Positions
from spark_jobs.errors import SparkJobError
from tuple_tree.offsets import Runs
from tuple_tree.positions import MAX_OFFSET, MAX_PARTITIONS, OFFSET_BITS

PENDING, DUE, ENDED, DONE = range(4)
"""The states of a message: those before `ENDED` are open."""

_COLUMNS: Final[dict[str, Any]] = {
    "state": np.uint8,
    "attempt": np.uint8,  # the one that is pending, or the next one of what is due
    "reason": np.uint8,  # of the last failure; 0 without one
    "is_timed": np.bool_,  # whether the time of the delivery is known
    "delivered": np.float64,  # when the last attempt was, in seconds
    "mark": np.int64,  # of the first attempt
}
_OF_RECORDS: Final[dict[str, Any]] = {"first_emit": np.int64}
"""A further column if outcomes are written: when this process opened the message, in milliseconds since the epoch."""

Places = NDArray[np.intp]  # shape `(n,)`: of messages in the columns


class Prefix(NamedTuple):
    """Everything before `offset` is done, and what is in `runs` past it.

    Outcomes of the rest lie after offset `mark` of the notices, or at it.
    """

    offset: int
    mark: int
    runs: Runs = ()


class MessageTable:
    """The messages, some that are done included.

    Attributes:
        positions: of the messages, in rising order.
        columns: by name, of the same length.
        started: shape `(MAX_PARTITIONS,)`: the last position of each partition that was opened; -1 without one.
    """

    def __init__(self, *, writes_outcomes: bool) -> None:
        self.positions: Positions = np.empty(0, np.int64)
        columns = _COLUMNS | (_OF_RECORDS if writes_outcomes else {})
        self.columns = {name: np.empty(0, dtype) for name, dtype in columns.items()}
        self.started = np.full(MAX_PARTITIONS, -1)
        self._counts = np.zeros(4, np.int64)  # by state

    def count(self, state: int) -> int:
        """How many messages have a state."""
        return int(self._counts[state])

    def open(self, positions: Positions, row: dict[str, Any]) -> None:
        """Adds pending messages, if they are past all that were opened; positions rise."""
        if len(positions) and positions[-1] >> OFFSET_BITS >= MAX_PARTITIONS:
            raise SparkJobError(
                f"the source topic has grown beyond {MAX_PARTITIONS} partitions, the most that positional roots can "
                "have: copy it to a topic with fewer"
            )
        fresh = positions[positions > self.started[positions >> OFFSET_BITS]]
        places = np.searchsorted(self.positions, fresh)
        self.positions = np.insert(self.positions, places, fresh)
        self.columns = {name: np.insert(each, places, row.get(name, 0)) for name, each in self.columns.items()}
        self._counts[PENDING] += len(fresh)
        # Of several of a partition the last one stays.
        self.started[fresh >> OFFSET_BITS] = fresh

    def find(self, positions: Positions, state: int = ENDED) -> tuple[Places, Places]:
        """Where some messages before a state are, each once, and the first row that names each."""
        distinct, rows = np.unique(positions, return_index=True)
        places = np.searchsorted(self.positions, distinct)
        found = np.flatnonzero(places < len(self.positions))
        at = places[found]
        found = found[(self.positions[at] == distinct[found]) & (self.columns["state"][at] < state)]
        return places[found], rows[found]

    def with_state(self, state: int) -> Places:
        """Where the messages with a state are."""
        return np.flatnonzero(self.columns["state"] == state)

    def move(self, places: Places, state: int) -> None:
        """Sets the state of messages; the table has each message once."""
        self._counts -= np.bincount(self.columns["state"][places], minlength=len(self._counts))
        self._counts[state] += len(places)
        self.columns["state"][places] = state

    @property
    def emitted_to(self) -> dict[int, int]:
        """The offset after the last message of each partition that was opened."""
        return {each: int(self.started[each]) % MAX_OFFSET + 1 for each in np.flatnonzero(self.started >= 0).tolist()}

    def prefixes(self, mark: int) -> dict[int, Prefix]:
        """How far each partition of the source is done; the notices before `mark` were read."""
        if self._counts[DONE]:
            is_left = self.columns["state"] != DONE
            self.positions = self.positions[is_left]
            self.columns = {name: column[is_left] for name, column in self.columns.items()}
            self._counts[DONE] = 0
        found = {}
        for partition, end in self.emitted_to.items():
            first, last = np.searchsorted(self.positions, [partition << OFFSET_BITS, partition + 1 << OFFSET_BITS])
            if first < last:
                left = self.positions[first:last] % MAX_OFFSET
                found[partition] = Prefix(int(left[0]), int(self.columns["mark"][first]), _between(left, end))
            else:
                found[partition] = Prefix(end, mark)
        return found


def _between(offsets: NDArray[np.int64], end: int) -> Runs:
    """The runs between offsets, which rise, and after the last one, up to an end."""
    begins, ends = offsets + 1, np.append(offsets[1:], end)
    some = begins < ends
    return tuple(zip(begins[some].tolist(), ends[some].tolist(), strict=True))
