"""The bolt side, and bolts that users derive or declare.

- `bolt_task`: one task, without I/O; `tuple_reader`: records into tuples or columns; `executor`: calls the bolt
  through its adapter; `adapters`: one for each kind of bolt; `batch_size`: how many tuples a call receives;
  `running_call`: the call that has not returned.
- `execute_failures`: handles calls that raise; `retries`: tuples that are executed again; `pause`: the pause of a task
  whose calls all raise.
- `outcomes`: acks, fails and dead letters of inputs; `unread_record`: a record that may be of another version.
- `collectors`: `OutputCollector`; `arrow_collector`: the collector of an `ArrowBolt`; `basic_collector`: the collector
  and the adapter of a `BasicBolt`.
- `pending_writes`: records that must be delivered before the ack of a tuple; `answers`: the records of answers.
- `async_bolt`: `AsyncBolt`; `async_settings`: its settings, checked; `async_adapter`: its event loop, registered here;
  `async_effects`: checks and sends what its coroutines have emitted.
- `kafka_bolt`: `KafkaBolt`; `kafka_adapter`: writes its records; registered here.
"""

import spout_sdk.bolts.async_adapter
import spout_sdk.bolts.kafka_adapter  # noqa: F401 - both register themselves
