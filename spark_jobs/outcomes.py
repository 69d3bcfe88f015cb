"""The open messages of a Spark spout, shared by the query that delivers them and the loop that reads their outcomes.

An open message is *pending* (delivered, without an outcome yet) or *due* (to be delivered again). An ack of any of its
attempts closes it, because each of them carried the same message. All this can be rebuilt from the committed offsets
and the notices behind a *mark*: how far they had been read when the first open message was delivered.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafka_clients.repeated_lines import get_logger
from spark_jobs.delivering import NOTHING, Delivered, Positions, SourceRoots
from spark_jobs.errors import SparkJobError, StoppedBetweenBatches
from tuple_tree.control import ControlState
from tuple_tree.ids import IdColumn
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.offsets import Runs
from tuple_tree.positions import MAX_OFFSET, MAX_PARTITIONS, OFFSET_BITS

logger = get_logger("spark_jobs.spout")

_LOOK_SECONDS: Final = 0.05
_CHECKS: Final = 16  # for lost messages, in the time after which they are
_PENDING, _DUE, _DONE = range(3)
_COLUMNS: Final[dict[str, Any]] = {
    "state": np.uint8,
    "attempt": np.uint8,  # the one that is pending, or the next one of what is due
    "reason": np.uint8,  # of the last attempt's failure
    "is_timed": np.bool_,  # whether the time of the delivery is known
    "delivered": np.float64,  # when the last attempt was, in seconds
    "mark": np.int64,  # of the first attempt
}
Places = NDArray[np.intp]  # shape `(n,)`: of messages in the columns


class Prefix(NamedTuple):
    """Everything before `offset` is done, and what is in `runs` behind it.

    Outcomes of the rest lie behind offset `mark` of the notices, or at it.
    """

    offset: int
    mark: int
    runs: Runs = ()


class Replays(NamedTuple):
    """Messages that are delivered again."""

    positions: Positions  # in rising order
    attempts: NDArray[np.uint8]  # the one to come, of each
    given_up: Mapping[int, str]  # position → why it is not delivered any more


class _Notices(NamedTuple):
    """Outcomes as columns; `reasons` and `messages` are None for acks."""

    positions: Positions
    attempts: NDArray[np.int64]
    reasons: Any = None
    messages: Any = None

    def of(self, rows: Any) -> "_Notices":
        more = (None if column is None else column[rows] for column in self[2:])
        return _Notices(self.positions[rows], self.attempts[rows], *more)


def _between(offsets: NDArray[np.int64], end: int) -> Runs:
    """The runs between offsets, which rise, and behind the last one, up to an end."""
    begins, ends = offsets + 1, np.append(offsets[1:], end)
    some = begins < ends
    return tuple(zip(begins[some].tolist(), ends[some].tolist(), strict=True))


class Outcomes:
    """Which messages are open, and whether there is room for more; thread-safe. Times are of `clock`, in seconds.

    At most `limit` trees are open. A failed message is delivered again `retry_limit` times. A pending one without an
    outcome for `lost_after` seconds has failed; that is noticed after a sixteenth of this time at most. `control` is
    the requested state, None while it is not known: new messages are delivered in `running`, what is due also in
    `draining`. `acked` and `ignored` count outcomes, `most` is how many trees were ever open at once, those of an
    earlier process apart.
    """

    def __init__(
        self,
        roots: SourceRoots,
        limit: int,
        retry_limit: int,
        lost_after: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = roots
        self._limit = limit
        self._retry_limit = retry_limit
        self._lost_after = lost_after
        self._clock = clock
        self._tick_at = clock()
        # Columns of the open messages, and of some that are done, in the order of their positions.
        self._positions: Positions = np.empty(0, np.int64)
        self._columns = {name: np.empty(0, dtype) for name, dtype in _COLUMNS.items()}
        self._counts = np.zeros(3, np.int64)  # by state
        self.control: ControlState | None = "running"
        self._messages: dict[int, str] = {}  # of the last attempt's failure, by position
        self._started = np.full(MAX_PARTITIONS, -1)  # the last position of each partition that was delivered
        self._turn = 0  # where the next round of replays begins
        self._complete_latency = LatencyHistogram()
        self._reasons: Counter[str] = Counter()
        self._changed = threading.Condition()
        # While a micro-batch is written: where the notices were read to before, and those of what is not known yet.
        self._written_from: int | None = None
        self._early: list[_Notices] = []
        self.acked = self.ignored = self.most = 0

    def recovered(self, positions: Positions, mark: int) -> None:
        """Opens what an earlier process may have delivered."""
        with self._changed:
            self._open(positions, mark, is_timed=False)

    def forget_counts(self) -> None:
        """Counts from zero again: an earlier process has counted what was read in recovery."""
        with self._changed:
            self.acked = self.ignored = 0
            self._reasons.clear()

    def deliver(
        self, rows: int, mark: Callable[[], int], stopping: Callable[[], bool], write: Callable[[], Delivered]
    ) -> Delivered:
        """Waits until there is room for a micro-batch, has it written, and opens what `write` returns.

        Notices that are read meanwhile count as well: which trees are open is only known when their tasks report.
        `rows` is how many there are at most; `mark` returns the offset before which the notices were read. Raises
        `StoppedBetweenBatches` when `stopping` returns true.
        """
        with self._changed:
            while self.control != "running" or (self.outstanding and self.outstanding + rows > self._limit):
                if stopping():
                    why = "trees to complete" if self.control == "running" else f"{self.control} to end"
                    raise StoppedBetweenBatches(f"stopped while waiting for {why}")
                self._changed.wait(_LOOK_SECONDS)
            began, start = self._clock(), mark()
            self._written_from = start
        delivered = NOTHING
        try:
            delivered = write()
        finally:
            with self._changed:
                self._written_from = None
                early, self._early = self._early, []
                self._open(delivered.positions, start, began)
                self.most = max(self.most, self.outstanding)
                for notices in early:
                    self._apply(notices)
                self._changed.notify_all()
        return delivered

    def read(self, batch: NoticeBatch) -> None:
        """Applies notices; those of other spouts, or of what is not open, are ignored."""
        failed = batch.failed_roots, batch.fail_reasons, np.array(batch.fail_messages, object)
        both = self._own(batch.acked_roots), self._own(*failed)
        with self._changed:
            self.ignored += len(batch) - sum(len(notices.positions) for notices in both)
            for notices in both:
                self._apply(notices)
            self._changed.notify_all()

    def done(self, positions: Positions) -> None:
        """Closes messages that need no outcome."""
        with self._changed:
            self._move(self._find(positions)[0], _DONE)
            self._changed.notify_all()

    def tick(self) -> None:
        """Fails trees that had no outcome for too long."""
        with self._changed:
            if (now := self._clock()) < self._tick_at:
                return
            self._tick_at = now + self._lost_after / _CHECKS
            is_late = self._columns["delivered"] + self._lost_after <= now
            places = np.flatnonzero(is_late & (self._columns["state"] == _PENDING))
            if len(places):
                self._put_due(places, self._columns["attempt"][places] + 1, np.full(len(places), FailReason.LOST))
                text = "%d trees had no outcome for the largest tree age: lost, and delivered again"
                logger.warning(text, len(places))
                self._changed.notify_all()

    def take_due(self, most: int, span: int, seconds: float = 0.0) -> Replays | None:
        """Takes what has to be delivered again, as far as there is room; waits for some, no longer than `seconds`.

        There are at most `most`, and those of a partition are less than `span` offsets apart, so that they can be read
        in one go. They are pending then.
        """
        with self._changed:
            if not (room := self._room_for_due(most)) and seconds:
                self._changed.wait(seconds)
                room = self._room_for_due(most)
            if not room:
                return None
            places = np.flatnonzero(self._columns["state"] == _DUE)
            # Behind the partition that was the last one before, so that no other one starves.
            places = np.roll(places, -np.searchsorted(self._positions[places], self._turn))
            positions = self._positions[places]
            begins = np.flatnonzero(np.diff(positions >> OFFSET_BITS, prepend=-1))
            firsts = np.repeat(positions[begins], np.diff(begins, append=len(places)))
            places = places[positions < firsts + span][:room]
            self._turn = ((int(self._positions[places[-1]]) >> OFFSET_BITS) + 1) << OFFSET_BITS
            places.sort()
            replays = Replays(self._positions[places], self._columns["attempt"][places], self._given_up(places))
            self._move(places, _PENDING)
            self._columns["delivered"][places] = self._clock()
            self._columns["is_timed"][places] = True
            self.most = max(self.most, self.outstanding)
            return replays

    def _room_for_due(self, most: int) -> int:
        """How many messages may be delivered again now; 0 if none is due."""
        is_allowed = self.due and self.control in ("running", "draining")
        return max(0, min(most, self._limit - self.outstanding)) if is_allowed else 0

    def prefixes(self, mark: int) -> dict[int, Prefix]:
        """How far each partition of the source is done; the notices before `mark` were read."""
        with self._changed:
            if self._counts[_DONE]:
                is_open = self._columns["state"] != _DONE
                self._positions = self._positions[is_open]
                self._columns = {name: column[is_open] for name, column in self._columns.items()}
                self._counts[_DONE] = 0
            if self._written_from is not None:
                # After a crash, the notices of the micro-batch that runs have to be read again.
                mark = min(mark, self._written_from)
            found = {}
            for partition in np.flatnonzero(self._started >= 0).tolist():
                first, last = np.searchsorted(self._positions, [partition << OFFSET_BITS, partition + 1 << OFFSET_BITS])
                end = int(self._started[partition]) % MAX_OFFSET + 1
                if first < last:
                    is_open = self._positions[first:last] % MAX_OFFSET
                    found[partition] = Prefix(
                        int(is_open[0]), int(self._columns["mark"][first]), _between(is_open, end)
                    )
                else:
                    found[partition] = Prefix(end, mark)
            return found

    def stats(self) -> dict[str, Any]:
        """Counts the outcomes of trees up to now, in the form of `spout_sdk.Stats`; lost trees have failed.

        Complete latencies are from just before a message was written to when its ack was read.
        """
        with self._changed:
            return {
                "acked": self.acked,
                "failed": dict(self._reasons),
                "ignored_notices": self.ignored,
                "pending": self.outstanding,
                "retrying": self.due,
                "control": [self.control or "unknown"],
                "complete_latency": dict(self._complete_latency.counts),
            }

    @property
    def outstanding(self) -> int:
        """Trees that are open."""
        return int(self._counts[_PENDING])

    @property
    def due(self) -> int:
        """Messages that have to be delivered again."""
        return int(self._counts[_DUE])

    @property
    def lost(self) -> int:
        """Trees that had no outcome."""
        return self._reasons[FailReason.LOST.word]

    @property
    def failed(self) -> int:
        """Trees whose failure was read."""
        return self._reasons.total() - self.lost

    @property
    def idle(self) -> bool:
        """Whether nothing is open."""
        with self._changed:
            return not (self.outstanding or self.due)

    def _open(self, positions: Positions, mark: int, now: float | None = None, *, is_timed: bool = True) -> None:
        """Opens messages under attempt 0, as far as they lie behind all that were opened; positions rise."""
        if len(positions) and positions[-1] >> OFFSET_BITS >= MAX_PARTITIONS:
            raise SparkJobError(
                f"the source topic has grown beyond {MAX_PARTITIONS} partitions, the most that positional roots can "
                "have: copy it to a topic with fewer"
            )
        fresh = positions[positions > self._started[positions >> OFFSET_BITS]]
        places = np.searchsorted(self._positions, fresh)
        self._positions = np.insert(self._positions, places, fresh)
        row = {"delivered": self._clock() if now is None else now, "is_timed": is_timed, "mark": mark}
        self._columns = {name: np.insert(each, places, row.get(name, 0)) for name, each in self._columns.items()}
        self._counts[_PENDING] += len(fresh)
        # Of several of a partition the last one stays.
        self._started[fresh >> OFFSET_BITS] = fresh

    def _own(self, roots: IdColumn, *why: Any) -> _Notices:
        """The outcomes of this spout's roots, with the reasons of fails."""
        is_own, positions, attempts = self._roots.positions(roots)
        return _Notices(positions, attempts, *why).of(is_own)

    def _apply(self, notices: _Notices) -> None:
        if self._written_from is not None:
            is_early = notices.positions > self._started[notices.positions >> OFFSET_BITS]
            if is_early.any():
                self._early.append(notices.of(is_early))
                notices = notices.of(~is_early)
        # Of several outcomes of a message, that of the last attempt counts.
        notices = notices.of(np.argsort(-notices.attempts, kind="stable"))
        places, rows = self._find(notices.positions)
        tried, last = notices.attempts[rows], self._columns["attempt"][places]
        if notices.reasons is None:
            is_timed = self._columns["is_timed"][places] & (self._columns["state"][places] == _PENDING)
            delivered = self._columns["delivered"][places][is_timed & (last == tried)]
            # The trees of a micro-batch began at one moment.
            for moment, trees in zip(*np.unique(delivered, return_counts=True), strict=True):
                self._complete_latency.record(self._clock() - float(moment), int(trees))
            self._move(places, _DONE)
            self.acked += len(places)
        else:
            # A failure of an attempt that was given up before is stale. One of a later attempt is that of an earlier
            # process, which had given up attempts without a notice.
            is_fresh = tried >= last
            places, rows = places[is_fresh], rows[is_fresh]
            self._put_due(places, notices.attempts[rows] + 1, notices.reasons[rows], notices.messages[rows].tolist())
        self.ignored += len(notices.positions) - len(places)

    def _find(self, positions: Positions) -> tuple[Places, Places]:
        """Where the open ones of some messages stand, each once, and the first row that names each."""
        distinct, rows = np.unique(positions, return_index=True)
        places = np.searchsorted(self._positions, distinct)
        found = np.flatnonzero(places < len(self._positions))
        at = places[found]
        found = found[(self._positions[at] == distinct[found]) & (self._columns["state"][at] != _DONE)]
        return places[found], rows[found]

    def _put_due(self, places: Places, attempts: Any, reasons: Any, messages: list[str] | None = None) -> None:
        self._move(places, _DUE)
        self._columns["attempt"][places] = attempts
        self._columns["reason"][places] = reasons
        self._reasons.update(FailReason(reason).word for reason in reasons.tolist())
        if messages and any(messages):
            found = zip(self._positions[places].tolist(), messages, strict=True)
            self._messages.update({position: message for position, message in found if message})

    def _move(self, places: Places, state: int) -> None:
        """Gives messages, each of which stands there once, a state."""
        self._counts -= np.bincount(self._columns["state"][places], minlength=len(self._counts))
        self._counts[state] += len(places)
        self._columns["state"][places] = state
        if self._messages:
            for position in self._positions[places].tolist():
                self._messages.pop(position, None)

    def _given_up(self, places: Places) -> dict[int, str]:
        """By position, why messages are not delivered again, of those that have no attempt left."""
        spent = places[self._columns["attempt"][places] > self._retry_limit]
        reasons = self._columns["reason"][spent].tolist()
        return {
            position: f"all {self._retry_limit + 1} attempts failed, the last one with reason {FailReason(reason).word}"
            + (f": {message}" if (message := self._messages.get(position)) else "")
            for position, reason in zip(self._positions[spent].tolist(), reasons, strict=True)
        }
