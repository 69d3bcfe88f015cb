"""The base of operators: how a step of a task calls the bolts of one kind.

Each kind of bolt names its operator in its `needs`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from spout_sdk.api.topology import STOP_TIMEOUT, BoltOptions
from spout_sdk.api.tuples import Tuple, tick_tuple
from spout_sdk.bolts.call_sizes import BatchSize, Stride
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task


class Operator(ABC):
    """Calls a bolt with inputs, and handles what it raises.

    Attributes:
        takes_columns: whether inputs are rows of an `ArrowInput` instead of tuples.
        takes_rows: whether inputs are `InputRows`; inputs that are executed again are tuples.
        takes_several: whether one call of the bolt takes several tuples, of several records if these are not columns.
        makes_size: makes `size`; a `BatchSize` if one call takes all inputs.
        size: how many inputs `process` gets.
        can_expire: whether an input that is open for longer than its trees fails: the bolt may have forgotten it.
        stop_timeout: seconds for which a stop waits for inputs that it has begun.
        busy_since: since when a long-running input leaves no room for other inputs; None if there is room.
        input: the tuple of the call that runs, if it is known.
        state: the state of the task; None without one.
        failures: handles calls that raise.

    Args:
        bolt: the instance that the user's factory has made.
    """

    takes_columns = False
    takes_rows = False
    takes_several = False
    makes_size: Callable[[], Stride | BatchSize] = Stride
    can_expire = True
    stop_timeout: float = STOP_TIMEOUT
    busy_since: float | None = None
    input: Tuple | None = None
    state: Any = None

    def __init__(self, bolt: Any, task: Task, settlement: Settlement, options: BoltOptions) -> None:
        self._bolt = bolt
        self._task = task
        self._settlement = settlement
        self.failures = ExecuteFailures(task, settlement, options)
        self.size = self.makes_size()

    def prepare(self) -> None:
        """Calls the bolt's `prepare`."""
        self._bolt.prepare(self._task.context)

    @abstractmethod
    def process(self, inputs: Any) -> None:
        """Calls the bolt with inputs of one record; raises `ComponentError` if the bolt raised, and that ends the task.

        With `takes_several` the inputs are for one call.
        """

    def tick(self, now: float) -> None:  # noqa: ARG002 - for operators that work between calls
        """Processes a tick tuple, which does not count as a call that returned or raised."""
        in_a_row = self.failures.in_a_row
        try:
            self.process((tick_tuple(),))
        finally:
            self.failures.in_a_row = in_a_row

    @property
    def tick_interval(self) -> float | None:
        """Seconds between ticks; None for none."""
        interval: float | None = getattr(self._bolt, "tick_interval", None)
        return interval

    @property
    def is_busy(self) -> bool:
        """Whether it can take no more inputs now."""
        return self.failures.pause is not None and self.failures.is_paused

    @property
    def running_inputs(self) -> int:
        """How many inputs run between two calls, or wait until such inputs end."""
        return 0

    @property
    def utilization(self) -> float:
        """Running inputs as a share, 0.0 to 1.0, of the inputs that may run between two calls."""
        return 0.0

    @property
    def is_expected(self) -> bool:
        """Whether it takes no inputs because the running ones take long, within an explicit `time_limit`."""
        return False

    def forget_waiting(self) -> None:
        """Drops the inputs that wait for others: they stay open, and are read again."""

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, `seconds` at most."""

    def cleanup(self) -> None:
        """Calls the bolt's `cleanup`."""
        self._bolt.cleanup()

    def _defer_after(self, tuple_: Tuple, tuples: Sequence[Tuple]) -> None:
        """Queues the tuples of a call that come after one of them: the task pauses."""
        self._settlement.retries.defer(tuples[tuples.index(tuple_) + 1 :])
