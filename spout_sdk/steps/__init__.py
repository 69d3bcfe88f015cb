"""Steps: functions with types as bolts.

- `stream`: `Stream`, whose methods add steps; `function`: what the annotations of a function say.
- `operator`: calls a function with the rows of a record; `async_operator`: awaits it.
- `call`: the rows of a call, and what became of them; `emitter`: emits the results.
- `context`: information about a row; `resources`: what a task opens for its functions.
- `bolt`, `state_bolt`, `window_bolt`, `topic_bolt`: the bolts that are made of functions, states, windows and topics.

`spout_sdk.api.row_types` has the types of rows.
"""
