"""`WindowedBolt` and its collector; its task calls it through the `WindowAdapter`."""

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
            values: a value for each field of the stream, as a tuple or a list.
            anchors: the tuples of the window whose trees the new tuple joins: by default all; none if empty.
            stream: one of the component's streams.

        Raises:
            EmitError: if the stream is unknown, or the values do not fit it; then nothing was sent.
            TupleAlreadyDoneError: if an anchor has left its last window; then nothing was sent.
        """
        if anchors is None:
            anchors = self._tuples()
        elif isinstance(anchors, Tuple):
            anchors = (anchors,)
        self._collector.emit(values, anchors=anchors, stream=stream)
        self._emitted(anchors, values, stream)

    def reset_timeout(self) -> None:
        """Resets the timeouts of all trees of the window, because it is still being processed."""
        for tuple_ in self._tuples():
            self._collector.reset_timeout(tuple_)


class WindowedBolt(AnyBolt, ABC):
    """A bolt that is called with windows of tuples; a tuple is acked when it leaves its last window.

    Derive a class, and define `window` and `execute_window`:

        class Average(WindowedBolt):
            window = sliding(seconds=10, every=2)
            streams = (declare({"average": float}),)

            def execute_window(self, window: Window) -> None:
                temperatures = [tuple_["celsius"] for tuple_ in window.tuples]
                self.collector.emit((sum(temperatures) / len(temperatures),))

    Each task has its own windows, in memory. Held tuples are not acked, and their offsets are not committed: if the
    task ends or moves, they are read again. With `exactly_once` the commit also says which windows have closed. The
    timeouts of the trees of held tuples are reset, so that the trees do not time out. If a message is replayed all the
    same, its tuple takes the place of the held tuple; if that tuple has left its last window, the replay is not counted
    again, and the tuples that were emitted for it are emitted again.

    Attributes:
        streams: the streams that it emits, created with `declare`.
        window: the windows, created with `tumbling` or `sliding`; set in the class or in `__init__`.
        collector: emits tuples; set before `prepare`.
        context: the task's context; set before `prepare`.
    """

    window: WindowSpec
    collector: WindowCollector
    context: TaskContext

    def prepare(self, context: TaskContext, collector: WindowCollector) -> None:
        """Called once, before anything else; `self.context` and `self.collector` are already set."""

    @abstractmethod
    def execute_window(self, window: Window) -> None:
        """Processes a window, which is never empty.

        If it raises, all tuples of the window are failed with the exception's type and text, unless `set_bolt` was
        given another `on_exception`, and the next window begins without them.
        """

    def cleanup(self) -> None:
        """Called at a clean stop and when the task moves to another process."""
