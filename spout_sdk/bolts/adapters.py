"""Adapters through which a task calls its bolt: one for each kind of bolt, with one interface.

A kind registers its adapter with `adapter_of`, in the module that defines the adapter.
"""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, Literal

from spout_sdk.api.components import ArrowBolt, BatchBolt, Bolt
from spout_sdk.api.topology import STOP_TIMEOUT, BoltOptions
from spout_sdk.api.tuples import InputPack, Tuple
from spout_sdk.bolts.arrow_collector import ArrowCollector, ArrowInput
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task
from spout_sdk.errors import TopologyError


@singledispatch
def adapter_of(bolt: Any, task: Task, *_: Any) -> "BoltAdapter":
    """The adapter of a bolt, by its kind; the arguments are those of `BoltAdapter`."""
    raise TopologyError(
        f"component {task.context.component!r} makes a {type(bolt).__name__}, which is not a bolt: "
        "derive it from Bolt or another base class of spout_sdk"
    )


@adapter_of.register(Bolt)
class BoltAdapter:
    """Calls a bolt of one kind; this base class calls a `Bolt`.

    Attributes:
        takes: what `execute` is called with: some tuples of a record, a batch of tuples, or rows as an `ArrowInput`.
        records_acks: whether inputs are acked when `execute` returns.
        times_acks: whether the time from a call until the ack of its first tuple is measured.
        may_be_busy: whether `is_busy` may become true.
        emits_with_ack: whether everything that it sends for an input is sent when it acks the input.
        ends_inputs: whether the adapter settles each input itself, so that the bolt cannot forget one.
        stop_timeout: seconds for which a stop waits for inputs that it has begun.
        busy_since: since when a long-running input leaves no room for other inputs; None if there is room.
        input: the tuple of the call that runs, if it is known.
        state: the state of the task; None without one.
        failures: handles calls that raise.

    Args:
        bolt: the instance that the user's factory has made.
    """

    takes: Literal["tuples", "batches", "columns"] = "tuples"
    records_acks = False
    times_acks = True
    may_be_busy = False
    emits_with_ack = False
    ends_inputs = False
    stop_timeout: float = STOP_TIMEOUT
    busy_since: float | None = None
    input: Tuple | None = None
    state: Any = None

    def __init__(
        self, bolt: Any, task: Task, collector: OutputCollector, settlement: Settlement, options: BoltOptions
    ) -> None:
        self._bolt = bolt
        self._task = task
        self._collector = collector
        self._settlement = settlement
        self.failures = ExecuteFailures(task, settlement, options)

    def prepare(self) -> None:
        """Calls the bolt's `prepare`."""
        self._bolt.prepare(self._task.context, self._collector)

    def execute(self, tuples: Any) -> None:
        """Executes tuples, and handles what the bolt raises; raises `ComponentError` if that ends the task."""
        self._execute_each(self._bolt.execute, tuples)

    @staticmethod
    def head(tuples: Any) -> tuple[InputPack, int]:
        """The record of the first of the tuples that `execute` is called with, and the tuple's index in it."""
        return tuples[0].pack, tuples[0].index

    @property
    def tick_interval(self) -> float | None:
        """Seconds between tick tuples; None for none."""
        interval: float | None = getattr(self._bolt, "tick_interval", None)
        return interval

    @property
    def is_busy(self) -> bool:
        """Whether it can take no more inputs now."""
        return self.failures.is_paused

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

    def _execute_each(self, execute: Callable[[Tuple], object], tuples: Sequence[Tuple]) -> None:
        failures = self.failures
        for tuple_ in tuples:
            try:
                execute(tuple_)
            except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
                failures.handle((tuple_,), error)
                if failures.is_paused:
                    self._settlement.retries.defer(_behind(tuple_, tuples))
                    return
            else:
                failures.in_a_row = 0


@adapter_of.register(BatchBolt)
class BatchAdapter(BoltAdapter):
    """Calls a `BatchBolt` with all tuples at once."""

    takes = "batches"

    def execute(self, tuples: Any) -> None:
        try:
            self._bolt.execute_batch(tuples)
        except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
            self.failures.handle(tuples, error)
        else:
            self.failures.in_a_row = 0


@adapter_of.register(ArrowBolt)
class ArrowAdapter(BoltAdapter):
    """Calls an `ArrowBolt` with a record batch, and a collector for its rows."""

    takes = "columns"
    times_acks = False

    @staticmethod
    def head(tuples: Any) -> tuple[InputPack, int]:
        return tuples.pack, int(tuples.indices[0])

    def prepare(self) -> None:
        self._bolt.prepare(self._task.context)

    def execute(self, tuples: Any) -> None:
        rows = tuples[:]  # for the collector, which may be kept
        try:
            self._execute(rows, ArrowCollector(self._task, self._settlement, rows))
        except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
            self.failures.handle(rows.taken_over(), error, tuples)
        else:
            self.failures.in_a_row = 0

    def _execute(self, rows: ArrowInput, collector: ArrowCollector) -> None:
        self._bolt.execute_batch(rows.batch, collector)


def _behind(tuple_: Tuple, tuples: Sequence[Tuple]) -> Sequence[Tuple]:
    """The tuples of a call that come after one of them."""
    return tuples[tuples.index(tuple_) + 1 :]
