"""The state of the messages of a source that can be read again by position, as columns; no payload is kept.

An open position is *pending* (delivered, no outcome yet) or *due* (to be delivered again). It is closed by an ack of
any of its attempts, because each of them carried the same message. All this can be rebuilt from the committed prefix
and the notices behind a *mark*: how far they had been read when the first open position was delivered.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tuple_tree.messages import FailReason

Offsets = NDArray[np.int64]  # shape `(n,)`
_BUCKETS: Final = 3  # periods after which what has no outcome is lost, as in a RotatingMap of so many buckets
_PENDING: Final = 0
_DUE: Final = 1
_DONE: Final = 2

_COLUMNS: Final[Mapping[str, Any]] = {
    "offsets": np.int64,
    "states": np.uint8,
    "attempts": np.uint8,
    "reasons": np.uint8,
    "periods": np.int32,
    "begun": np.float64,
}


@dataclass(frozen=True, slots=True, eq=False)
class Replays:
    """Positions of one partition that have to be delivered again, in rising order.

    `attempts` are those to come, `reasons` `FailReason` numbers, and `messages` those of bolts, by offset.
    """

    partition: int
    offsets: Offsets
    attempts: NDArray[np.uint8]
    reasons: NDArray[np.uint8]
    messages: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Everything before `offset` is done; outcomes of the rest lie behind offset `mark` of the notices, or at it."""

    partition: int
    offset: int
    mark: int


class _Partition:
    """Columns of the positions from the first open one on, in the order of their offsets."""

    def __init__(self) -> None:
        self.offsets: Offsets
        self.states: NDArray[np.uint8]
        self.attempts: NDArray[np.uint8]  # the one that is pending, or the next one of what is due
        self.reasons: NDArray[np.uint8]  # of the last attempt's failure, as are `messages`, by offset
        self.periods: NDArray[np.int32]  # when the last attempt was delivered
        self.begun: NDArray[np.float64]  # when that was, in seconds; NaN where it is not known
        for name, dtype in _COLUMNS.items():
            setattr(self, name, np.empty(0, dtype))
        self.messages: dict[int, str] = {}
        self.marks: deque[tuple[int, int]] = deque()
        self.started = -1
        self.committable: int | None = None

    def append(self, offsets: Offsets, period: int, now: float) -> None:
        size = len(offsets)
        added = {"offsets": offsets, "periods": np.full(size, period), "begun": np.full(size, now)}
        for name, dtype in _COLUMNS.items():
            more = np.asarray(added.get(name, np.zeros(size)), dtype)
            setattr(self, name, np.concatenate((getattr(self, name), more)))
        self.started = int(offsets[-1])
        if self.committable is None:
            self.committable = int(offsets[0])

    def places(self, offsets: Offsets) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        places = np.searchsorted(self.offsets, offsets)
        if not len(self.offsets):
            return places, np.zeros(len(offsets), np.bool_)
        places = np.minimum(places, len(self.offsets) - 1)
        return places, (self.offsets[places] == offsets) & (self.states[places] != _DONE)

    def trim(self) -> None:
        is_open = self.states != _DONE
        first = int(is_open.argmax()) if is_open.any() else len(is_open)
        if first:
            self.committable = int(self.offsets[first - 1]) + 1
            for name in _COLUMNS:
                setattr(self, name, getattr(self, name)[first:].copy())


class SourcePositions:
    """The open positions of one spout; not thread-safe. Times are monotonic seconds.

    A pending position without an outcome for `lost_after` seconds, and half as long again at most, is due again.
    """

    def __init__(self, lost_after: float, now: float) -> None:
        self._seconds = lost_after / (_BUCKETS - 1)
        self._rotate_at = now + self._seconds
        self._period = 0
        self._partitions: dict[int, _Partition] = {}
        self._turn: deque[int] = deque()
        self.pending = 0  # positions that are delivered and have no outcome
        self.due = 0  # positions that have to be delivered again

    def started(self, partition: int) -> int:
        """The last offset of a partition that was delivered; -1 if none was."""
        state = self._partitions.get(partition)
        return -1 if state is None else state.started

    def delivered(self, partition: int, offsets: Sequence[int] | Offsets, mark: int, now: float = np.nan) -> int:
        """Opens positions under attempt 0 that are above all that were opened, and returns how many.

        Offsets rise; `mark` is how far the notices were read before the delivery, which was at `now`.
        """
        state = self._partitions.get(partition)
        if state is None:
            state = self._partitions[partition] = _Partition()
            self._turn.append(partition)
        column = np.asarray(offsets, np.int64)
        fresh = column[np.searchsorted(column, state.started, side="right") :]
        if len(fresh):
            state.marks.append((int(fresh[0]), mark))
            state.append(fresh, self._period, now)
            self.pending += len(fresh)
        return len(fresh)

    def done(self, partition: int, offsets: Any, attempts: Any = 0) -> tuple[int, NDArray[np.float64]]:
        """Closes positions, whose attempts `attempts` were acked; columns of shape `(n,)`.

        Returns how many were open, and when the attempts that were acked were delivered, as far as that is known.
        """
        column = np.asarray(offsets, np.int64)
        state = self._partitions.get(partition)
        if state is None:
            return 0, np.empty(0)
        places, is_open = state.places(column)
        places, first = np.unique(places[is_open], return_index=True)
        due = int((state.states[places] == _DUE).sum())
        self.due -= due
        self.pending -= len(places) - due
        acked = np.broadcast_to(np.asarray(attempts, np.int64), column.shape)[is_open][first]
        begun = state.begun[places[(acked == state.attempts[places]) & (state.states[places] == _PENDING)]]
        state.states[places] = _DONE
        self._forget(state, places)
        return len(places), begun[~np.isnan(begun)]

    def failed(
        self, partition: int, offsets: Any, attempts: Any, reasons: Any, messages: Sequence[str] | None = None
    ) -> NDArray[np.uint8]:
        """Makes positions due under the attempt after the one that failed, and returns their reasons, shape `(n,)`.

        A failure of an attempt that was given up before is stale. One of a later attempt is that of an earlier process,
        which had given up attempts without a notice.
        """
        column = np.asarray(offsets, np.int64)
        state = self._partitions.get(partition)
        if state is None:
            return np.empty(0, np.uint8)
        places, is_open = state.places(column)
        tried = np.broadcast_to(np.asarray(attempts, np.int64), column.shape)
        rows = np.flatnonzero(is_open)
        rows = rows[tried[rows] >= state.attempts[places[rows]]]
        # Of several failures of a position, that of the last attempt counts.
        rows = rows[np.lexsort((tried[rows], places[rows]))]
        rows = rows[np.append(places[rows[1:]] != places[rows[:-1]], np.ones(min(1, len(rows)), np.bool_))]
        places = places[rows]
        self._put_due(state, places, tried[rows] + 1)
        state.reasons[places] = np.broadcast_to(np.asarray(reasons, np.uint8), column.shape)[rows]
        for row in rows.tolist() if messages is not None and any(messages) else ():
            if messages is not None and messages[row]:
                state.messages[int(column[row])] = messages[row]
        made: NDArray[np.uint8] = state.reasons[places]
        return made

    def tick(self, now: float) -> int:
        """Makes those due that had no outcome for too long; returns how many."""
        lost = 0
        while now >= self._rotate_at:
            self._rotate_at += self._seconds
            self._period += 1
            for state in self._partitions.values():
                late = (state.states == _PENDING) & (state.periods <= self._period - _BUCKETS)
                places = np.flatnonzero(late)
                self._put_due(state, places, state.attempts[places] + np.int64(1))
                state.reasons[places] = FailReason.LOST
                lost += len(places)
        return lost

    def take_due(self, limit: int, span: int, now: float = np.nan) -> list[Replays]:
        """Takes at most `limit` positions that are due, and makes them pending.

        Those of one partition are less than `span` offsets apart, so that they can be read in one go.
        """
        taken: list[Replays] = []
        room = limit if self.due else 0
        for _ in range(len(self._turn)):
            if room <= 0:
                break
            # What is left goes behind the other partitions.
            partition = self._turn.popleft()
            self._turn.append(partition)
            state = self._partitions[partition]
            places = np.flatnonzero(state.states == _DUE)[:room]
            if not len(places):
                continue
            places = places[state.offsets[places] < state.offsets[places[0]] + span]
            offsets = state.offsets[places]
            held = state.messages
            messages = {at: held[at] for at in offsets.tolist() if at in held} if held else {}
            taken.append(Replays(partition, offsets, state.attempts[places], state.reasons[places], messages))
            self._forget(state, places)
            state.states[places] = _PENDING
            state.periods[places] = self._period
            state.begun[places] = now
            room -= len(places)
            self.due -= len(places)
            self.pending += len(places)
        return taken

    def prefixes(self, mark: int) -> list[Prefix]:
        """How far each partition is done; `mark`, how far the notices were read, is that of those with nothing open."""
        prefixes = []
        for number, state in self._partitions.items():
            state.trim()
            offset, marks = state.committable, state.marks
            if offset is None:
                continue
            while len(marks) > 1 and marks[1][0] <= offset:
                marks.popleft()
            prefixes.append(Prefix(number, offset, marks[0][1] if len(state.offsets) else mark))
        return prefixes

    def _put_due(self, state: _Partition, places: NDArray[np.intp], attempts: NDArray[np.int64]) -> None:
        fresh = int((state.states[places] == _PENDING).sum())
        self.pending -= fresh
        self.due += fresh
        self._forget(state, places)
        state.states[places] = _DUE
        state.attempts[places] = attempts

    def _forget(self, state: _Partition, places: NDArray[np.intp]) -> None:
        if state.messages:
            for offset in state.offsets[places].tolist():
                state.messages.pop(offset, None)
