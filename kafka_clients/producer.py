"""A producer whose queue may be full, and which a fatal error ends, or a partition whose leader it has lost."""

from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_clients.client_settings import new_client
from kafka_clients.delivery_monitor import DeliveryMonitor

FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_TXN_STATE}
)
"""Codes of errors after which a transactional producer has to be replaced."""
PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Codes in delivery reports of what was dropped with a transaction."""
_ROOM_SECONDS: Final = 0.01

OnFatal = Callable[[KafkaError], object]
DeliveredAt = Callable[[int, Any, Any], object]
"""Called with the place of a record among the records that were sent together, and with its delivery report."""


class ServedProducer:
    """A producer for one thread, which also serves its delivery reports.

    `on_fatal` is called with the error after which the client cannot continue; it may raise. That is also called, by
    `poll` only, for a partition whose leader librdkafka has lost. A producer with transactions is not watched for that:
    a transaction that is not delivered in time replaces it.
    """

    def __init__(self, settings: Mapping[str, Any], on_fatal: OnFatal) -> None:
        self._monitor = DeliveryMonitor(settings)
        watched = {} if "transactional.id" in settings else self._monitor.settings
        self.client = new_client(Producer, {**settings, **watched})
        self._produce = self.client.produce
        self._on_fatal = on_fatal

    def __len__(self) -> int:
        """Records that are sent and not yet delivered, and reports that are not served."""
        return len(self.client)

    def produce(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Any, on_delivery: Any = None
    ) -> KafkaError | None:
        """Sends a record; waits while librdkafka's queue is full, which is the back-pressure of a slow broker.

        A record that is refused alone, as it is too large for instance, is reported at once; without `on_delivery` that
        is returned.
        """
        while True:
            try:
                # None: an empty list of headers takes a third of the time of a record.
                self._produce(topic, value, key, partition, on_delivery, None, 0, headers or None)
                return None
            except BufferError:
                self.poll(_ROOM_SECONDS)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if (cause := ended_by(self.client.poll, reason)) is not None:
                    self._on_fatal(cause)
                elif on_delivery is None:
                    return reason
                else:
                    on_delivery(reason, None)
                return None

    def produce_all(
        self,
        topic: str,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        headers: Sequence[Any] | None,
        on_delivery: DeliveredAt,
    ) -> None:
        """Sends each record as `produce` does: to the partition of its key, or to any partition if it has no key.

        Args:
            topic: the topic of all records.
            keys: the key of each record; None if no record has a key.
            values: the value of each record.
            headers: the headers of each record; None if no record has headers.
            on_delivery: called with the place of each record in `values`, and its delivery report.
        """
        # A bound method is the cheapest callback of its own for each record.
        produce, reported = self._produce, MethodType
        for at, value in enumerate(values):
            key = None if keys is None else keys[at]
            each = None if headers is None else headers[at] or None
            try:
                produce(topic, value, key, -1, reported(on_delivery, at), None, 0, each)
            except (BufferError, KafkaException):
                self.produce(topic, -1, key, value, each, reported(on_delivery, at))

    def poll(self, seconds: float = 0.0) -> int:
        """Serves delivery reports; waits `seconds` for one."""
        count = self._served(self.client.poll, seconds)
        if (reason := self._monitor.stuck) is not None:
            self._on_fatal(reason)
        return count

    def flush(self, seconds: float) -> int:
        """Waits until everything is delivered or has failed; returns how many records are neither in time."""
        return self._served(self.client.flush, seconds)

    def _served(self, call: Callable[[float], int], seconds: float) -> int:
        count, reason = served(lambda: call(seconds))
        if reason is not None:
            self._on_fatal(reason)
        return count


def served(call: Callable[[], int]) -> tuple[int, KafkaError | None]:
    """Calls a producer's `poll` or `flush`, which returns how many reports there were, or are left.

    Returns that, 0 if the producer cannot continue, and why. 1 and None after an error without a cause: nothing
    may count as delivered, and the next call raises the cause.
    """
    try:
        return call(), None
    except KafkaException as error:
        return 0, error.args[0]
    except SystemError as error:
        # The client has set the exception and called for one more report; Python names it as the cause.
        if isinstance(error.__cause__, KafkaException):
            return 0, error.__cause__.args[0]
        # It has set the exception, and lost it to a line of librdkafka's log.
        if "without setting an exception" in str(error):
            return 1, None
        raise


def ended_by(poll: Callable[[float], int], reason: KafkaError) -> KafkaError | None:
    """The fatal error of a producer whose `produce` raised `reason`; None if it can continue."""
    # After a fatal error `produce` has a code of its own, with neither the mark nor the cause: the next poll has that.
    if reason.code() == KafkaError._FATAL:
        return served(lambda: poll(0))[1] or reason
    return reason if reason.fatal() else None
