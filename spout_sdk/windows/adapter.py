"""Calls a `WindowedBolt`: puts tuples into its windows, and acks each tuple when it leaves its last window."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from spout_sdk.api.topology import BoltOptions
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.adapters import BoltAdapter, adapter_of
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.execute_failures import ExecuteFailures
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.emitting.task import Task
from spout_sdk.state.adapter import REPLAYED
from spout_sdk.windows.bolt import WindowCollector, WindowedBolt
from spout_sdk.windows.fold import NOWHERE, WindowFold
from spout_sdk.windows.late_tuples import LateTuples
from spout_sdk.windows.policies import SECOND, Window
from spout_sdk.windows.replays import Output, Replays

UNSEEN: Final = "in no window"
"""The user counter of tuples that were acked without having been in any window."""


@adapter_of.register(WindowedBolt)
class WindowAdapter(BoltAdapter):
    """Folds the tuples of a task into the windows of a `WindowedBolt`, and closes due windows."""

    folds = True
    holds_inputs = True
    repeats_emits = False  # a replayed tuple may be in a window with others

    def __init__(
        self, bolt: WindowedBolt, task: Task, collector: OutputCollector, outcomes: Outcomes, options: BoltOptions
    ) -> None:
        super().__init__(bolt, task, collector, outcomes, options)
        context = task.context
        self._now = context.now
        self._reset_every = context.manifest.reset_seconds  # timeouts of held trees are reset after this, or twice this
        self._reset_at, self._reset_up_to = self._now() + self._reset_every, NOWHERE
        # Separate failures for windows: an `execute` that returns does not mean that a window has succeeded.
        never_pauses = replace(options, max_consecutive_failures=options.max_consecutive_failures or 0)
        self.state = Replays(context.manifest.ack_partitions)
        self._window_failures = ExecuteFailures(task, outcomes, never_pauses)

    def prepare(self) -> None:
        bolt, context = self._bolt, self._task.context
        self._effects = WindowEffects(
            *(bolt, self._task, self._collector, self._outcomes, self._window_failures, self.state)
        )
        bolt.context, bolt.collector = context, self._effects.window_collector
        bolt.prepare(context, bolt.collector)
        subscriptions = getattr(context.manifest.component(context.component), "subscriptions", ())
        sources = [(each.source, each.stream) for each in subscriptions]
        self._fold = WindowFold(bolt.window, self._effects, sources, self._clock(), self.state)

    def execute(self, tuples: Sequence[Tuple]) -> None:
        self._execute_each(self._take, tuples)
        self._effects.emit_again()

    @property
    def tick_interval(self) -> float:
        interval: float = min(filter(None, (self._bolt.window.tick_interval, self._reset_every)))
        return interval

    @property
    def progress(self) -> str:
        """The progress of the fold, which says which windows have closed."""
        return self._fold.progress

    def resume(self, progress: str, offset: int) -> None:
        self._fold.resume(progress, offset, self._clock())

    def _take(self, tuple_: Tuple) -> None:
        fold = self._fold
        if tuple_.is_tick:
            fold.tick(self._clock())
            if self._now() >= self._reset_at:
                self._reset_timeouts()
        else:
            fold.take(tuple_, self._clock())

    def _reset_timeouts(self) -> None:
        """Resets the timeouts of the trees of tuples that were already held at the last call."""
        for tuple_ in self._fold.held:
            if (tuple_.offset, tuple_.index) <= self._reset_up_to:
                self._effects.reset_timeout(tuple_)
        self._reset_at, self._reset_up_to = self._now() + self._reset_every, self._fold.last

    def _clock(self) -> int:
        return int(self._now() * SECOND)


class WindowEffects:
    """The effects of the fold of a task; `skip` drops a tuple that is settled without an ack."""

    def __init__(
        self,
        bolt: WindowedBolt,
        task: Task,
        collector: OutputCollector,
        outcomes: Outcomes,
        failures: ExecuteFailures,
        replays: Replays,
    ) -> None:
        context = task.context
        self._bolt = bolt
        self._collector = collector
        self._outcomes = outcomes
        self._failures = failures
        self._context = context
        self._carries = context.manifest.guarantee == "exactly_once"
        self._late = LateTuples(
            context, bolt.window.late_stream, "Make the lag as large as their sources drift apart, with_lag()"
        )
        self.skip = outcomes.skip
        self.reset_timeout = outcomes.reset_timeout
        self._tuples: Sequence[Tuple] = ()  # of the window that is being executed
        self._replays = replays
        # Outputs to emit again with the replays that need them, by the id of the output; and replays to ack after that.
        self._again: dict[int, tuple[Output, list[Tuple]]] = {}
        self._left_out: list[Tuple] = []
        self.window_collector = WindowCollector(collector, lambda: self._tuples, self._emitted)

    def ack(self, tuple_: Tuple) -> None:
        """Acks a tuple that is in no further window."""
        if self._again:
            self.emit_again()
        self._outcomes.ack(tuple_)

    def again(self, tuple_: Tuple, outputs: Sequence[Output], *, is_held: bool) -> None:
        """Notes a replay of a tuple for which windows have emitted `outputs`; it is acked later unless it is held."""
        self._context.count(REPLAYED)
        for output in outputs:
            self._again.setdefault(id(output), (output, []))[1].append(tuple_)
        if not is_held:
            self._left_out.append(tuple_)

    def emit_again(self) -> None:
        """Emits outputs again, each once for all noted replays; then acks the replays that are not held."""
        again, self._again = self._again, {}
        for (values, stream), tuples in again.values():
            self._collector.emit(values, anchors=tuples, stream=stream)
        left_out, self._left_out = self._left_out, []
        for tuple_ in left_out:
            self._outcomes.ack(tuple_)
        if self._carries:
            for _, tuples in again.values():
                self._outcomes.part(tuples)

    def fire(self, window: Window, held: Callable[[], Sequence[Tuple]]) -> None:
        """Executes a window that closes; if that fails, calls `held`, which removes and returns the held tuples."""
        self.emit_again()
        self._tuples = window.tuples
        try:
            self._bolt.execute_window(window)
        except BaseException as error:  # noqa: BLE001 - anything that a user's bolt raises
            self._failures.handle(held(), error)
        else:
            self._failures.in_a_row = 0
        finally:
            self._tuples = ()

    def fired(self, window: Window) -> None:
        """Acks the edges of children whose parents are also in another window; called after `fire` and its acks.

        The next owner of the task does not know these edges.
        """
        if self._carries:
            self._outcomes.part(window.tuples)

    def unseen(self, count: int) -> None:
        """Counts tuples that were in no window."""
        self._context.count(UNSEEN, count)

    def late(self, tuple_: Tuple) -> None:
        """Emits or logs a tuple that came when all its windows had closed, and acks it."""
        self._late.take(tuple_, lambda values, stream: self._emit_late(tuple_, values, stream))
        self._collector.ack(tuple_)

    def _emit_late(self, tuple_: Tuple, values: Sequence[Any], stream: str) -> None:
        self._collector.emit(values, anchors=tuple_, stream=stream)
        self._emitted((tuple_,), values, stream)

    def _emitted(self, anchors: Sequence[Tuple], values: Sequence[Any], stream: str) -> None:
        self._replays.emitted(anchors, Output(tuple(values), stream))
