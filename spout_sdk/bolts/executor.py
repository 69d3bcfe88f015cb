"""Calls the operator of a step with inputs, retries and ticks; measures the calls, and shows the running one."""

import math
from typing import Any, Final

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.topology import BoltOptions
from spout_sdk.arguments import check_seconds
from spout_sdk.bolts.call_sizes import Stride
from spout_sdk.bolts.input_rows import InputRows, Inputs, first_of
from spout_sdk.bolts.operator import Operator
from spout_sdk.bolts.retries import together
from spout_sdk.bolts.running_call import RunningCall
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TopologyError
from spout_sdk.statistics.stats import SAMPLE

_MOST_RETRIES: Final = 100  # executed before other tuples have a turn
_MICROSECOND: Final = 1e-6  # the sum of tick intervals is rounded


class Executor:
    """Calls the operator of a step, and measures latencies.

    Args:
        bolt: the instance that the user's factory has made.

    Attributes:
        operator: calls the bolt.
        input_age: seconds after which an open input expires: its trees have failed by then.
    """

    def __init__(self, bolt: Any, task: Task, settlement: Settlement) -> None:
        topology, component = task.topology, task.context.component
        self._component = component
        self._options = topology.options.get(component, BoltOptions())
        self._hooks, self._run_hooks = task.context.hooks, task.run_hooks
        self._counters = task.environment.counters
        self._load = self._counters.load(task.context.task)
        self._clock = task.environment.clock
        self._settlement = settlement
        if not isinstance(bolt, AnyBolt) or bolt.needs.called_by is None:
            raise TopologyError(
                f"component {component!r} makes a {type(bolt).__name__}, which is not a bolt: "
                "derive it from Bolt or another base class of spout_sdk"
            )
        self.operator: Operator = bolt.needs.called_by(bolt, task, settlement, self._options)
        slowest_ms = max((spout.timeout_ms for spout in topology.manifest.spouts), default=0)
        self.input_age = (topology.manifest.max_tree_age_ms + slowest_ms) / 1000
        if not self.operator.can_expire:
            self.input_age = math.inf
        self._running: tuple[float, Any] | None = None  # since when, and which inputs
        self._untimed = 0  # inputs before the next call that is timed
        self._ticked_at = self._clock()
        self._tick_interval: float | None = None
        self._tick_at = math.inf

    def prepare(self) -> None:
        """Prepares the bolt; raises the exceptions of the bolt."""
        self.operator.prepare()
        self._tick_interval = self._options.tick_interval
        if self._tick_interval is None:
            self._tick_interval = self.operator.tick_interval
            if self._tick_interval is not None:
                check_seconds(f"tick_interval of bolt {self._component!r}", self._tick_interval)
        if self._tick_interval is not None:
            self._tick_at = self._clock() + self._tick_interval

    @property
    def most(self) -> int:
        """How many inputs `execute` may get now: one after a pause, and one if hooks time a call for each input."""
        operator = self.operator
        if (self._hooks and isinstance(operator.size, Stride)) or (
            operator.failures.pause is not None and operator.failures.tries_one
        ):
            return 1
        return operator.size.tuples

    def execute(self, inputs: Inputs) -> float:
        """Executes inputs of one record, or those of one call; returns the time by the task's clock.

        Raises:
            ComponentError: if the bolt raised, and its options or the number of failures end the task.
        """
        if isinstance(inputs, InputRows) and not self.operator.takes_rows:
            inputs = inputs.tuples()
        count, load, clock = len(inputs), self._load, self._clock
        self._counters.executed += count
        load.executed += count
        self._untimed -= count
        is_timed = self._untimed < 0 or bool(self._hooks)
        began = clock()
        if is_timed:
            self._untimed = SAMPLE - count
            self._settlement.times.start(*first_of(inputs), began)
        self._running = began, inputs
        try:
            self.operator.process(inputs)
        finally:
            self._running = None
            now = clock()
            load.busy_seconds += now - began
        if is_timed:
            self._time(inputs, (now - began) / count)
        self.operator.size.executed(count, now - began)
        return now

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
        failures, retries = self.operator.failures, self._settlement.retries
        if failures.tries_one:
            if retries.has_due(now) and (retries.has_deferred or not others_wait):
                return self._execute_due(until, 1)
            if not (others_wait or retries.has_due(now) or self.operator.running_inputs):
                failures.end_pause()
            return 0
        if failures.pause is not None and not failures.is_paused:
            failures.end_pause()  # a call has returned
        if not retries.has_due(now) or self.operator.is_busy:
            return 0
        return self._execute_due(until)

    def finish(self, until: float) -> None:
        """Executes due retries until `until`: the task ends, and the offsets of its inputs are committed."""
        self.operator.failures.finish()
        while self._settlement.retries.has_due(self._clock()) and self._clock() < until:
            self._execute_due(until)

    def tick(self, now: float) -> None:
        """Executes a tick if one is due."""
        interval = self._tick_interval
        if interval is not None and now >= self._tick_at - _MICROSECOND:
            # Counted from when it was due, so that ticks do not drift; missed ticks are skipped.
            self._tick_at += interval * (1 + (now - self._tick_at + _MICROSECOND) // interval)
            self._tick()

    def _execute_due(self, until: float, most: int = _MOST_RETRIES) -> int:
        retries, operator, calls = self._settlement.retries, self.operator, 0
        taken = retries.take(self._clock(), most)
        several = together(taken) if operator.takes_several else ([retry] for retry in taken)
        for retried in several:
            if operator.is_busy or (calls and self._clock() >= until):
                retries.put_back(retried)
                continue
            calls += 1
            for retry in retried:
                retry.tuple.pack.reset_emit_sequence(retry.tuple.index)
            first, last = retried[0], retried[-1]
            if first.rows is not None:
                self.execute(first.rows[first.row : last.row + 1])
            else:
                self.execute([retry.tuple for retry in retried])
            retries.executed(retried)
        return calls

    def _tick(self) -> None:
        """Executes a tick, which statistics do not count; counts inputs that run between calls as busy time."""
        now, before = self._clock(), self._ticked_at
        self._ticked_at = now
        self._load.busy_seconds += (now - before) * self.operator.utilization
        self._running = now, ()
        try:
            self.operator.tick(now)
        finally:
            self._running = None

    @property
    def running(self) -> RunningCall | None:
        """The call that runs now, for another thread."""
        running, one = self._running, self.operator.input
        if running is None:
            return None
        since, inputs = running
        return RunningCall(since, (one,) if one is not None and one in inputs else inputs)

    def _time(self, inputs: Inputs, seconds: float) -> None:
        """Records the average time per tuple of a timed call: for one in `SAMPLE` tuples, or for all with hooks."""
        self._counters.execute_latency.record(seconds)
        tuples = () if not self._hooks else inputs.tuples() if isinstance(inputs, InputRows) else inputs
        for tuple_ in tuples:
            self._run_hooks(lambda hook, tuple_=tuple_: hook.bolt_execute(tuple_, seconds))  # type: ignore[misc]
