"""The messages of a Spark spout that are not done, shared by its query and the threads beside it.

An open message is *pending* (delivered, without an outcome yet) or *due* (to be delivered again). An ack of any of its
attempts ends it, because each of them carried the same message; so does its dead letter. Then it is done, or, if
outcomes are written, *ended* until its record is delivered. All this can be rebuilt from the committed offsets and the
notices past a *mark*: how far they had been read when the first open message was delivered.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafka_clients.repeated_lines import get_logger
from spark_jobs.delivering import NOTHING, Delivered, Positions, SourceRoots
from spark_jobs.ended import Ended, Failed, Why
from spark_jobs.errors import StoppedBetweenBatches
from spark_jobs.message_table import DONE, DUE, ENDED, PENDING, MessageTable, Places, Prefix
from tuple_tree.control import ControlState
from tuple_tree.errors import WireError
from tuple_tree.ids import IdColumn
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason, NoticeBatch
from tuple_tree.outcome_records import Outcome
from tuple_tree.positions import OFFSET_BITS

logger = get_logger("spark_jobs.spout")

_LOOK_SECONDS: Final = 0.05
_CHECKS: Final = 16  # for lost messages, in the time after which they are
_UNKNOWN: Final = Failed()


class Replays(NamedTuple):
    """Messages that are delivered again."""

    positions: Positions  # in rising order
    attempts: NDArray[np.uint8]  # the one to come, of each
    given_up: Mapping[int, str]  # position → why it is not delivered any more


class _Notices(NamedTuple):
    """Outcomes as columns: fails with their `reasons`, acks without; acks with `failed` if a tuple is a dead letter."""

    positions: Positions
    attempts: NDArray[np.int64]
    reasons: Any = None
    failed: Any = None

    def of(self, rows: Any) -> "_Notices":
        more = (None if column is None else column[rows] for column in self[2:])
        return _Notices(self.positions[rows], self.attempts[rows], *more)


def _failures(by: Sequence[str], messages: Sequence[str]) -> Any:
    return np.fromiter(map(Failed, by, messages), object, len(messages))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Outcomes:
    """Which messages are not done, and whether there is room for more; thread-safe. Times are of `clock`, in seconds.

    At most `limit` trees are open. A failed message is delivered again `retry_limit` times. A pending one without an
    outcome for `lost_after` seconds has failed; that is noticed after a sixteenth of this time at most. `control` is
    the requested state, None while it is not known: new messages are delivered in `running`, what is due also in
    `draining`. `acked` and `ignored` count outcomes, `most` is how many trees were ever open at once, those of an
    earlier process apart.

    If `writes_outcomes`, messages that have ended wait for `take_ended`, and are done when `done` is called. While more
    than `limit` wait, no micro-batch begins.
    """

    def __init__(
        self,
        roots: SourceRoots,
        limit: int,
        retry_limit: int,
        lost_after: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        writes_outcomes: bool = False,
    ) -> None:
        self._roots = roots
        self._limit = limit
        self._retry_limit = retry_limit
        self._lost_after = lost_after
        self._clock = clock
        self._tick_at = clock()
        self._table = MessageTable(writes_outcomes=writes_outcomes)
        self._ended: deque[Ended] | None = deque() if writes_outcomes else None
        self.control: ControlState | None = "running"
        self._failed: dict[int, Failed] = {}  # by position, of those whose last failure has a text or a task
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
            while not self._has_room(rows):
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

    def _has_room(self, rows: int) -> bool:
        """Whether a micro-batch may begin."""
        is_full = self.outstanding and self.outstanding + rows > self._limit
        return self.control == "running" and not is_full and self.ended <= self._limit

    def read(self, batch: NoticeBatch, by: Sequence[str] = ()) -> None:
        """Applies notices; those of other spouts, or of what is not open, are ignored.

        `by` has the task that failed each tree, where notices have it.
        """
        failed = _failures(by or [""] * len(batch.failed_roots), batch.fail_messages)
        marked = _failures(batch.marked_by, batch.mark_messages)
        all_ = (
            self._own(batch.acked_roots),
            self._own(batch.marked_roots, None, marked),
            self._own(batch.failed_roots, batch.fail_reasons, failed),
        )
        with self._changed:
            self.ignored += len(batch) - sum(len(notices.positions) for notices in all_)
            for notices in all_:
                self._apply(notices)
            self._changed.notify_all()

    def done(self, positions: Positions) -> None:
        """Messages are done: they need no outcome, or its record is delivered."""
        with self._changed:
            self._move(self._table.find(positions, DONE)[0], DONE)
            self._changed.notify_all()

    def dead(self, letters: Mapping[int, WireError]) -> None:
        """Ends messages that are dead letters, or are no longer there, and that need no outcome any more."""
        with self._changed:
            places, _ = self._table.find(np.fromiter(letters, np.int64, len(letters)))
            has_failed = self._table.columns["reason"][places] != 0
            why = {
                each: Why(letters[each].reason, self._failed_of(each) if failed else None, letters[each].detail)
                for each, failed in zip(self._table.positions[places].tolist(), has_failed.tolist(), strict=True)
            }
            self._end(places, "dead-letter", np.maximum(self._table.columns["attempt"][places], 1), why)
            self._changed.notify_all()

    def take_ended(self, most: int, seconds: float) -> list[Ended]:
        """Takes about `most` messages that have ended, the first ones first; waits for these, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended >= most, seconds)
            taken: list[Ended] = []
            size = 0
            while self._ended and size < most:
                taken.append(self._ended.popleft())
                size += len(taken[-1].positions)
            return taken

    def tick(self) -> None:
        """Fails trees that had no outcome for too long."""
        with self._changed:
            if (now := self._clock()) < self._tick_at:
                return
            self._tick_at = now + self._lost_after / _CHECKS
            places = self._table.with_state(PENDING)
            places = places[self._table.columns["delivered"][places] + self._lost_after <= now]
            if len(places):
                attempts = self._table.columns["attempt"][places] + 1
                self._put_due(places, attempts, np.full(len(places), FailReason.LOST), [_UNKNOWN] * len(places))
                text = "%d trees had no outcome for the largest tree age: lost, and delivered again"
                logger.warning(text, len(places))
                self._changed.notify_all()

    def take_due(self, most: int, span: int, seconds: float = 0.0) -> Replays | None:
        """Takes what has to be delivered again, as far as there is room; waits for some, no longer than `seconds`.

        There are at most `most`; of each partition, the one that was delivered longest ago, and others within the next
        `span` offsets, so that they can be read in one go. They are pending then.
        """
        with self._changed:
            if not (room := self._room_for_due(most)) and seconds:
                self._changed.wait(seconds)
                room = self._room_for_due(most)
            if not room:
                return None
            places = self._table.with_state(DUE)
            positions = self._table.positions[places]
            # Of each partition, what was delivered longest ago and what follows it: no message waits for ever.
            partitions = positions >> OFFSET_BITS
            order = np.lexsort((self._table.columns["delivered"][places], partitions))
            numbers, firsts = np.unique(partitions[order], return_index=True)
            begins = positions[order[firsts]][np.searchsorted(numbers, partitions)]
            places = places[(positions >= begins) & (positions < begins + span)]
            # Behind the partition that was the last one before, so that no other one starves.
            places = np.roll(places, -np.searchsorted(self._table.positions[places], self._turn))[:room]
            self._turn = ((int(self._table.positions[places[-1]]) >> OFFSET_BITS) + 1) << OFFSET_BITS
            places.sort()
            attempts = self._table.columns["attempt"][places]
            replays = Replays(self._table.positions[places], attempts, self._given_up(places))
            self._move(places, PENDING)
            self._table.columns["delivered"][places] = self._clock()
            self._table.columns["is_timed"][places] = True
            self.most = max(self.most, self.outstanding)
            return replays

    def _room_for_due(self, most: int) -> int:
        """How many messages may be delivered again now; 0 if none is due."""
        is_allowed = self.due and self.control in ("running", "draining")
        return max(0, min(most, self._limit - self.outstanding)) if is_allowed else 0

    def prefixes(self, mark: int) -> dict[int, Prefix]:
        """How far each partition of the source is done; the notices before `mark` were read."""
        with self._changed:
            if self._written_from is not None:
                # After a crash, the notices of the micro-batch that runs have to be read again.
                mark = min(mark, self._written_from)
            return self._table.prefixes(mark)

    @property
    def emitted_to(self) -> Mapping[int, int] | None:
        """The offset after the last message of each partition that was emitted; None while more may be."""
        with self._changed:
            is_known = self.control != "running" and self._written_from is None
            return self._table.emitted_to if is_known else None

    def stats(self) -> dict[str, Any]:
        """Counts the outcomes of trees up to now, in the form of `spout_sdk.statistics.Stats`; lost trees have failed.

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
        return self._table.count(PENDING)

    @property
    def due(self) -> int:
        """Messages that have to be delivered again."""
        return self._table.count(DUE)

    @property
    def ended(self) -> int:
        """Messages that have ended, and whose outcomes are to be written."""
        return self._table.count(ENDED)

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
        """Whether all is done."""
        with self._changed:
            return not (self.outstanding or self.due or self.ended)

    def _open(self, positions: Positions, mark: int, now: float | None = None, *, is_timed: bool = True) -> None:
        """Opens messages under attempt 0, as far as they lie after all that were opened; positions rise."""
        moment = self._clock()
        began = moment if now is None else now
        first_emit = _now_ms() - round(1000 * (moment - began))
        row = {"delivered": began, "is_timed": is_timed, "mark": mark, "first_emit": first_emit}
        self._table.open(positions, row)

    def _own(self, roots: IdColumn, *why: Any) -> _Notices:
        """The outcomes of this spout's roots, with the reasons of fails."""
        is_own, positions, attempts = self._roots.positions(roots)
        return _Notices(positions, attempts, *why).of(is_own)

    def _apply(self, notices: _Notices) -> None:
        if self._written_from is not None:
            is_early = notices.positions > self._table.started[notices.positions >> OFFSET_BITS]
            if is_early.any():
                self._early.append(notices.of(is_early))
                notices = notices.of(~is_early)
        # Of several outcomes of a message, that of the last attempt counts.
        notices = notices.of(np.argsort(-notices.attempts, kind="stable"))
        places, rows = self._table.find(notices.positions)
        tried, last = notices.attempts[rows], self._table.columns["attempt"][places]
        if notices.reasons is None:
            is_pending = self._table.columns["state"][places] == PENDING
            is_timed = self._table.columns["is_timed"][places] & is_pending
            delivered = self._table.columns["delivered"][places][is_timed & (last == tried)]
            # The trees of a micro-batch began at one moment.
            for moment, trees in zip(*np.unique(delivered, return_counts=True), strict=True):
                self._complete_latency.record(self._clock() - float(moment), int(trees))
            # One that has no attempt left is pending while its dead letter is written.
            deliveries = np.maximum(np.minimum(last + is_pending, self._retry_limit + 1), tried + 1)
            if notices.failed is None:
                self._end(places, "acked", deliveries, self._why(places))
            else:
                marks = zip(self._table.positions[places].tolist(), notices.failed[rows].tolist(), strict=True)
                why = {position: Why(FailReason.FAILED.word, mark) for position, mark in marks}
                self._end(places, "dead-letter", deliveries, why)
            self.acked += len(places)
        else:
            # A failure of an attempt that was given up before is stale. One of a later attempt is that of an earlier
            # process, which had given up attempts without a notice.
            is_fresh = tried >= last
            places, rows = places[is_fresh], rows[is_fresh]
            self._put_due(places, notices.attempts[rows] + 1, notices.reasons[rows], notices.failed[rows].tolist())
        self.ignored += len(notices.positions) - len(places)

    def _put_due(self, places: Places, attempts: Any, reasons: Any, failed: Sequence[Failed]) -> None:
        self._move(places, DUE)
        self._table.columns["attempt"][places] = attempts
        self._table.columns["reason"][places] = reasons
        self._reasons.update(FailReason(reason).word for reason in reasons.tolist())
        for position, each in zip(self._table.positions[places].tolist(), failed, strict=True):
            if any(each):
                self._failed[position] = each
            else:
                self._failed.pop(position, None)

    def _end(self, places: Places, outcome: Outcome, deliveries: Any, why: Mapping[int, Why]) -> None:
        """Ends open messages: they are done, unless their outcomes are to be written."""
        if self._ended is not None and len(places):
            positions, first_emit = self._table.positions[places], self._table.columns["first_emit"][places]
            self._ended.append(Ended(outcome, positions, deliveries, first_emit, _now_ms(), why))
        self._move(places, DONE if self._ended is None else ENDED)

    def _why(self, places: Places) -> dict[int, Why]:
        """The last failures of messages that have failed."""
        if self._ended is None:
            return {}
        failed = places[self._table.columns["reason"][places] != 0]
        positions, reasons = self._table.positions[failed].tolist(), self._table.columns["reason"][failed].tolist()
        return {
            position: Why(FailReason(reason).word, self._failed_of(position))
            for position, reason in zip(positions, reasons, strict=True)
        }

    def _failed_of(self, position: int) -> Failed:
        return self._failed.get(position, _UNKNOWN)

    def _move(self, places: Places, state: int) -> None:
        self._table.move(places, state)
        if self._failed and state >= ENDED:
            for position in self._table.positions[places].tolist():
                self._failed.pop(position, None)

    def _given_up(self, places: Places) -> dict[int, str]:
        """Position → why the message is not delivered again, of messages without attempts left."""
        spent = places[self._table.columns["attempt"][places] > self._retry_limit]
        reasons = self._table.columns["reason"][spent].tolist()
        return {
            position: f"all {self._retry_limit + 1} attempts failed, the last one with reason {FailReason(reason).word}"
            + (f": {message}" if (message := self._failed_of(position).message) else "")
            for position, reason in zip(self._table.positions[spent].tolist(), reasons, strict=True)
        }
