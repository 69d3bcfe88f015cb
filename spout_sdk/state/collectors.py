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
        """Writes a record to a topic that is not the topology's, in the transaction that changes the state.

        So a topic with the latest value of each key has no value that the state has not, and a key never goes back,
        with `at_least_once`, too. Readers need `isolation.level=read_committed`.

        Args:
            topic: which exists.
            value: of the record.
            key: of the record.
            headers: pairs of name and value.
            partition: -1 for that of the key's hash, or any if there is none.

        Raises:
            DeliveryError: if the record is refused, because it is too large for instance.
        """
        _write(self._task, self._outcomes, topic, partition, key, value, headers)


class StateArrowCollector(ArrowCollector):
    """The collector of a `StatefulArrowBolt`."""

    __slots__ = ()

    def write(self, topic: str, values: Sequence[bytes | None], *, keys: Sequence[bytes | None] | None = None) -> None:
        """Writes records to a topic that is not the topology's, as `StateCollector.write` does.

        Args:
            topic: which exists.
            values: of the records.
            keys: of the records, as many; none unless given.

        Raises:
            DeliveryError: if a record is refused, because it is too large for instance; those before it are written.
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
