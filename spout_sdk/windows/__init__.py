"""Windows: bolts that work on many tuples at a time.

- `specs`: `tumbling`, `sliding` and `session`, what a bolt declares.
- `late_tuples`: tuples that come when all their windows have closed.

A `WindowedBolt` gets the tuples of a window, and acks each when it leaves its last:

- `policies`: when a window closes and what is in it.
- `fold`: the windows of a task as a function of its inputs.
- `replays`: recognises replays by their identities; `left_out`: settled replays, as part of a commit.
- `bolt`: `WindowedBolt`; `adapter`: how a task calls it, which is registered here.

An `AggregateBolt` has a value for each key and window in its state:

- `time_windows`: which windows a time is in; `open_windows`: which are open.
- `aggregates`: how tuples change values; `window_values`: of aggregates, or of a state of the user's own.
- `window_state`: the state of a task, the watermark, and results.
- `aggregate_bolt`: `AggregateBolt`; `state_adapter`, `state_columns`: how a task calls it, a tuple at a time
  or on columns, which is registered here.
"""

import spout_sdk.windows.adapter
import spout_sdk.windows.state_adapter  # noqa: F401 - both register themselves
