"""The collectors of bolts with a state: they also write to topics, in the transaction that changes the state."""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError

from spout_sdk.bolts.arrow_collector import ArrowCollector
from spout_sdk.bolts.basic_collector import BasicCollector
from spout_sdk.bolts.outcomes import Outcomes
from spout_sdk.emitting.task import Task
from spout_sdk.errors import DeliveryError

RecordHeaders = Sequence[tuple[str, str | bytes | None]]


class StateCollector(BasicCollector):
    """The collector of a `StatefulBolt`."""

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

        So a topic with the latest value of each key never has a value that the state does not have, and a key never
        goes back to an earlier value, even with `at_least_once`. Readers need `isolation.level=read_committed`.

        Args:
            topic: the name of a topic that exists.
            value: the value of the record.
            key: the key of the record.
            headers: pairs of name and value.
            partition: the partition; -1 to choose it by the hash of the key, or any if there is no key.

        Raises:
            DeliveryError: if the record is refused, for instance because it is too large.
        """
        _write(self._task, self._outcomes, topic, partition, key, value, headers)


class StateArrowCollector(ArrowCollector):
    """The collector of a `StatefulArrowBolt`."""

    __slots__ = ()

    def write(self, topic: str, values: Sequence[bytes | None], *, keys: Sequence[bytes | None] | None = None) -> None:
        """Writes records to a topic outside the topology, as `StateCollector.write` does.

        Args:
            topic: the name of a topic that exists.
            values: the values of the records.
            keys: a key for each value; without them, the records have no keys.

        Raises:
            DeliveryError: if a record is refused, for instance because it is too large; earlier records are written.
        """
        for key, value in zip([None] * len(values) if keys is None else keys, values, strict=True):
            _write(self._task, self._outcomes, topic, -1, key, value, ())


def _write(
    task: Task,
    outcomes: Outcomes,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: RecordHeaders,
) -> None:
    sink: Any = task.environment.sink
    produce: Callable[..., KafkaError | None] = sink.produce
    outcomes.written += 1
    if (refused := produce(topic, partition, key, value, [*headers])) is not None:
        raise DeliveryError("a record", topic, partition, refused)
