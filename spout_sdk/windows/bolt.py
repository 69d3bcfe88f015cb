"""`WindowedBolt`; its task calls it through the `WindowAdapter`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.collectors import OutputCollector
from spout_sdk.windows.policies import Window
from spout_sdk.windows.specs import WindowSpec
from tuple_tree.streams import DEFAULT_STREAM


class WindowCollector:
    """The collector of a `WindowedBolt`: by default, emits are anchored to all tuples of the window."""

    __slots__ = ("_collector", "_emitted", "_tuples")

    def __init__(
        self,
        collector: OutputCollector,
        tuples: Callable[[], Sequence[Tuple]],
        emitted: Callable[[Sequence[Tuple], Sequence[Any], str], None],
    ) -> None:
        self._collector = collector
        self._tuples = tuples  # of the window that is being executed
        self._emitted = emitted  # called with anchors, values and stream

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
        if anchors is None:
            anchors = self._tuples()
        elif isinstance(anchors, Tuple):
            anchors = (anchors,)
        self._collector.emit(values, anchors=anchors, stream=stream)
        self._emitted(anchors, values, stream)

    def reset_timeout(self) -> None:
        """Restarts the clock of all trees of the window: it is still being worked on."""
        for tuple_ in self._tuples():
            self._collector.reset_timeout(tuple_)


class WindowedBolt(AnyBolt, ABC):
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
    trees are restarted meanwhile, so that it does not time out. If a message is replayed all the same, its tuple takes
    the place of the one that is held; if that has left its last window, it is counted no second time, and what was
    emitted for it is emitted again.

    Attributes:
        streams: what it emits, made with `declare`.
        window: which windows, made with `tumbling` or `sliding`; of the class, or set in `__init__`.
        collector: what to emit through; there from `prepare` on.
        context: what the task knows about itself; there from `prepare` on.
    """

    window: WindowSpec
    collector: WindowCollector
    context: TaskContext

    def prepare(self, context: TaskContext, collector: WindowCollector) -> None:
        """Called once, before anything else; `self.context` and `self.collector` are set already."""

    @abstractmethod
    def execute_window(self, window: Window) -> None:
        """Process a window; never an empty one.

        If it raises, all tuples of the window are failed with the exception's type and text, unless the bolt was set
        with another `on_exception`, and the next window begins without them.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process."""
