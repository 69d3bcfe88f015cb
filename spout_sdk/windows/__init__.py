"""Windows: bolts that work on many tuples at a time.

- `specs`: `tumbling`, `sliding` and `session`, which a bolt declares.
- `late_tuples`: tuples that come when all their windows have closed.

A `WindowedBolt` gets the tuples of a window; a tuple is acked when it leaves its last window:

- `policies`: decides when a window closes and which tuples are in it.
- `fold`: the windows of a task as a function of its inputs.
- `replays`: recognises replays by their identities; `left_out`: settled replays, as part of a commit.
- `bolt`: `WindowedBolt`; `adapter`: how a task calls it, which is registered here.

An `AggregateBolt` has a value for each key and window in its state:

- `time_windows`: the windows that contain a time; `open_windows`: the open windows.
- `aggregates`: how tuples change values; `window_values`: values of aggregates, or of a user's state.
- `window_state`: the state of a task, the watermark, and results.
- `aggregate_bolt`: `AggregateBolt`; `state_adapter`, `state_columns`: how a task calls it, for single tuples or for
  columns, which is registered here.
"""

import spout_sdk.windows.adapter
import spout_sdk.windows.state_adapter  # noqa: F401 - both register themselves
