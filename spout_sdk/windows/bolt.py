"""`WindowedBolt`: an `AggregateBolt` that gets the values of the tuples of a window together, as Storm's does."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spout_sdk.errors import TopologyError
from spout_sdk.windows.aggregate_bolt import AggregateBolt, EmitOn
from spout_sdk.windows.aggregates import Aggregate, collect
from spout_sdk.windows.rows import WindowRows
from spout_sdk.windows.time_windows import TimeWindow

Row = Mapping[str, Any]
"""The values of a tuple, by field."""


class Window:
    """The values of the tuples of one window, in the order of their time, or in which they came.

    Attributes:
        tuples: all tuples in the window: a mapping of field and value for each.
        key: the value of the grouping field, or a tuple of values for several fields; empty with a global grouping.
        start: milliseconds since the epoch, inclusive; of a window by count, the number of the key's first tuple in it.
        end: milliseconds since the epoch, or a number of a tuple, exclusive.
    """

    __slots__ = ("end", "key", "start", "tuples")

    def __init__(self, key: Any, start: int, end: int, tuples: WindowRows) -> None:
        self.key, self.start, self.end, self.tuples = key, start, end, tuples

    @property
    def new(self) -> Sequence[Row]:
        """The tuples that were not in the previous window. Raises `TopologyError` for windows by time."""
        return self._by_count(self.tuples.new)

    @property
    def expired(self) -> Sequence[Row]:
        """The tuples that left since the previous window. Raises `TopologyError` for windows by time.

        For running totals: add `new`, and subtract `expired`.
        """
        return self._by_count(self.tuples.expired)

    @staticmethod
    def _by_count(rows: Sequence[Row] | None) -> Sequence[Row]:
        if rows is None:
            raise TopologyError(
                "new and expired are of windows by count: a tuple may reach a window by time after the window before "
                "it has closed; use window.tuples"
            )
        return rows


class WindowCollector:
    """The collector of a `WindowedBolt`: emits results of the window that is executed."""

    def __init__(self) -> None:
        self._emitted: list[Sequence[Any]] | None = None

    def emit(self, values: Sequence[Any]) -> None:
        """Emits a result to the stream `default`; it is a message in the topic of results, as of an `AggregateBolt`.

        Args:
            values: a value for each field of the stream, as a tuple or a list.

        Raises:
            TopologyError: if no window is being executed.
        """
        if self._emitted is None:
            raise TopologyError("a WindowedBolt emits in execute_window only, and no window is being executed")
        self._emitted.append(values)

    def results_of(self, execute: Callable[[], object]) -> list[Sequence[Any]]:
        """The values that are emitted during a call."""
        self._emitted = []
        try:
            execute()
            return self._emitted
        finally:
            self._emitted = None


class WindowedBolt(AggregateBolt, ABC):
    """A bolt that is called with windows of tuples, for each key.

        class Average(WindowedBolt):
            window = sliding(count=100, every=10)
            streams = (declare({"sensor": str, "average": float}),)

            def execute_window(self, window: Window) -> None:
                celsius = [row["celsius"] for row in window.tuples]
                self.collector.emit((window.key, sum(celsius) / len(celsius)))

        builder.set_bolt("average", Average, tasks=4).fields_grouping("sensors", "sensor")

    It is an `AggregateBolt` that collects its tuples: their values are in the state, so a tuple is acked when the state
    has it, a replay changes nothing, and a window may last for days. With a global grouping the windows contain the
    tuples of all keys.

    Attributes:
        streams: the stream `default` of results, unless it emits none; and the stream of `with_late_tuple_stream`.
        window: the windows, created with `tumbling`, `sliding` or `session`; set in the class or in `__init__`.
        collector: emits results, in `execute_window`.
    """

    needs = replace(
        AggregateBolt.needs,
        kind="a WindowedBolt",
        results=False,
        never_called={"execute": "write def execute_window"},
    )
    aggregates: Mapping[str, Aggregate] = {"tuples": collect()}
    emit_on: EmitOn = "close"

    @property
    def collector(self) -> WindowCollector:
        """The collector of this bolt."""
        found: WindowCollector = self.__dict__.setdefault("_collector", WindowCollector())
        return found

    @abstractmethod
    def execute_window(self, window: Window) -> None:
        """Processes a window that has closed, which is never empty.

        If it raises, the process ends, and the next one calls it again: the window stays in the state.
        """

    def results(self, key: Any, window: TimeWindow, value: Any) -> Iterable[Sequence[Any]]:
        """Calls `execute_window`; returns the values that it emits."""
        made = Window(key, *window, value["tuples"])
        return self.collector.results_of(lambda: self.execute_window(made))
