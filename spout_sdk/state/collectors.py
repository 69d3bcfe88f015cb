"""The collector of bolts with a state: it also writes to topics, in the transaction that changes the state."""

from collections.abc import Sequence
from typing import Any

from kafka_clients.repeated_lines import get_logger
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.task import Task
from spout_sdk.errors import FailTupleError
from spout_sdk.operators.basic_bolt import BasicCollector
from tuple_tree.errors import describe

logger = get_logger("spout_sdk.bolt")

RecordHeaders = Sequence[tuple[str, str | bytes | None]]
HeldRecord = tuple[str, int, bytes | None, bytes | None, list[Any]]
"""Topic, partition, key, value and headers."""


class StateCollector(BasicCollector):
    """The collector of a `StatefulBolt`.

    Attributes:
        held: records of the call that are sent when the value is set.
    """

    def __init__(self, task: Task, settlement: Settlement) -> None:
        super().__init__(task, settlement)
        self.held: list[HeldRecord] = []

    def write(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: RecordHeaders = (),
        partition: int = -1,
    ) -> None:
        """Writes a record to a topic outside the topology, in the transaction that changes the state.

        It is sent when `emit` has returned and the value is set; if `emit` raises, nothing is written. So a topic with
        the latest value of each key never has a value that the state does not have, and a key never goes back to an
        earlier value, even with `at_least_once`. Readers need `isolation.level=read_committed`.

        If the record is refused, for instance because it is too large, the tuple fails, and its change stays in the
        state.

        Args:
            topic: the name of a topic that exists.
            value: the value of the record.
            key: the key of the record.
            headers: pairs of name and value.
            partition: the partition; -1 to choose it by the hash of the key, or any if there is no key.
        """
        self.held.append((topic, partition, key, value, [*headers]))


def send_held(held: list[HeldRecord], task: Task, settlement: Settlement) -> None:
    """Sends the records of a call whose changes are part of the state.

    Raises:
        FailTupleError: if a record is refused; the others are sent. A retry in the task would change the state again.
    """
    sink: Any = task.environment.sink
    settlement.writes_at_once = True
    failure = ""
    for topic, *record in held:
        try:
            refused = sink.produce(topic, *record)
        except (TypeError, ValueError, OverflowError) as error:  # of a part that is neither text nor bytes
            refused = describe(error)
        if refused is not None:
            failure = f"a record for topic {topic} was not delivered: {refused}"
            task.environment.counters.undelivered += 1
            logger.error("%s: %s", task.name, failure)
    held.clear()
    if failure:
        raise FailTupleError(failure)
