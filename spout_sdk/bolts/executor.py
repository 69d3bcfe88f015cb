"""Calls the bolt of a task with tuples, retries and ticks; measures the calls, and shows the running one."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import Tuple, tick_tuple
from spout_sdk.arguments import check_seconds
from spout_sdk.bolts.adapters import adapter_of
from spout_sdk.bolts.arrow_collector import ArrowInput
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.retries import Retry, together
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task
from spout_sdk.statistics.stats import SAMPLE

_MOST_RETRIES: Final = 100  # executed before other tuples have a turn
_MICROSECOND: Final = 1e-6  # the sum of tick intervals is rounded
# The clock is read after about this time, by the speed of the tuples before: to read it for each tuple would cost as
# much as a small bolt, and a slow bolt must not miss its ticks.
_CLOCK_SECONDS: Final = 0.001
_MOST: Final = 100  # tuples between two readings of the clock
_SHORTEST: Final = 1e-9


class Executor:
    """Calls the bolt of a task, and measures latencies.

    Args:
        bolt: the instance that the user's factory has made.

    Attributes:
        adapter: calls the bolt.
        input_age: seconds after which an open input expires: its trees have failed by then.
    """

    def __init__(self, bolt: AnyBolt, task: Task, settlement: Settlement) -> None:
        topology, component = task.topology, task.context.component
        self._component = component
        self._options = topology.options.get(component, BoltOptions())
        self._hooks, self._run_hooks = task.context.hooks, task.run_hooks
        self._counters = task.environment.counters
        self._load = self._counters.load(task.context.task)
        self._clock = task.environment.clock
        self._settlement = settlement
        self.adapter = adapter_of(bolt, task, OutputCollector(task, settlement), settlement, self._options)
        slowest_ms = max((spout.timeout_ms for spout in topology.manifest.spouts), default=0)
        self.input_age = (topology.manifest.max_tree_age_ms + slowest_ms) / 1000
        if self.adapter.ends_inputs:
            self.input_age = math.inf
        self._running: tuple[float, Any] | None = None  # since when, and which tuples
        self._stride = 1
        self._untimed = 0  # calls before the next that is timed
        self._is_timed = False
        self._ticked_at = self._clock()
        self._tick_interval: float | None = None
        self._tick_at = math.inf

    def prepare(self) -> None:
        """Prepares the bolt; raises the exceptions of the bolt."""
        self.adapter.prepare()
        self._tick_interval = self._options.tick_interval
        if self._tick_interval is None:
            self._tick_interval = self.adapter.tick_interval
            if self._tick_interval is not None:
                check_seconds(f"tick_interval of bolt {self._component!r}", self._tick_interval)
        if self._tick_interval is not None:
            self._tick_at = self._clock() + self._tick_interval

    def execute(self, tuples: Iterator[Tuple], until: float) -> bool:
        """Executes tuples of one record until about `until`, by the task's clock; returns whether no tuple is left.

        A busy bolt takes no more tuples.

        Raises:
            ComponentError: if the bolt raised, and its options or the number of failures end the task.
        """
        adapter, clock = self.adapter, self._clock
        if adapter.is_busy:
            return False
        # Each call is timed by itself for hooks, and a bolt that may become busy is checked after each.
        most = 1 if self._hooks or adapter.may_be_busy or adapter.failures.tries_one else _MOST
        several = list(islice(tuples, min(self._stride, most)))
        started = began = clock()
        try:
            while several:
                self._begin(several, began)
                adapter.execute(several)
                now = clock()
                seconds = (now - began) / len(several)
                self._executed(several, seconds)
                self._stride = max(1, min(most, int(_CLOCK_SECONDS / max(seconds, _SHORTEST))))
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
            self.adapter.execute(batch)
            seconds = self._clock() - began
        finally:
            self._running = None
        self._load.busy_seconds += seconds
        self._executed(batch, seconds)

    def execute_retries(self, now: float, until: float, *, others_wait: bool) -> int:
        """Executes tuples whose retries are due, or ends a pause that is over; returns how many calls it made.

        Args:
            now: by the clock of the task.
            until: the approximate time, by that clock, at which other tuples have a turn.
            others_wait: whether tuples wait that were not executed. After a pause one of these is tried first: the
                failed tuples may have caused the pause.

        Raises:
            ComponentError: as `execute`.
        """
        failures, retries = self.adapter.failures, self._settlement.retries
        if failures.tries_one:
            if retries.has_due(now) and (retries.has_deferred or not others_wait):
                return self._execute_due(until, 1)
            if not (others_wait or retries.has_due(now) or self.adapter.running_inputs):
                failures.end_pause()
            return 0
        if failures.pause is not None and not failures.is_paused:
            failures.end_pause()  # a call has returned
        if not retries.has_due(now) or self.adapter.is_busy:
            return 0
        return self._execute_due(until)

    def finish(self, until: float) -> None:
        """Executes due retries until `until`: the task ends, and the offsets of its inputs are committed."""
        self.adapter.failures.finish()
        while self._settlement.retries.has_due(self._clock()) and self._clock() < until:
            self._execute_due(until)

    def tick(self, now: float) -> None:
        """Executes a tick tuple if one is due."""
        interval = self._tick_interval
        if interval is not None and now >= self._tick_at - _MICROSECOND:
            # Counted from when it was due, so that ticks do not drift; missed ticks are skipped.
            self._tick_at += interval * (1 + (now - self._tick_at + _MICROSECOND) // interval)
            self._tick()

    def _execute_due(self, until: float, most: int = _MOST_RETRIES) -> int:
        retries, adapter, calls = self._settlement.retries, self.adapter, 0
        taken = retries.take(self._clock(), most)
        several = together(taken) if adapter.takes != "tuples" else ([retry] for retry in taken)
        for retried in several:
            if adapter.is_busy or (calls and self._clock() >= until):
                retries.put_back(retried)
                continue
            calls += 1
            for retry in retried:
                retry.tuple.pack.reset_emit_sequence(retry.tuple.index)
            self._execute_again(retried)
            retries.executed(retried)
        return calls

    def _tick(self) -> None:
        """Executes a tick tuple, which statistics do not count; counts inputs that run between calls as busy time."""
        now, before = self._clock(), self._ticked_at
        self._ticked_at = now
        self._load.busy_seconds += (now - before) * self.adapter.utilization
        ticked, failures = (tick_tuple(),), self.adapter.failures
        in_a_row = failures.in_a_row
        self._running = now, ticked
        try:
            self.adapter.execute(ticked)
        finally:
            self._running = None
            if not self.adapter.may_be_busy:  # if it may be, inputs have ended meanwhile
                failures.in_a_row = in_a_row

    @property
    def running(self) -> RunningCall | None:
        """The call that runs now, for another thread."""
        running, one = self._running, self.adapter.input
        if running is None:
            return None
        call = RunningCall(*running, self.adapter.head)
        return call.of(one) if one is not None and one in call.tuples else call

    def _execute_again(self, retried: Sequence[Retry]) -> None:
        first, last = retried[0], retried[-1]
        if first.rows is not None:
            self.execute_batch(first.rows[first.row : last.row + 1])
        elif self.adapter.takes == "batches":
            self.execute_batch([retry.tuple for retry in retried])
        else:
            for retry in retried:
                self.execute(iter([retry.tuple]), self._clock())

    def _begin(self, tuples: Any, began: float) -> None:
        self._running = began, tuples
        self._counters.executed += len(tuples)
        self._load.executed += len(tuples)
        self._untimed -= len(tuples)
        self._is_timed = self._untimed < 0 or bool(self._hooks) or self.adapter.takes != "tuples"
        if self._is_timed:
            self._untimed = SAMPLE - len(tuples)
            if self.adapter.times_acks:
                self._settlement.start_timing(tuples[0], began)

    def _executed(self, tuples: Sequence[Tuple] | ArrowInput, seconds: float) -> None:
        """Records the average time per tuple of a timed call: for one in `SAMPLE` tuples, or for all with hooks."""
        if not self._is_timed:
            return
        self._counters.execute_latency.record(seconds)
        if self.adapter.records_acks:
            self._counters.process_latency.record(seconds)
        for tuple_ in tuples if self._hooks else ():
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_execute(tuple_, seconds))  # type: ignore[misc]
