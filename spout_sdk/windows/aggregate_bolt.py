"""`AggregateBolt`: a value for each key and window, in the state."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from spout_sdk.api.needs import Needs
from spout_sdk.api.tuples import Tuple
from spout_sdk.state.spec import AnyStatefulBolt
from spout_sdk.windows.aggregates import Aggregate
from spout_sdk.windows.specs import WindowSpec
from spout_sdk.windows.time_windows import TimeWindow
from spout_sdk.windows.window_operator import window_operator

EmitOn = Literal["close", "change"]
"""When a window emits its result.

- `close`: once, when it closes, because no further tuple of it comes. The result is a message in the topic
  `{topology}.results.{bolt}`, which the spout `{bolt}-results` reads for the bolts that subscribe to the bolt.
- `change`: whenever a tuple changes the window; anchored to that tuple.
"""


class AggregateBolt(AnyStatefulBolt):
    """A bolt with a value for each key and window, which each tuple changes once.

        class ClicksPerMinute(AggregateBolt):
            window = tumbling(seconds=60).with_timestamp_field("at")
            aggregates = {"clicks": count(), "spent": total("euros")}
            streams = (declare({"page": str, "start": int, "end": int, "clicks": int, "spent": float}),)

        builder.set_bolt("clicks", ClicksPerMinute, tasks=4).fields_grouping("parse", "page")

    The values are in a state, as for a `StatefulBolt`: a tuple is acked when its windows contain it, so a window may
    last for days. A window by event time closes when all messages before its end are done, by the commits of the
    spouts, even if messages were retried; see `WindowSpec.with_lag`, `with_grace` and `with_idle_sources`. A window by
    count closes when it has that number of tuples of its key.

    Instead of `aggregates`, you may define `state` and `update`; for sessions also `merge`.

    Attributes:
        window: `tumbling`, `sliding` or `session`; set in the class or in `__init__`.
        aggregates: name → aggregate, from `count`, `total`, `greatest`, `least`, `mean`, `fold` or `collect`.
        emit_on: see `EmitOn`.
        streams: the stream `default` for results; and the stream of `with_late_tuple_stream`.
    """

    needs = Needs("an AggregateBolt", called_by=window_operator, instance=True, state=True, windows=True, results=True)
    state: Any = None
    window: WindowSpec
    aggregates: Mapping[str, Aggregate] = {}
    emit_on: EmitOn = "close"

    def update(self, value: Any, tuple_: Tuple) -> Any:  # noqa: ARG002 - for bolts that define it
        """Returns the new value of the tuple's key in a window; define it if the bolt has no `aggregates`.

        It is called once for each tuple and each window that contains the tuple. `DELETE` removes the window, as if it
        had no tuple yet; None, as of a missing `return`, is an error.

        Args:
            value: the value of the key and window; `initial` for the first tuple. You may change and return it.
            tuple_: the input; if this method raises, the input fails, and all values stay as they were.
        """
        raise TypeError(f"{type(self).__name__} has neither aggregates nor update(): define one of them")

    def merge(self, one: Any, other: Any) -> Any:  # noqa: ARG002 - as above
        """Returns the value of two sessions that a tuple joins; define it if the bolt has no `aggregates`.

        `one` is the value of the earlier session. The method must not raise.
        """
        raise TypeError(f"{type(self).__name__} has sessions, and neither aggregates nor merge(): define one of them")

    def result(self, key: Any, window: TimeWindow, value: Any) -> Sequence[Any] | None:
        """Returns the values of a result tuple, or None for no result.

        By default these are the fields of the key, start and end of the window in milliseconds, and the aggregates in
        order, or the fields of the state. If this raises when a window closes, the process ends, and the next one tries
        again.

        Args:
            key: the value of the grouping field, or a tuple of values for several fields.
            window: start and end of the window.
            value: the aggregates by name, or the value of the state.
        """
        keys = key if isinstance(key, tuple) else (key,)
        values = value.values() if isinstance(value, Mapping) else (value,)
        return (*keys, window.start, window.end, *values)

    def results(self, key: Any, window: TimeWindow, value: Any) -> Iterable[Sequence[Any]]:
        """Returns the values of any number of result tuples of a window that closes; by default that of `result`."""
        result = self.result(key, window, value)
        return () if result is None else (result,)
