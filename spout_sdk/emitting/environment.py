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
"""Makes the connection of a spout's task to its source; given what to call when a commit has failed."""

Inputs = Callable[[Callable[[], int]], InputOffsets]
"""Makes what keeps the open offsets of a task; given what returns how many tuples it has emitted."""


def _inputs(_emitted: Callable[[], int]) -> InputOffsets:
    return InputOffsets()


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """What a process gives each of its tasks.

    Attributes:
        sink: where to send.
        counters: what the process has done; shared by its tasks.
        clock: monotonic seconds.
        entropy: returns random bytes.
        open_source: for spouts that read Kafka topics; None where there is no Kafka.
        inputs: makes what keeps the open offsets of a bolt's task; given how many tuples it has emitted.
        kafka: librdkafka properties; empty where there is no Kafka.
    """

    sink: Sink
    counters: Counters
    clock: Clock
    entropy: Entropy
    open_source: OpenSource | None = None
    inputs: Inputs = field(default=_inputs)
    kafka: Mapping[str, Any] = field(default_factory=dict)
