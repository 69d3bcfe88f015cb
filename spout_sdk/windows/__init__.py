"""Windows: values for each key and window, in the state of a bolt.

- `specs`: `tumbling`, `sliding` and `session`, which a bolt declares.
- `time_windows`: the windows that contain a time, or a number; `open_windows`: the open windows.
- `aggregates`: how tuples change values; `window_values`: values of aggregates, or of a user's state; `rows`: the rows
  that windows collect.
- `window_state`: the state of a task, the watermark, and results; `watermark_sources`: what the watermark follows.
- `late_tuples`: tuples that come when all their windows have closed.
- `aggregate_bolt`: `AggregateBolt`; `bolt`: `WindowedBolt`, which gets the rows of a window together.
- `window_operator`, `window_columns`: call them, with single tuples or with columns.
"""
