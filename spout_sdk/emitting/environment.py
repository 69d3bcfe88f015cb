"""What a process gives its tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spout_sdk.emitting.input_offsets import InputOffsets
from spout_sdk.records import Clock, Entropy, Sink
from spout_sdk.statistics.counters import Counters

if TYPE_CHECKING:
    from spout_sdk.kafka_spout.source import Source

OpenSource = Callable[[Callable[[], None]], "Source"]
"""Makes the connection of a spout's task to its source; the argument is called when a commit has failed."""

Inputs = Callable[[Callable[[], int]], InputOffsets]
"""Makes the open offsets of a task; the argument returns how many tuples the task has emitted."""


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """What a process gives each of its tasks.

    Attributes:
        sink: where to send.
        counters: of the process, shared by its tasks.
        open_source: for spouts that read Kafka topics; None where there is no Kafka.
        inputs: makes the open offsets of a bolt's task.
        kafka: librdkafka properties; empty where there is no Kafka.
    """

    sink: Sink
    counters: Counters
    clock: Clock
    entropy: Entropy
    open_source: OpenSource | None = None
    inputs: Inputs = field(default=lambda _emitted: InputOffsets())
    kafka: Mapping[str, Any] = field(default_factory=dict)
