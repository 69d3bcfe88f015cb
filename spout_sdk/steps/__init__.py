"""Steps: functions with types as bolts.

    from spout_sdk.steps import KeyedStream

- `stream`: `Stream`, whose methods add steps; `options`: of these; `upstream`: its base, the components that emit its
  rows.
- `function`: what the annotations of a function say; `join_function`: those of a join.
- `operator`: calls a function with the rows of a record; `async_operator`: awaits it;
  `column_operator`: calls it with columns.
- `call`: the rows of a call, and what became of them; `emitter`: emits the results.
- `context`: information about a row; `resources`: what a task opens for its functions.
- `bolt`, `state_bolt`, `join_bolt`, `window_bolt`, `topic_bolt`: the bolts that are made of functions, states, joins,
  windows and topics; `state_value`: objects of a class as values of a state.

`spout_sdk.api.row_types` has the types of rows.
"""

from spout_sdk.steps.stream import KeyedStream, WindowedStream

__all__ = ["KeyedStream", "WindowedStream"]
