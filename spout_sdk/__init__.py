"""Steps, spouts and bolts on Kafka, with Storm's acking.

    from spout_sdk import KafkaSpout, TopologyBuilder

    shop = TopologyBuilder("shop")
    shop.spout("orders", KafkaSpout("orders", value=Order)).step(items).key_by("name").step(ship, tasks=3)

`__all__` has the names of a first program. Other public names are those of `errors`, `steps`, `state`, `windows`,
`client`, `testing`, `kafka_spout`, `groupings`, `hooks`, `arrow`, `runtime` and `statistics`, in the `__all__` of each.

Folders and modules, in the order in which a tuple passes through them:

- `api`: the API for users: tuples, context, topologies, types of rows; `hooks`: hooks of tasks; `groupings`: the
  subscriptions of a bolt.
- `windows`: bolts that work on many tuples at a time.
- `topologies`: `TopologyBuilder` and its checks.
- `spouts`: task, collector and pending trees of a spout; `kafka_spout`: a spout that reads Kafka topics.
- `emitting`: what all tasks share: emit plans, packs of tuples, ack batches, sessions, flushes, dead letters,
  input offsets.
- `bolts`: tasks, and their steps: bolts that run in a task; readers, settlement.
- `steps`: functions with types as bolts, and `Stream`, which adds them.
- `operators`: the kinds of bolts, each with its collector, and how a step calls it; `arrow`: bolts on columns.
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

from spout_sdk.api.context import TaskContext
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.topology import Topology, load_topology
from spout_sdk.api.tuples import Tuple
from spout_sdk.errors import FailTupleError, RetryTupleError
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.operators.async_bolt import AsyncBolt
from spout_sdk.operators.basic_bolt import BasicBolt, BasicCollector
from spout_sdk.operators.batch_bolt import BatchBolt
from spout_sdk.operators.bolt import Bolt, OutputCollector
from spout_sdk.operators.kafka_bolt import KafkaBolt
from spout_sdk.operators.running_input import AsyncCollector
from spout_sdk.spouts.spout import Spout, SpoutCollector
from spout_sdk.steps.context import StepContext
from spout_sdk.steps.stream import Stream
from spout_sdk.topologies.builder import TopologyBuilder
from tuple_tree.messages import FailReason, Failure
from tuple_tree.streams import StreamDeclaration, declare

__all__ = [
    "AsyncBolt",
    "AsyncCollector",
    "BasicBolt",
    "BasicCollector",
    "BatchBolt",
    "Bolt",
    "FailReason",
    "FailTupleError",
    "Failure",
    "KafkaBolt",
    "KafkaSpout",
    "OutputCollector",
    "RetryPolicy",
    "RetryTupleError",
    "Spout",
    "SpoutCollector",
    "StepContext",
    "Stream",
    "StreamDeclaration",
    "TaskContext",
    "Topology",
    "TopologyBuilder",
    "Tuple",
    "declare",
    "load_topology",
]
