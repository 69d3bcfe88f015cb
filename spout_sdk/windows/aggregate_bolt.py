"""`AggregateBolt`: a value for each key and window, in the state; called through the `WindowStateAdapter`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from spout_sdk.api.tuples import Tuple
from spout_sdk.state.bolt import AnyStatefulBolt
from spout_sdk.windows.aggregates import Aggregate
from spout_sdk.windows.specs import WindowSpec
from spout_sdk.windows.time_windows import TimeWindow

EmitOn = Literal["close", "change"]
"""When a window has a result.

- `close`: once, when it closes: then no further tuple of it comes. It is a message of the topic
  `{topology}.results.{bolt}`, which the spout `{bolt}-results` reads for the bolts that subscribe to the bolt.
- `change`: whenever a tuple changes it; anchored to that tuple.
"""


class AggregateBolt(AnyStatefulBolt):
    """A bolt with a value for each key and window of event time, which each tuple changes once.

        class ClicksPerMinute(AggregateBolt):
            window = tumbling(seconds=60).with_timestamp_field("at")
            aggregates = {"clicks": count(), "spent": total("euros")}
            streams = (declare({"page": str, "start": int, "end": int, "clicks": int, "spent": float}),)

        builder.set_bolt("clicks", ClicksPerMinute, tasks=4).fields_grouping("parse", "page")

    The values are those of a state, as of a `StatefulBolt`: a tuple is acked when its windows have it, so a window may
    last for days. A window closes when all messages before its end are done, by the commits of the spouts, whatever
    was retried meanwhile; see `WindowSpec.with_lag`, `with_grace` and `with_idle_sources`.

    Instead of `aggregates`, define `state` and `update`; for sessions also `merge`.

    Attributes:
        window: `tumbling`, `sliding` or `session`, by event time; of the class, or set in `__init__`.
        aggregates: by name, made with `count`, `total`, `greatest`, `least`, `mean` and `fold`.
        emit_on: see `EmitOn`.
        streams: the stream `default` has the results; and that of `with_late_tuple_stream`.
    """

    state: Any = None
    window: WindowSpec
    aggregates: Mapping[str, Aggregate] = {}
    emit_on: EmitOn = "close"

    def update(self, value: Any, tuple_: Tuple) -> Any:  # noqa: ARG002 - for bolts that define it
        """Returns the new value of the key and a window of the tuple, if the bolt has no `aggregates`.

        Called once for each tuple and each window that the tuple is in.

        Args:
            value: of the key and window; `initial` for the first tuple. Yours to change and return.
            tuple_: the input; if this raises, it fails, and all values stay as they were.
        """
        raise TypeError(f"{type(self).__name__} has neither aggregates nor update(): define one of them")

    def merge(self, one: Any, other: Any) -> Any:  # noqa: ARG002 - as above
        """Returns the value of two sessions that a tuple joins, if the bolt has no `aggregates`; `one` is the earlier.

        It must not raise.
        """
        raise TypeError(f"{type(self).__name__} has sessions, and neither aggregates nor merge(): define one of them")

    def result(self, key: Any, window: TimeWindow, value: Any) -> Sequence[Any] | None:
        """Returns the values of the tuple of a result, or None for no result.

        By default the fields of the key, start and end of the window in milliseconds, and the aggregates in order, or
        the fields of the state. If this raises when a window closes, the process ends, and its successor tries again.

        Args:
            key: the value of the grouping field, or of several fields a tuple of values.
            window: its start and end.
            value: the aggregates by name, or the value of the state.
        """
        keys = key if isinstance(key, tuple) else (key,)
        values = value.values() if isinstance(value, Mapping) else (value,)
        return (*keys, window.start, window.end, *values)
