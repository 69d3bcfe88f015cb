"""How the task of a bolt calls it: one adapter for each kind of bolt, over one protocol."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from spout_sdk.api.components import AnyBolt, ArrowBolt, BasicBolt, BatchBolt, Bolt
from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import NO_OFFSET, Tuple
from spout_sdk.bolts.arrow_collector import ArrowCollector
from spout_sdk.bolts.basic_collector import BasicCollector
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.holding_bolt import HoldingBolt
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.emitting.task import Task


class BoltAdapter:
    """Calls a bolt of one kind; the base is that of a `Bolt`.

    Attributes:
        takes: what `execute` is called with: some tuples of a record, a batch of tuples, or rows as an `ArrowInput`.
        records_acks: whether inputs are acked when `execute` returns.
        may_be_busy: whether `is_busy` may become true.
        folds: whether what was done with open inputs is committed beside the offset, as `progress`.
        input: the tuple of the call that runs, where it is known.
    """

    takes: Literal["tuples", "batches", "columns"] = "tuples"
    records_acks = False
    may_be_busy = False
    folds = False
    input: Tuple | None = None

    def __init__(
        self, task: Task, bolt: Any, collector: OutputCollector, outcomes: Outcomes, options: BoltOptions
    ) -> None:
        self._task = task
        self._bolt = bolt
        self._collector = collector
        self._outcomes = outcomes
        self._failures = ExecuteFailures(task, outcomes, options)

    def prepare(self) -> None:
        """Calls the bolt's `prepare`."""
        self._bolt.prepare(self._task.context, self._collector)

    def execute(self, tuples: Any) -> None:
        """Executes tuples, and handles what the bolt raises; raises `ComponentError` if that ends the task."""
        execute, failures = self._bolt.execute, self._failures
        for tuple_ in tuples:
            try:
                execute(tuple_)
            except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
                failures.handle((tuple_,), error)
            else:
                failures.in_a_row = 0

    @property
    def tick_interval(self) -> float | None:
        """Seconds between tick tuples; None for none."""
        interval: float | None = getattr(self._bolt, "tick_interval", None)
        return interval

    @property
    def is_busy(self) -> bool:
        """Whether it can take no more inputs now."""
        return False

    @property
    def running_inputs(self) -> int:
        """How many inputs are being executed between two calls."""
        return 0

    def wait(self, seconds: float) -> None:
        """Waits until a running input ends, `seconds` at most."""

    @property
    def progress(self) -> str:
        """State that is committed beside the offset, for `resume`."""
        return ""

    def resume(self, progress: str, offset: int) -> None:
        """Continues from the `progress` of an earlier instance; reading begins at the offset."""

    def cleanup(self) -> None:
        """Calls the bolt's `cleanup`."""
        self._bolt.cleanup()


class BasicAdapter(BoltAdapter):
    """Anchors what a `BasicBolt` emits to the input, and acks the inputs of a call together."""

    records_acks = True

    def __init__(self, task: Task, bolt: BasicBolt, collector: OutputCollector, *rest: Any) -> None:
        super().__init__(task, bolt, collector, *rest)
        self._basic = BasicCollector(collector)

    def prepare(self) -> None:
        self._bolt.prepare(self._task.context)

    def execute(self, tuples: Sequence[Tuple]) -> None:
        execute, basic, failures = self._bolt.execute, self._basic, self._failures
        pack = tuples[0].pack
        # Without hooks, emits need nothing of the input but its place, where each has one.
        has_places = pack.starts is None and pack.offset != NO_OFFSET and not self._task.context.hooks
        basic._batch = pack.batch if has_places else None
        done: list[Tuple] = []
        failed_at = 0
        try:
            for tuple_ in tuples:
                basic.input = tuple_
                try:
                    execute(tuple_, basic)
                except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
                    if len(done) > failed_at:
                        failures.in_a_row = 0
                    failed_at = len(done)
                    failures.handle((tuple_,), error)
                else:
                    done.append(tuple_)
            if len(done) > failed_at:
                failures.in_a_row = 0
        finally:
            basic.input = basic._batch = None
            self._outcomes.ack_together(done)

    @property
    def input(self) -> Tuple | None:  # type: ignore[override]
        return self._basic.input


class BatchAdapter(BoltAdapter):
    """Calls a `BatchBolt` with all tuples at once."""

    takes = "batches"

    def execute(self, tuples: Any) -> None:
        try:
            self._bolt.execute_batch(tuples)
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            self._failures.handle(tuples, error)
        else:
            self._failures.in_a_row = 0


class ArrowAdapter(BoltAdapter):
    """Calls an `ArrowBolt` with a record batch, and a collector for its rows."""

    takes = "columns"

    def prepare(self) -> None:
        self._bolt.prepare(self._task.context)

    def execute(self, tuples: Any) -> None:
        try:
            self._bolt.execute_batch(tuples.batch, ArrowCollector(self._task, self._outcomes, tuples))
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            self._failures.handle(tuples.taken_over(), error)
        else:
            self._failures.in_a_row = 0


class HoldingAdapter(BoltAdapter):
    """Calls a bolt of the SDK that holds inputs for longer than a transaction may last."""

    folds = True

    def __init__(
        self, task: Task, bolt: HoldingBolt, collector: OutputCollector, outcomes: Outcomes, options: BoltOptions
    ) -> None:
        super().__init__(task, bolt, collector, outcomes, options)
        self.may_be_busy = bolt._may_be_busy
        # Of its own: a call that returns says nothing about the inputs that it holds.
        bolt._failures = ExecuteFailures(task, outcomes, options)

    @property
    def is_busy(self) -> bool:
        return self._bolt._is_busy  # type: ignore[no-any-return]

    @property
    def running_inputs(self) -> int:
        return self._bolt._running  # type: ignore[no-any-return]

    def wait(self, seconds: float) -> None:
        self._bolt._wait(seconds)

    @property
    def progress(self) -> str:
        return self._bolt._progress  # type: ignore[no-any-return]

    def resume(self, progress: str, offset: int) -> None:
        self._bolt._resume(progress, offset)


_KINDS: Final[Sequence[tuple[type, type[BoltAdapter]]]] = (
    (HoldingBolt, HoldingAdapter),
    (Bolt, BoltAdapter),
    (BasicBolt, BasicAdapter),
    (BatchBolt, BatchAdapter),
    (ArrowBolt, ArrowAdapter),
)


def adapter_of(bolt: AnyBolt) -> type[BoltAdapter]:
    """The adapter of a bolt's kind."""
    return next(adapter for kind, adapter in _KINDS if isinstance(bolt, kind))
