"""Has the tuples of a task executed: some of a record, or a batch; how long that takes, and what runs now."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from spout_sdk.api.tuples import Tuple, tick_tuple
from spout_sdk.bolts.adapters import BoltAdapter
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.bolts.retries import Retry, together
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import SAMPLE

_MOST_RETRIES: Final = 100  # that are executed before other tuples have a turn
_FAST_SECONDS: Final = 0.0001  # of a tuple; below, the clock is read once for many tuples


class Executor:
    """Has the bolt of a task executed, and measures latencies."""

    def __init__(self, task: Task, adapter: BoltAdapter, outcomes: Outcomes) -> None:
        self._hooks, self._run_hooks = task.context.hooks, task.run_hooks
        self._counters = task.environment.counters
        self._load = self._counters.load(task.context.task)
        self._clock = task.environment.clock
        self._outcomes = outcomes
        self._adapter = adapter
        self._running: tuple[float, Any] | None = None  # since when, and which tuples
        self._stride = 1
        self._untimed = 0  # calls before the next that is timed
        self._is_timed = False
        self._ticked_at = self._clock()

    def execute(self, tuples: Iterator[Tuple], until: float) -> bool:
        """Executes tuples of one record, until about a time of the task's clock; returns whether none is left.

        A bolt that is busy takes no more.

        Raises:
            ComponentError: if the bolt raised, and its options or the number of failures end the task.
        """
        adapter, clock = self._adapter, self._clock
        if adapter.is_busy:
            return False
        # Each call is timed by itself for hooks, and a bolt that may be busy is asked after each.
        most = 1 if self._hooks or adapter.may_be_busy or adapter.failures.tries_one else SAMPLE
        several = list(islice(tuples, min(self._stride, most)))
        started = began = clock()
        try:
            while several:
                self._begin(several, began)
                adapter.execute(several)
                now = clock()
                seconds = (now - began) / len(several)
                self._executed(several, seconds)
                # A clock for each tuple would cost as much as a small bolt, and a slow bolt must not miss its ticks.
                self._stride = most if seconds < _FAST_SECONDS else 1
                if now >= until or adapter.is_busy:
                    return False
                began = now
                several = list(islice(tuples, self._stride))
        finally:
            self._running = None
            self._load.busy_seconds += clock() - started
        return True

    def execute_batch(self, batch: Sequence[Tuple] | ArrowInput) -> None:
        """Executes tuples, or rows of a record, with one call of the bolt; raises as `execute`."""
        began = self._clock()
        self._begin(batch, began)
        try:
            self._adapter.execute(batch)
            seconds = self._clock() - began
        finally:
            self._running = None
        self._load.busy_seconds += seconds
        self._executed(batch, seconds)

    def execute_retries(self, until: float, most: int = _MOST_RETRIES) -> int:
        """Executes tuples whose retries are due, until about a time of the clock; returns how many calls it made.

        Raises:
            ComponentError: as `execute`.
        """
        retries, adapter, calls = self._outcomes.retries, self._adapter, 0
        taken = retries.take(self._clock(), most)
        several = together(taken) if adapter.takes != "tuples" else ([retry] for retry in taken)
        for retried in several:
            if adapter.is_busy or (calls and self._clock() >= until):
                retries.put_back(retried)
                continue
            calls += 1
            for retry in retried:
                retry.tuple.pack.begin_again(retry.tuple.index)
            self._execute_again(retried)
            retries.executed(retried)
        return calls

    def tick(self) -> None:
        """Executes a tick tuple, which counts for nothing; counts as busy what runs between calls."""
        now, before = self._clock(), self._ticked_at
        self._ticked_at = now
        self._load.busy_seconds += (now - before) * self._adapter.running_part
        ticked, failures = (tick_tuple(),), self._adapter.failures
        in_a_row = failures.in_a_row
        self._running = now, ticked
        try:
            self._adapter.execute(ticked)
        finally:
            self._running = None
            if not self._adapter.may_be_busy:  # otherwise inputs have ended meanwhile
                failures.in_a_row = in_a_row

    @property
    def running(self) -> RunningCall | None:
        """The call that runs now, for another thread."""
        running, one = self._running, self._adapter.input
        if running is None:
            return None
        call = RunningCall(*running, self._adapter.head)
        return call.of(one) if one is not None and one in call.tuples else call

    def _execute_again(self, retried: Sequence[Retry]) -> None:
        first, last = retried[0], retried[-1]
        if first.rows is not None:
            self.execute_batch(first.rows[first.row : last.row + 1])
        elif self._adapter.takes == "batches":
            self.execute_batch([retry.tuple for retry in retried])
        else:
            self.execute(iter([first.tuple]), self._clock())

    def _begin(self, tuples: Any, began: float) -> None:
        self._running = began, tuples
        self._counters.executed += len(tuples)
        self._load.executed += len(tuples)
        self._untimed -= len(tuples)
        self._is_timed = self._untimed < 0 or bool(self._hooks) or self._adapter.takes != "tuples"
        if self._is_timed:
            self._untimed = SAMPLE - len(tuples)
            if self._adapter.times_acks:
                self._outcomes.start_timing(tuples[0], began)

    def _executed(self, tuples: Sequence[Tuple] | ArrowInput, seconds: float) -> None:
        """Records how long a call took, on average where there were several: one in `SAMPLE`, or each for hooks."""
        if not self._is_timed:
            return
        self._counters.execute_latency.record(seconds)
        if self._adapter.records_acks:
            self._counters.process_latency.record(seconds)
        for tuple_ in tuples if self._hooks else ():
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_execute(tuple_, seconds))  # type: ignore[misc]
