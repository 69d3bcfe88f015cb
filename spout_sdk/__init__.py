"""Spouts and bolts on Kafka, with Storm's acking.

    from spout_sdk import BasicBolt, Spout, TopologyBuilder, declare

    builder = TopologyBuilder("words")
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", Split, tasks=2).shuffle_grouping("lines")
    topology = builder.build()

Folders, in the order in which a tuple passes through them:

- `api`: the API for users: `Spout`, tuples, context, hooks, topologies.
- `windows`: bolts that work on many tuples at a time.
- `topologies`: `TopologyBuilder` and its checks.
- `spouts`: task, collector and pending trees of a spout; `kafka_spout`: a spout that reads Kafka topics.
- `emitting`: what all tasks share: emit plans, packs of tuples, ack batches, sessions, flushes, dead letters,
  input offsets.
- `bolts`: tasks, and their steps: bolts that run in a task; readers, settlement.
- `steps`: functions with types as bolts, and `Stream`, which adds them.
- `operators`: the kinds of bolts, each with its collector, and how a step calls it.
- `delivery`: delivery guarantees: when offsets are committed; the transactions of exactly once.
- `kafka`: producers, consumers, settings, checks.
- `runtime`: the loops of tasks, the process of a component, and the supervisor of many.
- `state`: keyed state of bolts: which tuples it has applied.
- `client`: sends messages to the topic of a spout, and waits for their outcomes.
- `statistics`: counters, their snapshots, metrics.
- `testing`: a whole topology in one process, for tests; imported explicitly.

`records` has the protocols between tasks and Kafka, `outcome` the outcome of a message, `arguments` the checks of
arguments, `errors` everything that is raised, drawn as a tree.
"""

from spout_sdk.api.context import EmitInfo, TaskContext, TaskHook, TaskId
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.topology import Topology, load_topology
from spout_sdk.api.tuples import Tuple
from spout_sdk.client.client import Client
from spout_sdk.errors import (
    AccessError,
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    ClientError,
    ComponentError,
    DeadLetterError,
    DeliveryError,
    EmitError,
    FailTupleError,
    InvalidMessageError,
    NotDeliveredError,
    OpenInputsError,
    OutcomePendingError,
    ProcessError,
    RetryTupleError,
    SpoutSdkError,
    StateError,
    TooManyCallsError,
    TooManyFailuresError,
    TopicsError,
    TopologyError,
    TupleAlreadyDoneError,
)
from spout_sdk.kafka_spout import KafkaSpout, KafkaTuple
from spout_sdk.operators.arrow_bolt import ArrowBolt, ArrowCollector
from spout_sdk.operators.async_bolt import AsyncBolt
from spout_sdk.operators.basic_bolt import BasicBolt, BasicCollector
from spout_sdk.operators.batch_bolt import BatchBolt
from spout_sdk.operators.bolt import Bolt, OutputCollector
from spout_sdk.operators.kafka_bolt import KafkaBolt
from spout_sdk.operators.running_input import AsyncCollector
from spout_sdk.outcome import MessageOutcome
from spout_sdk.records import Record
from spout_sdk.runtime.component_runner import ComponentRunner
from spout_sdk.runtime.supervisor import Exit, TopologyRunner
from spout_sdk.spouts.spout import Spout, SpoutCollector
from spout_sdk.state.bolt import StatefulBolt
from spout_sdk.state.collectors import StateCollector
from spout_sdk.state.deletion import DELETE
from spout_sdk.state.spec import keyed_state
from spout_sdk.state.view import StateEntry, StateView
from spout_sdk.statistics.stats import Counters, Stats
from spout_sdk.steps.context import StepContext
from spout_sdk.topologies.bolt_declarer import BoltDeclarer
from spout_sdk.topologies.builder import TopologyBuilder
from spout_sdk.windows.aggregate_bolt import AggregateBolt
from spout_sdk.windows.aggregates import Aggregate, collect, count, fold, greatest, least, mean, total
from spout_sdk.windows.bolt import Window, WindowCollector, WindowedBolt
from spout_sdk.windows.specs import WindowSpec, session, sliding, tumbling
from spout_sdk.windows.time_windows import TimeWindow
from tuple_tree.latency import LatencyHistogram
from tuple_tree.messages import FailReason, Failure
from tuple_tree.outcome_records import OutcomeRecord, outcome_stream
from tuple_tree.routing import CustomGrouping
from tuple_tree.streams import Stream, declare

__all__ = [
    "DELETE",
    "AccessError",
    "Aggregate",
    "AggregateBolt",
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
    "Client",
    "ClientClosedError",
    "ClientError",
    "ComponentError",
    "ComponentRunner",
    "Counters",
    "CustomGrouping",
    "DeadLetterError",
    "DeliveryError",
    "EmitError",
    "EmitInfo",
    "Exit",
    "FailReason",
    "FailTupleError",
    "Failure",
    "InvalidMessageError",
    "KafkaBolt",
    "KafkaSpout",
    "KafkaTuple",
    "LatencyHistogram",
    "MessageOutcome",
    "NotDeliveredError",
    "OpenInputsError",
    "OutcomePendingError",
    "OutcomeRecord",
    "OutputCollector",
    "ProcessError",
    "Record",
    "RetryPolicy",
    "RetryTupleError",
    "Spout",
    "SpoutCollector",
    "SpoutSdkError",
    "StateCollector",
    "StateEntry",
    "StateError",
    "StateView",
    "StatefulBolt",
    "Stats",
    "StepContext",
    "Stream",
    "TaskContext",
    "TaskHook",
    "TaskId",
    "TimeWindow",
    "TooManyCallsError",
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
    "collect",
    "count",
    "declare",
    "fold",
    "greatest",
    "keyed_state",
    "least",
    "load_topology",
    "mean",
    "outcome_stream",
    "session",
    "sliding",
    "total",
    "tumbling",
]
