"""The base of the tasks of components, and when they flush."""

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final

from spout_sdk.api.context import EmitInfo, TaskContext, TaskHook
from spout_sdk.api.signatures import check_signatures
from spout_sdk.api.topology import Topology
from spout_sdk.emitting.dead_letters import DeadLetters
from spout_sdk.emitting.emit_plan import EmitPlan, emit_plans
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.errors import BrokerError, ComponentError, EmitError, NotPreparedError
from spout_sdk.records import Clock, Sink, TaskEnvironment
from tuple_tree.errors import ENDS_PROCESS, describe
from tuple_tree.ids import random_ids

LINGER_SECONDS: Final = 0.005  # how long a tuple or an entry is buffered
CONGESTED_LINGER_SECONDS: Final = 0.05  # the same while many records are in flight, at most
_BUSY: Final = 32
_BEGIN: Final = ("__init__", "prepare", "open")  # the methods before the first tuple
_SLICE_SECONDS: Final = 0.002
_MICROSECOND: Final = 1e-6  # differences of times are rounded


class Task:
    """Base of the tasks of components: runs the code of one component.

    Attributes:
        outbox: sends its tuples and entries.
        dead_letters: sends records that it cannot use.
        plans: stream → how the task emits to it.
        context: the context that the user's component gets.
        receives_columns: whether tuples come as columns without a conversion.
    """

    _logger: ClassVar[logging.Logger]
    outbox: Outbox
    receives_columns = True

    def __init__(self, topology: Topology, component: str, task: int, environment: TaskEnvironment) -> None:
        self.topology, self.environment = topology, environment
        self._component = component
        self._task = task
        self._counters = environment.counters
        self._clock = environment.clock
        self.context = TaskContext(
            *(topology.manifest, component, task, self._counters, self._clock, environment.kafka)
        )
        self._hooks = self.context.hooks
        self.next_id = random_ids(environment.entropy).__next__
        self.dead_letters = DeadLetters(f"{component}/{task}", topology.name, environment)
        self.plans = emit_plans(topology, self.context, self.next_id, self._counters)

    @property
    def name(self) -> str:
        """Component and task, as `split/0`."""
        return f"{self._component}/{self._task}"

    def plan(self, stream: str) -> EmitPlan:
        """The plan of a stream; raises `EmitError` if there is no stream with that name."""
        if (plan := self.plans.get(stream)) is None:
            declared = ", ".join(self.plans) or "none"
            raise EmitError(self._component, stream, (), f"it declares {declared}; add the stream to its `streams`")
        return plan

    def report_error(self, error: BaseException) -> None:
        """Logs and counts an error after which the task continues."""
        self._counters.count_error(error)
        what = (self._component, self._task, describe(error))
        self._logger.error("%s/%d reports an error: %s", *what, exc_info=error)

    def run_hooks(self, call: Callable[[TaskHook], None]) -> None:
        """Calls each hook of the task, and reports their exceptions, which change nothing."""
        for hook in self._hooks:
            try:
                call(hook)
            except ENDS_PROCESS:
                raise
            except BaseException as error:  # noqa: BLE001 - anything that a user's hook raises
                self.report_error(error)

    def call_emit_hooks(self, emitted: EmitInfo) -> None:
        """Calls the hooks of the task after an emit."""
        self.run_hooks(lambda hook: hook.emit(emitted))

    def _make(self) -> Any:
        """The user's instance."""
        try:
            made = self.topology.factory(self._component)()
        except ENDS_PROCESS:
            raise
        except BaseException as error:
            raise self._broken("__init__", error) from error
        check_signatures(f"component {self._component!r}", made)
        return made

    def _add_hooks(self) -> None:
        for make in self.topology.hooks:
            self._call("prepare", lambda: self.context.add_hook(make()))  # noqa: B023 - called at once

    def _call(self, method: str, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a method of the user's component; raises `ComponentError` if it raises."""
        try:
            function(*arguments)
        except (BrokerError, *ENDS_PROCESS):
            raise
        except BaseException as error:
            raise self._broken(method, error) from error

    def _end(self, method: str, end: Callable[[], None]) -> None:
        """Calls a method and the hooks' `cleanup`. Exceptions are only logged, because the task ends anyway.

        A `ComponentError`, with which a bolt ends its process, is raised again: its work must not be committed.
        """
        ended_by: ComponentError | None = None
        for each in (end, *(hook.cleanup for hook in self._hooks)):
            try:
                each()
            except ComponentError as error:
                ended_by = error
            except ENDS_PROCESS:
                raise
            except BaseException:  # anything that a user's component raises
                self._logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        if ended_by is not None:
            raise ended_by

    def _broken(self, method: str, error: BaseException) -> ComponentError:
        self._logger.exception("%s/%d: %s() raised", self._component, self._task, method)
        kind = NotPreparedError if method in _BEGIN else ComponentError
        return kind(self._component, self._task, method, error)


def has_lingered(seconds: float, sink: Sink) -> bool:
    """Whether data that was buffered for some seconds is sent now; it waits longer while many records are in flight."""
    if seconds >= CONGESTED_LINGER_SECONDS:
        return True
    return seconds >= LINGER_SECONDS - _MICROSECOND and not sink.is_congested()


class FlushTiming:
    """Decides when a task with an idle input flushes its buffer: Nagle's algorithm, with a limit.

    An idempotent producer has five requests in flight for a partition; records that are flushed meanwhile queue
    behind them, one by one. So an idle task flushes at once if everything that it has sent is delivered, and otherwise
    waits for the delivery, as long as `has_lingered` says. See RFC 896.
    """

    def __init__(self, clock: Clock, sink: Sink) -> None:
        self._clock = clock
        self._sink = sink
        self._flushed_at = 0.0
        self._count = 0

    def flushed(self, count: int) -> None:
        """Records a flush; `count` is how many tuples the loop has handled so far."""
        self._flushed_at, self._count = self._clock(), count

    def wait_seconds(self, count: int) -> float:
        """For how many seconds to wait for input before asking again; 0 if the loop should flush now.

        After 32 tuples a flush waits for 5 ms in any case: if processes wait for cores, the input is idle after each
        turn of this process, and more comes soon. `count` is how many tuples the loop has handled so far.
        """
        handled, now = count - self._count, self._clock()
        if not handled:
            return 0.0
        rest, in_flight = self._flushed_at + LINGER_SECONDS - now, self._sink.in_flight()
        if rest <= 0:
            return 0.0 if has_lingered(now - self._flushed_at, self._sink) else _SLICE_SECONDS
        if handled >= _BUSY:
            return rest
        return min(rest, _SLICE_SECONDS) if in_flight else 0.0
