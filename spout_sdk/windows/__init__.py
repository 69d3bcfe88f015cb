"""Windows: bolts that work on many tuples at a time, and ack each when it leaves its last window.

- `specs`: `tumbling` and `sliding`, what a bolt declares.
- `time_windows`, `aggregates`: of windows on state.
- `policies`: when a window closes and what is in it.
- `fold`: the windows of a task as a function of its inputs.
- `aggregates`: how each tuple changes the value of its key and window.
- `time_windows`: which windows a time is in, and when each may be closed.
- `bolt`: `WindowedBolt`; `adapter`: how a task calls it, which is registered here.
"""

import spout_sdk.windows.adapter  # noqa: F401 - registers itself
