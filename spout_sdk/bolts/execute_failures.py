"""Fails the tuples of a call of a bolt that raised, makes dead letters of them, or ends the task."""

from collections.abc import Sequence
from typing import Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.emitting.task import Task
from spout_sdk.errors import ComponentError, FailTupleError, TooManyFailuresError
from tuple_tree.errors import WireError

logger = get_logger("spout_sdk.bolt")

_SHOWN_TUPLES: Final = 3


class ExecuteFailures:
    """Fails the tuples of a call that raised, makes dead letters of them, or ends the task, by the bolt's options.

    Bolts that hold tuples have one of their own, for calls of the user's code that are not calls of `execute`.
    """

    def __init__(self, task: Task, outcomes: Outcomes, options: BoltOptions) -> None:
        self._component = task.context.component
        self._task = task.context.task
        self._options = options
        self._outcomes = outcomes
        self._counters = task.environment.counters
        self.in_a_row = 0  # calls that have raised since the last one that did not

    def handle(self, tuples: Sequence[Tuple], error: Exception) -> None:
        """Settles the tuples of a call that raised; raises `ComponentError` if that ends the task."""
        if isinstance(error, ComponentError):  # of a bolt that holds tuples
            raise error
        if isinstance(error, FailTupleError):
            self._fail(tuples, str(error))
            return
        self._counters.count_error(error)
        self._log(tuples, error)
        options = self._options
        if options.on_exception == "crash":
            raise ComponentError(self._component, self._task, "execute", error) from error
        if options.on_exception == "dead_letter":
            raised = WireError("exception", f"{type(error).__name__}: {error}")
            for tuple_ in tuples:
                if not (self._outcomes.is_done(tuple_) or tuple_.is_tick):
                    self._outcomes.send_dead_letter(tuple_, raised)
        else:
            self._fail(tuples, f"{type(error).__name__}: {error}")
        self.in_a_row += 1
        limit = options.max_consecutive_failures
        if limit is not None and self.in_a_row >= limit:
            raise TooManyFailuresError(self._component, self._task, limit, error) from error

    def _log(self, tuples: Sequence[Tuple], error: Exception) -> None:
        by, at = (self._component, self._task), (tuples[0].topic, tuples[0].partition, tuples[0].offset)
        shown = (", ".join(f"{root:016x}" for root in each.roots) or "none" for each in tuples[:_SHOWN_TUPLES])
        text = "%s/%d raised %s: %s at %s[%d] offset %d, roots %s"
        logger.error(text, *by, type(error).__name__, error, *at, ", ".join(shown), exc_info=error)

    def _fail(self, tuples: Sequence[Tuple], message: str) -> None:
        for tuple_ in tuples:
            if not self._outcomes.is_done(tuple_):
                self._outcomes.fail(tuple_, message)
