"""Spouts and bolts on Kafka, with Storm's acking.

    from spout_sdk import BasicBolt, Spout, TopologyBuilder, declare

    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    topology = builder.build()

Rooms, from what users write to what runs it:

- `components`: `Spout`, `Bolt`, `BasicBolt`, `BatchBolt`, `ArrowBolt`, `Failure`; `tuples`: what bolts receive;
  `context`: what a task knows.
- `windows`: bolts that work on many tuples at a time.
- `async_bolt`: bolts that work on many tuples at a time, each in a coroutine.
- `collectors`, `spout_collector`, on `emitter`: what spouts and bolts emit, ack and fail through; `hooks`: code that is
  told of it.
- `builder`: `TopologyBuilder`; `options`: how a bolt behaves; `external`: components that something else runs;
  `topology`: what is built, and loading it by reference.
- `groupings`, `emit_plans`: who receives a tuple, worked out per stream beforehand.
- `ack_buffer`: batches for the ackers; `input_offsets`: what may be committed; `pending`: a spout's open trees.
- `bolt_task`, `spout_task`: the logic of one task, without I/O; `records`: what it needs of the world;
  `tuple_reader`: records as tuples; `dead_letters`: records that cannot be used; `repetition`: what is not told of
  each time.
- `kafka_settings`, `kafka_sink`, `delivery_reports`, `kafka_reader`, `kafka_checks`, `sessions`: Kafka.
- `kafka_spout`: a spout that reads Kafka topics.
- `commits`: when offsets are committed, which makes the guarantee; `transactions`, `transactional_sink`,
  `traced_offsets`: exactly once; `guarantees`: what a topology must be like for it.
- `bolt_loop`, `spout_loop`, `component_runner`: poll, execute, send, commit, in one process.
- `launch`, `process`, `child`, `supervisor`: a topology in many processes.
- `counters`, `stats`: what was done; `metrics`: the same for Prometheus.
- `errors`: everything that is raised, drawn as a tree.
- `testing`: a whole topology in one process, for tests; imported explicitly.
"""

from spout_sdk.arrow_collector import ArrowCollector
from spout_sdk.async_bolt import AsyncBolt, AsyncCollector
from spout_sdk.basic_collector import BasicCollector
from spout_sdk.builder import BoltDeclarer, TopologyBuilder
from spout_sdk.collectors import OutputCollector
from spout_sdk.component_runner import ComponentRunner
from spout_sdk.components import ArrowBolt, BasicBolt, BatchBolt, Bolt, Failure, Spout
from spout_sdk.context import TaskContext
from spout_sdk.counters import Counters
from spout_sdk.emit_plans import TaskId
from spout_sdk.errors import (
    AccessError,
    BrokerError,
    BrokerUnreachableError,
    ComponentError,
    DeliveryError,
    EmitError,
    FailTupleError,
    HeldBackError,
    InvalidMessageError,
    ProcessError,
    SpoutSdkError,
    TooManyFailuresError,
    TopicsError,
    TopologyError,
    TupleAlreadyDoneError,
)
from spout_sdk.groupings import CustomGrouping
from spout_sdk.hooks import EmitInfo, TaskHook
from spout_sdk.kafka_bolt import KafkaBolt
from spout_sdk.kafka_spout import KafkaSpout, KafkaTuple, RetryPolicy
from spout_sdk.records import Record
from spout_sdk.spout_collector import SpoutCollector
from spout_sdk.stats import Stats
from spout_sdk.supervisor import Exit, TopologyRunner
from spout_sdk.topology import Topology, load_topology
from spout_sdk.tuples import Tuple
from spout_sdk.windows.bolt import WindowCollector, WindowedBolt
from spout_sdk.windows.specs import WindowSpec, sliding, tumbling
from spout_sdk.windows.window import Window
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason
from tuple_tree.streams import Stream, declare

__all__ = [
    "AccessError",
    "ArrowBolt",
    "ArrowCollector",
    "AsyncBolt",
    "AsyncCollector",
    "BasicBolt",
    "BasicCollector",
    "BatchBolt",
    "Bolt",
    "BoltDeclarer",
    "BrokerError",
    "BrokerUnreachableError",
    "ComponentError",
    "ComponentRunner",
    "Counters",
    "CustomGrouping",
    "DeliveryError",
    "EmitError",
    "EmitInfo",
    "Exit",
    "FailReason",
    "FailTupleError",
    "Failure",
    "HeldBackError",
    "InvalidMessageError",
    "KafkaBolt",
    "KafkaSpout",
    "KafkaTuple",
    "LatencyHistogram",
    "OutputCollector",
    "ProcessError",
    "Record",
    "RetryPolicy",
    "Spout",
    "SpoutCollector",
    "SpoutSdkError",
    "Stats",
    "Stream",
    "TaskContext",
    "TaskHook",
    "TaskId",
    "TooManyFailuresError",
    "TopicsError",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "TopologyRunner",
    "Tuple",
    "TupleAlreadyDoneError",
    "Window",
    "WindowCollector",
    "WindowSpec",
    "WindowedBolt",
    "declare",
    "load_topology",
    "sliding",
    "tumbling",
]
