"""`WindowedBolt`, and the effects of its windows."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafka_clients.repeated_lines import EACH, SECONDS, get_logger
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.bolts.held_failures import reset_seconds
from spout_sdk.bolts.holding_bolt import HoldingBolt
from spout_sdk.errors import TopologyError
from spout_sdk.windows.fold import NOWHERE, WindowFold
from spout_sdk.windows.policies import SECOND, Window
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.streams import DEFAULT_STREAM

logger = get_logger("spout_sdk.windows")

# User counters: tuples that left without having been in any window, and tuples that came when all had closed.
UNSEEN: Final = "in no window"
LATE: Final = "late tuples"


class WindowCollector:
    """The collector of a `WindowedBolt`: by default, emits are anchored to all tuples of the window."""

    __slots__ = ("_collector", "_tuples")

    def __init__(self, collector: OutputCollector) -> None:
        self._collector = collector
        self._tuples: Sequence[Tuple] = ()  # of the window that is being executed

    def emit(
        self, values: Sequence[Any], *, anchors: Tuple | Sequence[Tuple] | None = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Sends a tuple to every subscriber of a stream.

        Args:
            values: one for each field of the stream, a tuple or a list.
            anchors: the tuples of the window whose trees the new tuple joins: all unless given, none if empty.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown, or the values do not fit it; nothing was sent then.
            TupleAlreadyDoneError: if an anchor left its last window before; nothing was sent then.
        """
        self._collector.emit(values, anchors=self._tuples if anchors is None else anchors, stream=stream)

    def reset_timeout(self) -> None:
        """Restarts the clock of all trees of the window: it is still being worked on."""
        for tuple_ in self._tuples:
            self._collector.reset_timeout(tuple_)


class WindowedBolt(HoldingBolt):
    """A bolt that works on windows of tuples, and whose tuples are acked when they leave their last window.

    Derive it, and define `window` and `execute_window`:

        class Average(WindowedBolt):
            window = sliding(seconds=10, every=2)
            streams = (declare({"average": float}),)

            def execute_window(self, window: Window) -> None:
                temperatures = [tuple_["celsius"] for tuple_ in window.tuples]
                self.collector.emit((sum(temperatures) / len(temperatures),))

    Each task has windows of its own, in memory. What is held is not acked, and its offset not committed: if the task
    ends or moves, it is read again. With `exactly_once` it is then known which windows have closed. The clocks of its
    trees are restarted meanwhile, so that it does not time out.

    Attributes:
        window: which windows, made with `tumbling` or `sliding`; of the class, or set in `__init__`.
        collector: what to emit through; there from `prepare` on.
        context: what the task knows about itself; there from `prepare` on.
        tick_interval: seconds between the tick tuples that close windows when nothing else comes; `prepare` sets it.
    """

    window: WindowSpec
    collector: WindowCollector
    context: TaskContext
    tick_interval: float | None = None

    _fold: WindowFold | None = None
    _effects: "WindowEffects"

    @abstractmethod
    def execute_window(self, window: Window) -> None:
        """Process a window; never an empty one.

        If it raises, all tuples of the window are failed with the exception's type and text, unless the bolt was set
        with another `on_exception`, and the next window begins without them.
        """

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        """Called once, before anything else; where you define it, call `super().prepare(context, collector)`."""
        self.context = context
        self.collector = WindowCollector(collector)
        self._now = context.now
        manifest = context.manifest
        self._reset_every = reset_seconds(manifest)  # the clock of a held tree is restarted after that, or twice that
        self._reset_at, self._reset_up_to = self._now() + self._reset_every, NOWHERE
        self.tick_interval = min(filter(None, (self.window.tick_interval, self._reset_every)))
        subscriptions = getattr(manifest.component(context.component), "subscriptions", ())
        sources = [(each.source, each.stream) for each in subscriptions]
        self._effects = WindowEffects(self, collector)
        self._fold = WindowFold(self.window, self._effects, sources, self._clock())

    def execute(self, tuple_: Tuple) -> None:
        """Called by the SDK: puts the tuple into its windows, and closes due windows."""
        fold = self._fold
        if fold is None:
            raise TopologyError("the bolt has no windows: its prepare() must call super().prepare(context, collector)")
        if tuple_.is_tick:
            fold.tick(self._clock())
            if self._now() >= self._reset_at:
                self._reset_timeouts(fold)
        else:
            fold.take(tuple_, self._clock())

    def _reset_timeouts(self, fold: WindowFold) -> None:
        """Restarts the clocks of the trees of what was held at the last call already."""
        for tuple_ in fold.held:
            if (tuple_.offset, tuple_.index) <= self._reset_up_to:
                self._effects.reset_timeout(tuple_)
        self._reset_at, self._reset_up_to = self._now() + self._reset_every, fold.last

    def _clock(self) -> int:
        return int(self._now() * SECOND)

    @property
    def _progress(self) -> str:  # type: ignore[override]
        """Metadata committed with the offsets of an `exactly_once` topology."""
        return "" if self._fold is None else self._fold.progress

    def _resume(self, progress: str, offset: int) -> None:
        if self._fold is not None:
            self._fold.resume(progress, offset, self._clock())


class WindowEffects:
    """Effects of the fold of a task: `ack` a tuple that is in no further window, `skip` one that was settled before."""

    def __init__(self, bolt: WindowedBolt, collector: OutputCollector) -> None:
        context = bolt.context
        self._bolt = bolt
        self._collector = collector
        self._context = context
        self._carries = context.manifest.guarantee == "exactly_once"
        self._late, self._log_late_at = 0, -math.inf
        self._late_stream = bolt.window.late_stream
        self._late_fields: Sequence[str] = ()
        if self._late_stream is not None:
            self._late_fields = context.manifest.stream(context.component, self._late_stream).field_names
        self.ack = collector.ack
        self.skip = collector._outcomes.skip
        self.reset_timeout = collector.reset_timeout

    def fire(self, window: Window, held: Callable[[], Sequence[Tuple]]) -> None:
        """Executes a window that closes; `held` takes its tuples back, and is called if that fails."""
        self._bolt.collector._tuples = window.tuples
        try:
            self._bolt.execute_window(window)
        except Exception as error:  # noqa: BLE001 - any exception of a user's bolt
            self._bolt._failures.handle(held(), error)
        else:
            self._bolt._failures.in_a_row = 0
        finally:
            self._bolt.collector._tuples = ()

    def fired(self, window: Window) -> None:
        """After `fire` and the acks: acks the edges of children whose parents are in another window, too.

        A later owner does not know them.
        """
        if self._carries:
            self._collector._outcomes.part(window.tuples)

    def unseen(self, count: int) -> None:
        """So many tuples were in no window."""
        self._context.count(UNSEEN, count)

    def late(self, tuple_: Tuple) -> None:
        """Acks a tuple that came when all its windows had closed."""
        self._context.count(LATE)
        if self._late_stream is None:
            self._log_late(tuple_)
        else:
            values = [tuple_[field] for field in self._late_fields]
            self._collector.emit(values, anchors=tuple_, stream=self._late_stream)
        self._collector.ack(tuple_)

    def _log_late(self, tuple_: Tuple) -> None:
        self._late += 1
        if (now := self._context.now()) < self._log_late_at:
            return
        logger.warning(
            "%s/%d: %d late tuples, the last at offset %d, came when all their windows had closed; they are acked and "
            "in no window. Make the lag as large as their sources drift apart, with_lag(), or send late tuples to a "
            "stream, with_late_tuple_stream()",
            self._context.component,
            self._context.task,
            self._late,
            tuple_.offset,
            extra=EACH,
        )
        self._late, self._log_late_at = 0, now + SECONDS
