"""The bolt side, and bolts that users derive or declare.

- `head_task`: a task, and the steps that run in it; `bolt_task`: the task of a bolt, without I/O; `step`: a bolt in a
  task; `tuple_reader`: records into tuples or columns; `chain_reader`: the same for what the step before has emitted.
- `executor`: calls the bolt through its adapter; `adapters`: one for each kind of bolt; `batch_size`: how many tuples a
  call receives; `running_call`: the call that has not returned.
- `execute_failures`: handles calls that raise; `retries`: tuples that are executed again; `pause`: the pause of a task
  whose calls all raise.
- `settlement`: acks, fails and dead letters of inputs; `written_records`: delivery reports of what is written for them;
  `unread_record`: a record that may be of another version.
- `collectors`: `OutputCollector`; `arrow_collector`: the collector of an `ArrowBolt`; `basic_collector`: the collector
  and the adapter of a `BasicBolt`.
- `answers`: the records of answers.
- `async_bolt`: `AsyncBolt`; `async_settings`: its settings, checked; `async_adapter`: its event loop, registered here;
  `async_effects`: checks and sends what its coroutines have emitted.
- `kafka_bolt`: `KafkaBolt`; `kafka_adapter`: writes its records; registered here.
"""

import spout_sdk.bolts.async_adapter
import spout_sdk.bolts.kafka_adapter  # noqa: F401 - both register themselves
