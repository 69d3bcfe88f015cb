"""The bolt that is handed windows."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from spout_sdk.collectors import OutputCollector
from spout_sdk.components import Bolt
from spout_sdk.context import TaskContext
from spout_sdk.errors import FailTupleError, HeldTuplesError, TopologyError
from spout_sdk.tuples import Tuple
from spout_sdk.windows.policies import SECOND, WindowManager
from spout_sdk.windows.specs import WindowSpec
from spout_sdk.windows.window import Window
from tuple_tree.streams import DEFAULT_STREAM

UNSEEN: Final = "in no window"
"""The counter, among the user's own, of tuples that left without having been in any window."""


class WindowCollector:
    """What a `WindowedBolt` emits through: unless told otherwise, anchored to all tuples of the window."""

    __slots__ = ("_collector", "_tuples")

    def __init__(self, collector: OutputCollector) -> None:
        self._collector = collector
        self._tuples: Sequence[Tuple] = ()

    def emit(
        self,
        values: Sequence[Any],
        *,
        anchors: Tuple | Sequence[Tuple] | None = None,
        stream: str = DEFAULT_STREAM,
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

    def use(self, tuples: Sequence[Tuple]) -> None:
        """Whose trees are joined by default; for the SDK's use."""
        self._tuples = tuples


def _not_prepared() -> float:
    raise TopologyError("the bolt has no windows: its prepare() must call super().prepare(context, collector)")


class WindowedBolt(Bolt):
    """A bolt that works on windows of tuples, and whose tuples are acked when they leave their last window.

    Derive it, say which windows, and define `execute_window`:

        class Average(WindowedBolt):
            window = sliding(seconds=10, every=2)
            streams = (declare({"average": float}),)

            def execute_window(self, window: Window) -> None:
                temperatures = [tuple_["celsius"] for tuple_ in window.tuples]
                self.collector.emit((sum(temperatures) / len(temperatures),))

    Each task has windows of its own, in memory. What is held is not acked, and its offset not committed: if the task
    ends or moves, it is read again.

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

    _raised: HeldTuplesError | None = None
    _failures_in_a_row = 0
    _clock: Callable[[], float] = staticmethod(_not_prepared)

    @abstractmethod
    def execute_window(self, window: Window) -> None:
        """Process a window; never an empty one.

        If it raises, all tuples of the window are failed with the exception's type and text, or what else the bolt's
        `on_exception` says becomes of them, and the next window begins without them.
        """

    def prepare(self, context: TaskContext, collector: OutputCollector) -> None:
        """Called once, before anything else; where you define it, call `super().prepare(context, collector)`."""
        self.context = context
        self.collector = WindowCollector(collector)
        self._clock = context.now
        self._settling = collector
        self.tick_interval = self.window.tick_interval
        self._manager = WindowManager.of(self.window, int(context.now() * SECOND))

    def execute(self, tuple_: Tuple) -> None:
        """Puts the tuple into its windows, and closes those that are due; not for you to define."""
        now = int(self._clock() * SECOND)
        manager = self._manager
        # First what ended before this tuple came, so that a tick that is late moves no tuple into another window.
        self._close_due(manager, now)
        if not tuple_.is_tick:
            manager.add(tuple_, now)
            self._close_due(manager, now)
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised from raised.error

    def _close_due(self, manager: WindowManager, now: int) -> None:
        ack = self._settling.ack
        while (window := manager.due(now)) is not None:
            self._run(window)
            for tuple_ in manager.left(now):
                ack(tuple_)
        for tuple_ in manager.left(now):
            ack(tuple_)
        if manager.unseen:
            self.context.count(UNSEEN, manager.unseen)
            manager.unseen = 0

    def _run(self, window: Window) -> None:
        self.collector.use(window.tuples)
        try:
            self.execute_window(window)
        except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
            # Raised further when the tuple that came is where it belongs: it may be none of this window. There is one
            # such window a call: after it nothing is held, and one tuple closes no window by the clock.
            self._raised = HeldTuplesError(self._manager.clear(), error, self._failures_in_a_row)
            self._failures_in_a_row += not isinstance(error, FailTupleError)
        else:
            self._failures_in_a_row = 0
        finally:
            self.collector.use(())
