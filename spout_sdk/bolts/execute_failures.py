"""Handles a call of a bolt that raises: retries or fails its tuples, and pauses or ends the task."""

from collections.abc import Sequence
from typing import Any, Final

from kafka_clients.repeated_lines import EACH, get_logger
from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.pause import FIRST_SECONDS, LONGEST_SECONDS, MessagesInARow, Pause
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task
from spout_sdk.errors import ComponentError, FailTupleError, RetryTupleError, TooManyFailuresError
from tuple_tree.errors import ENDS_PROCESS, WireError, describe, text_of

logger = get_logger("spout_sdk.bolt")

_SHOWN_TUPLES: Final = 3


class ExecuteFailures:
    """Retries or fails the tuples of a call that raised, makes dead letters of them, or ends or pauses the task.

    Attributes:
        in_a_row: for how many messages calls have raised since a call last returned, which sets it to 0. Replays and
            other tuples of a message do not count again, and tick tuples do not count.
        pause: the pause of the task, until a call returns; None without one.
    """

    def __init__(self, task: Task, settlement: Settlement, options: BoltOptions) -> None:
        self._component = task.context.component
        self._task = task.context.task
        self._options = options
        stops = options.on_consecutive_failures == "stop"
        self._stop_after = options.most_failures if stops else None
        self._pause_after = None if stops else options.most_failures
        self._settlement = settlement
        self._retries = settlement.retries
        self._clock = task.environment.clock
        self._counters = task.environment.counters
        self._most = options.most_failures or 0
        self._row = MessagesInARow(task.topology.manifest.ack_partitions)
        self.in_a_row = 0
        self.pause: Pause | None = None

    @property
    def is_paused(self) -> bool:
        """Whether nothing is executed now."""
        return self.pause is not None and self.in_a_row > 0 and self._clock() < self.pause.until

    @property
    def tries_one(self) -> bool:
        """Whether the time of a pause is over, and one call is tried, which ends or prolongs it."""
        return self.pause is not None and self.in_a_row > 0 and self._clock() >= self.pause.until

    def handle(self, tuples: Sequence[Tuple], error: BaseException, rows: Any = None) -> None:
        """Settles or retries the tuples of a call that raised; raises `ComponentError` if that ends the task.

        Args:
            error: the exception; one of `ENDS_PROCESS` is raised again.
            rows: the `ArrowInput` of the call of an `ArrowBolt`.
        """
        if isinstance(error, (ComponentError, *ENDS_PROCESS)):  # the first is of a window that closes
            raise error
        settlement, options = self._settlement, self._options
        undone = [each for each in tuples if not each.settled]
        if isinstance(error, FailTupleError):
            for tuple_ in undone:
                settlement.fail(tuple_, text_of(error))
            return
        if isinstance(error, RetryTupleError):
            why = text_of(error) or type(error).__name__
            for tuple_ in undone:
                self._retries.retry(tuple_, why, error.delay, rows)
            return
        self._counters.count_error(error)
        why = describe(error)
        self._log(tuples, error, why)
        if options.on_exception == "crash":
            raise ComponentError(self._component, self._task, "execute", error) from error
        counts = not tuples[0].is_tick
        if counts:
            self._count(tuples[0], why)
        for tuple_ in undone:
            if tuple_.is_tick:
                continue
            if self.pause is not None and self._retries.executes_again:
                self._retries.keep(tuple_, self.pause.until, rows)
            elif options.on_exception == "retry":
                self._retries.retry(tuple_, why, rows=rows)
            elif options.on_exception == "dead_letter":
                settlement.send_dead_letter(tuple_, WireError("exception", why))
            else:
                settlement.fail(tuple_, why)
        if counts and self._stop_after is not None and self.in_a_row >= self._stop_after:
            raise TooManyFailuresError(self._component, self._task, self._stop_after, error) from error

    def end_pause(self) -> None:
        """Ends the pause: a call has returned, nothing waits for it any more, or the task ends."""
        pause, self.pause = self.pause, None
        if pause is not None:
            self.in_a_row = 0
            text = "%s/%d continues, after a pause of %.0f s in which %d calls were tried and raised"
            what = (self._component, self._task, self._clock() - pause.since, pause.tries)
            logger.warning(text, *what, extra=EACH)

    def finish(self) -> None:
        """Ends the pause permanently: the task ends, and executes the inputs that it has committed."""
        self._pause_after = None
        self.end_pause()

    def _count(self, tuple_: Tuple, why: str) -> None:
        """Counts a call that raised; pauses the task if these are too many."""
        if not self.in_a_row:
            self._row.clear()
            self.end_pause()
        if self.in_a_row < max(self._most, 1):
            self.in_a_row += self._row.add(tuple_)
        now = self._clock()
        if self.pause is not None:
            if now >= self.pause.until:  # an earlier one was begun before the pause
                self.pause.tried(now, why)
        elif self._pause_after is not None and self.in_a_row >= self._pause_after:
            self.pause = Pause(now, why)
            logger.warning(
                "%s/%d pauses: execute raised for tuples of %d messages in a row, the last time %s. It tries one tuple "
                "again in %g s, and then after pauses of up to %g s; its inputs wait, and their trees are kept alive "
                "until max_tree_age. If single tuples cause the failures, raise FailTupleError, or set "
                "max_consecutive_failures=0",
                *(self._component, self._task, self.in_a_row, why, FIRST_SECONDS, LONGEST_SECONDS),
                extra=EACH,
            )

    def _log(self, tuples: Sequence[Tuple], error: BaseException, why: str) -> None:
        by, at = (self._component, self._task), (tuples[0].topic, tuples[0].partition, tuples[0].offset)
        shown = (", ".join(f"{root:016x}" for root in each.roots) or "none" for each in tuples[:_SHOWN_TUPLES])
        text = "%s/%d raised %s at %s[%d] offset %d, roots %s"
        logger.error(text, *by, why, *at, ", ".join(shown), exc_info=error)
