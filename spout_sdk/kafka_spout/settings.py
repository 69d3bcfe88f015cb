"""What a Kafka spout was given, what its task gives it, and what it says of itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from spout_sdk.kafka_spout.first_poll import FirstPoll
from spout_sdk.kafka_spout.retry import RetryPolicy
from spout_sdk.kafka_spout.source import Source
from spout_sdk.records import Clock, Sink
from spout_sdk.statistics.counters import Counters

Mode = Literal["at_least_once", "at_most_once", "no_guarantee"]
"""Storm's processing guarantees.

- `at_least_once`: the acked prefix is committed, and what fails is delivered again.
- `at_most_once`: what was read is committed before it is emitted; trees are not followed.
- `no_guarantee`: what was emitted is committed now and then; trees are not followed.
"""


@dataclass(frozen=True, slots=True)
class SpoutWorld:
    """What a Kafka spout needs of its task."""

    index: int
    acking: bool
    ack_partitions: int
    dead_letters: str
    sink: Sink
    counters: Counters
    clock: Clock
    open_source: Callable[[Callable[[], None]], Source]


@dataclass(frozen=True, slots=True)
class SourceSettings:
    topics: tuple[str, ...]
    first_poll: FirstPoll
    mode: Mode
    retry: RetryPolicy
    max_uncommitted_offsets: int


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """How far a task is with its source.

    Attributes:
        lag: messages that were not emitted yet, as far as is known without asking the broker.
        uncommitted: offsets that were emitted and lie behind the one to be committed.
        retries: messages that wait to be delivered again.
    """

    lag: int
    uncommitted: int
    retries: int
