"""What becomes of tuples whose `execute` raised, by the bolt's options."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.emitting.dead_letters import BoltDeadLetters
from spout_sdk.errors import ComponentError, FailTupleError, HeldTuplesError, SpoutSdkError, TooManyFailuresError
from spout_sdk.statistics.repetition import Repetition
from spout_sdk.topologies.topology import BoltOptions
from tuple_tree.anchors import Edges
from tuple_tree.errors import WireError

logger = logging.getLogger("spout_sdk.bolt")

_SHOWN_TUPLES: Final = 3


class HeldFailures:
    """What bolts that hold tuples raise about these, after the tuple of the call is in its place."""

    def __init__(self) -> None:
        self._raised: HeldTuplesError | None = None
        self._in_a_row = 0

    def succeeded(self) -> None:
        self._in_a_row = 0

    def add(self, tuples: Sequence[Tuple], error: Exception) -> None:
        self._raised = HeldTuplesError(tuples, error, self._in_a_row, self._raised)
        self._in_a_row += not isinstance(error, FailTupleError)

    def clear(self) -> HeldTuplesError | None:
        raised, self._raised = self._raised, None
        return raised

    def raise_all(self) -> None:
        if (raised := self.clear()) is not None:
            raise raised from raised.error


class ExecuteFailures:
    """Fails the tuples of a call that raised, makes dead letters of them, or ends the task."""

    def __init__(self, collector: OutputCollector, options: BoltOptions, dead_letters: BoltDeadLetters) -> None:
        self._component = collector.scope.context.component
        self._task = collector.scope.context.task
        self._options = options
        self._collector = collector
        self._counters = collector.metrics
        self._dead_letters = dead_letters
        self._repetition = Repetition(collector.scope.environment.clock)
        self.in_a_row = 0  # calls that have raised since the last one that did not

    def handle(self, tuples: Sequence[Tuple], error: Exception) -> None:
        """Settles the tuples of a call that raised; raises `ComponentError` if that ends the task."""
        if isinstance(error, HeldTuplesError):
            if error.earlier is not None:
                self.handle((), error.earlier)
            # A call that only holds a tuple is no success, so the bolt counts its failures itself.
            self.in_a_row = error.before
            tuples, error = error.tuples, error.error
        if isinstance(error, FailTupleError):
            self._fail(tuples, str(error))
            return
        self._counters.count_error(error)
        self._log(tuples, error)
        options = self._options
        if options.on_exception == "crash":
            raise ComponentError(self._component, self._task, "execute", error) from error
        if options.on_exception == "dead_letter":
            for tuple_ in tuples:
                if not (tuple_.settled or tuple_.is_tick):
                    self._keep(tuple_, error)
        else:
            self._fail(tuples, f"{type(error).__name__}: {error}")
        self.in_a_row += 1
        limit = options.max_consecutive_failures
        if limit is not None and self.in_a_row >= limit:
            raise TooManyFailuresError(self._component, self._task, limit, error) from error

    def _log(self, tuples: Sequence[Tuple], error: Exception) -> None:
        # A bolt that fails all its tuples must not hide all other lines of the log.
        line = self._repetition.line(error)
        by, at = (self._component, self._task), (tuples[0].topic, tuples[0].partition, tuples[0].offset)
        roots = ", ".join(_shown(tuple_.edges) for tuple_ in tuples[:_SHOWN_TUPLES])
        level, more, traceback = (logging.DEBUG, "", error) if line is None else (logging.ERROR, *line)
        text = "%s/%d raised %s: %s at %s[%d] offset %d, roots %s%s"
        logger.log(level, text, *by, type(error).__name__, error, *at, roots, more, exc_info=traceback)

    def _fail(self, tuples: Sequence[Tuple], message: str) -> None:
        for tuple_ in tuples:
            if not tuple_.settled:
                self._settle(partial(self._collector.fail, tuple_, message))

    def _settle(self, settle: Callable[[], None]) -> None:
        """Settles a tuple of a call that has failed already: what a hook raises now is only logged."""
        try:
            settle()
        except SpoutSdkError:
            raise
        except Exception as error:  # any exception of a user's hook
            self._counters.count_error(error)
            logger.exception("%s/%d: a hook raised for a tuple whose execute had failed", self._component, self._task)

    def _keep(self, tuple_: Tuple, error: Exception) -> None:
        """Makes a dead letter of a tuple, which is acked once that is delivered."""

        def delivered() -> None:
            if not tuple_.settled:
                self._settle(partial(self._collector.ack, tuple_))

        self._dead_letters.keep(tuple_, WireError("exception", f"{type(error).__name__}: {error}"), delivered)


def _shown(edges: Edges) -> str:
    return ", ".join(f"{root:016x}" for root in edges) or "none"
