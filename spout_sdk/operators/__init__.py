"""The kinds of bolts that users derive or declare, each with its collector and its operator.

- `bolt`: `Bolt`; `basic_bolt`: `BasicBolt`; `batch_bolt`: `BatchBolt`.
- `async_bolt`: `AsyncBolt`; `async_operator`: its event loop; `running_input`: an input whose coroutine was started;
  `async_effects`: checks and sends what coroutines have emitted; `async_settings`: its settings, checked.
- `kafka_bolt`: `KafkaBolt`; `kafka_operator`: writes its records.

Bolts with a state are in `state`, those with windows in `windows`, those on columns in `arrow`.
"""
