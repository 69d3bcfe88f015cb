"""Calls a bolt, for each tuple, for the tuples of a record together, for batches or for columns; what it raises."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from kafka_clients.repeated_lines import get_logger
from spout_sdk.api.components import AnyBolt, ArrowBolt, BasicBolt, BatchBolt
from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.bolts.arrow_collector import ArrowCollector, ArrowInput
from spout_sdk.bolts.basic_collector import FEWEST, BasicCollector
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.holding_bolt import HoldingBolt
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.errors import ComponentError, FailTupleError, TooManyFailuresError
from spout_sdk.statistics.stats import SAMPLE
from tuple_tree.errors import WireError

logger = get_logger("spout_sdk.bolt")

_SHOWN_TUPLES: Final = 3
_FAST_SECONDS: Final = 0.0001  # of a tuple; below, the clock is read once for many tuples


class ExecuteFailures:
    """Fails the tuples of a call that raised, makes dead letters of them, or ends the task, by the bolt's options.

    Bolts that hold tuples have one of their own, for calls of the user's code that are not calls of `execute`.
    """

    def __init__(self, collector: OutputCollector, options: BoltOptions) -> None:
        self._component = collector.task.context.component
        self._task = collector.task.context.task
        self._options = options
        self._collector = collector
        self._counters = collector.metrics
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
                if not (self._collector.is_done(tuple_) or tuple_.is_tick):
                    self._collector.send_dead_letter(tuple_, raised)
        else:
            self._fail(tuples, f"{type(error).__name__}: {error}")
        self.in_a_row += 1
        limit = options.max_consecutive_failures
        if limit is not None and self.in_a_row >= limit:
            raise TooManyFailuresError(self._component, self._task, limit, error) from error

    def _log(self, tuples: Sequence[Tuple], error: Exception) -> None:
        by, at = (self._component, self._task), (tuples[0].topic, tuples[0].partition, tuples[0].offset)
        shown = (", ".join(f"{root:016x}" for root in each.edges) or "none" for each in tuples[:_SHOWN_TUPLES])
        text = "%s/%d raised %s: %s at %s[%d] offset %d, roots %s"
        logger.error(text, *by, type(error).__name__, error, *at, ", ".join(shown), exc_info=error)

    def _fail(self, tuples: Sequence[Tuple], message: str) -> None:
        for tuple_ in tuples:
            if not self._collector.is_done(tuple_):
                self._collector.fail(tuple_, message)


class Executor:
    """Calls the bolt of a task, measures latencies, and handles what it raises."""

    def __init__(self, bolt: AnyBolt, collector: OutputCollector, failures: ExecuteFailures) -> None:
        task = collector.task
        self._hooks = task.context.hooks
        self._counters = collector.metrics
        self._collector = collector
        self._basic = BasicCollector(collector)
        self._failures = failures
        self._load = collector.metrics.load(task.context.task)
        self._clock = task.environment.clock
        self._is_tracked = task.topology.manifest.acking
        self._is_basic = isinstance(bolt, BasicBolt)
        self._holding = bolt if isinstance(bolt, HoldingBolt) and bolt._may_be_busy else None
        self._running: RunningCall | None = None
        self._stride = 1
        self._untimed = 0
        self._user_execute: Any = bolt.execute_batch if isinstance(bolt, BatchBolt | ArrowBolt) else bolt.execute
        self._run: Callable[[Any], None] = self._user_execute  # type: ignore[assignment]
        if self._is_basic:
            self._run = self._execute_basic
        elif isinstance(bolt, ArrowBolt):
            self._run = lambda rows: self._user_execute(rows.batch, ArrowCollector(collector, rows))

    def execute(self, tuples: Iterator[Tuple], until: float) -> bool:
        """Executes tuples of one record, until about a time of the task's clock; returns whether none is left.

        A bolt that is busy takes no more.

        Raises:
            ComponentError: if the bolt raised, and its options or the number of failures end the task.
        """
        holding = self._holding
        # Each call is timed by itself for hooks, and a bolt that may be busy is asked after each.
        most = 1 if self._hooks or holding is not None else SAMPLE
        if holding is not None and holding._is_busy:
            return False
        several = list(islice(tuples, min(self._stride, most)))
        together = bool(several) and self._is_together(several[0].pack)
        run = self._execute_sampled
        if together:
            run, most = self._execute_together, 2 * SAMPLE
            self._basic.begin(several[0].pack)
        started = began = self._clock()
        try:
            while several:
                self._running = RunningCall(began, several)
                count = len(several)
                self._counters.executed += count
                self._load.executed += count
                run(several)
                now = self._clock()
                seconds = (now - began) / count
                # A clock for each tuple would cost as much as a small bolt, and a slow bolt must not miss its ticks.
                self._stride = most if seconds < _FAST_SECONDS else 1
                if together:
                    self._counters.execute_latency.record(seconds)
                    self._counters.process_latency.record(seconds)
                if now >= until or (holding is not None and holding._is_busy):
                    return False
                began = now
                several = list(islice(tuples, self._stride))
        finally:
            if together:
                self._basic.settle()
            self._running = None
            self._load.busy_seconds += self._clock() - started
        return True

    @property
    def running(self) -> RunningCall | None:
        """The call that runs now, for another thread."""
        running, one = self._running, self._basic.input
        if running is None or not running.tuples:  # the first of several is timed, and taken from them
            return None
        return running.of(one) if one is not None and one in running.tuples else running

    def _is_together(self, pack: InputPack) -> bool:
        """Whether a `BasicBolt` executes the tuples of a record, one tree each, and acks them together (ADR 25)."""
        return (
            self._is_basic
            and pack.size >= FEWEST
            and (pack.ids is not None or not self._is_tracked)
            and not (self._hooks or pack.trace_context)
        )

    def _execute_together(self, tuples: list[Tuple]) -> None:
        basic, execute, failures = self._basic, self._user_execute, self._failures
        done = basic.done
        before = len(done)  # at the last failure
        for tuple_ in tuples:
            basic.input = tuple_
            try:
                execute(tuple_, basic)
            except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
                basic.leave_out(tuple_)
                if len(done) > before:
                    failures.in_a_row = 0
                before = len(done)
                failures.handle((tuple_,), error)
            else:
                done.append(tuple_)
        if len(done) > before:
            failures.in_a_row = 0

    def _execute_sampled(self, tuples: list[Tuple]) -> None:
        """Times one in `SAMPLE` tuples, or each for hooks."""
        self._untimed -= len(tuples)
        if self._untimed < 0 or self._hooks:
            self._untimed = SAMPLE - len(tuples)
            first = tuples.pop(0)
            self._execute_timed(first, (first,))
        run = self._run
        for tuple_ in tuples:
            # The common case of `call`, spelled out.
            try:
                run(tuple_)
            except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
                self._failures.handle((tuple_,), error)
            else:
                self._failures.in_a_row = 0

    def execute_batch(self, batch: Sequence[Tuple] | ArrowInput) -> None:
        """Executes tuples, or rows of a record, with one call of the bolt; raises as `execute`."""
        self._counters.executed += len(batch)
        self._load.executed += len(batch)
        self._load.busy_seconds += self._execute_timed(batch, batch)

    def call(self, given: Any, tuples: Sequence[Tuple] | ArrowInput) -> None:
        """Calls the bolt with `given`, which consists of these tuples, and takes no time."""
        outer, self._running = self._running, RunningCall(self._clock(), tuples)
        try:
            self._run(given)
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            self._handle(tuples, error)
        else:
            self._failures.in_a_row = 0
        finally:
            self._running = outer

    def _handle(self, tuples: Sequence[Tuple] | ArrowInput, error: Exception) -> None:
        self._failures.handle(tuples.taken_over() if isinstance(tuples, ArrowInput) else tuples, error)

    def _execute_timed(self, given: Any, tuples: Sequence[Tuple] | ArrowInput) -> float:
        """As `call`, and records the latencies, that until the ack for the first tuple only; returns the seconds."""
        began = self._clock()
        if not isinstance(tuples, ArrowInput):  # whose collector records the latter
            self._collector.start_timing(tuples[0], began)
        self.call(given, tuples)
        seconds = self._clock() - began
        self._counters.execute_latency.record(seconds)
        for tuple_ in tuples if self._hooks else ():
            self._collector.run_hooks(lambda hook, tuple_=tuple_: hook.bolt_execute(tuple_, seconds))  # type: ignore[misc]
        return seconds

    def _execute_basic(self, tuple_: Tuple) -> None:
        basic = self._basic
        basic.input = tuple_
        try:
            self._user_execute(tuple_, basic)
        finally:
            basic.input = None
        self._collector.ack(tuple_)
