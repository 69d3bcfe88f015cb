"""Windows: values for each key and window, in the state of a bolt.

    from spout_sdk.windows import count, total, tumbling

- `specs`: `tumbling`, `sliding` and `session`, which a bolt declares.
- `time_windows`: the windows that contain a time, or a number; `open_windows`: the open windows.
- `aggregates`: how tuples change values; `window_values`: values of aggregates, or of a user's state; `rows`: the rows
  that windows collect.
- `window_state`: the state of a task, the watermark, and results; `watermark_sources`: what the watermark follows.
- `late_tuples`: tuples that come when all their windows have closed.
- `aggregate_bolt`: `AggregateBolt`; `bolt`: `WindowedBolt`, which gets the rows of a window together.
- `window_operator`, `window_columns`: call them, with single tuples or with columns.
"""

from spout_sdk.windows.aggregate_bolt import AggregateBolt
from spout_sdk.windows.aggregates import Aggregate, collect, count, fold, greatest, least, mean, total
from spout_sdk.windows.bolt import Window, WindowCollector, WindowedBolt
from spout_sdk.windows.specs import WindowSpec, session, sliding, tumbling
from spout_sdk.windows.time_windows import TimeWindow

__all__ = [
    "Aggregate",
    "AggregateBolt",
    "TimeWindow",
    "Window",
    "WindowCollector",
    "WindowSpec",
    "WindowedBolt",
    "collect",
    "count",
    "fold",
    "greatest",
    "least",
    "mean",
    "session",
    "sliding",
    "total",
    "tumbling",
]
