"""What a process gives its tasks, and what the parts of a task share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spout_sdk.api.context import TaskContext
from spout_sdk.emitting.ack_buffer import AckBuffer
from spout_sdk.records import Clock, Entropy, Sink
from spout_sdk.statistics.stats import Counters
from spout_sdk.topologies.topology import Topology

if TYPE_CHECKING:
    from spout_sdk.kafka_spout.kafka_source import KafkaSource


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """What a process gives each of its tasks; `counters` are shared by all of them."""

    sink: Sink
    counters: Counters
    clock: Clock
    entropy: Entropy
    open_source: "Callable[[], KafkaSource] | None" = None  # for spouts that read Kafka topics
    kafka: Mapping[str, Any] = field(default_factory=dict)  # librdkafka properties; empty where there is no Kafka


@dataclass(frozen=True, slots=True)
class TaskScope:
    """What the parts of one task share."""

    topology: Topology
    context: TaskContext
    environment: TaskEnvironment
    acks: AckBuffer
    next_id: Callable[[], int]
