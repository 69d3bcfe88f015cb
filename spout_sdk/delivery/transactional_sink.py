"""The sink of a process on Kafka that works in transactions: one producer for tuples, ack batches and dead letters.

A transaction is open from the first record on. Whatever is sent counts as delivered at once, because it is, or nothing
is: a record that was not delivered ends the transaction that it is part of.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.client_settings import new_client
from kafka_clients.librdkafka_bugs import bounded
from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import AccessError, BrokerError, DeliveryError, RolledBackError, is_refused
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS, KafkaSettings, transactional_settings
from spout_sdk.kafka.kafka_sink import ended_by, served
from spout_sdk.records import Headers, Sending
from tuple_tree.names import transactional_id, transactional_prefix

logger = get_logger("spout_sdk.kafka")

_ROOM_SECONDS: Final = 0.01
_FLUSH_SECONDS: Final = 0.1
_CLEANING_SECONDS: Final = 5.0
_HANG_SECONDS: Final = 10.0
"""How much longer than its timeout a call may take until it counts as hanging."""
_REPLACED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_TXN_STATE}
)
_PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class TransactionalSink:
    """The transactions of a process; only for the thread that made it."""

    def __init__(self, kafka: KafkaSettings, topology: str, component: str, slot: str) -> None:
        self._topology = topology
        self._component = component
        settings = transactional_settings(kafka, transactional_id(topology, component, slot))
        self.timeout = float(settings.get("transaction.timeout.ms", TRANSACTION_MS)) / 1000
        self._fatal: str | None = None
        self._broken: str | None = None
        self._unsent: str | None = None
        self._records = 0
        callbacks = {"error_cb": self._on_error, "on_delivery": self._on_undelivered}
        self._producer = new_client(Producer, {**settings, **callbacks})
        self._step(self._producer.init_transactions, 3 * self.timeout)
        self._begin()

    @property
    def is_used(self) -> bool:
        return self._records > 0

    def poll(self) -> None:
        """Serves delivery reports; `RolledBackError` if the transaction can only be aborted."""
        self._serve(lambda: self._producer.poll(0))
        if self._fatal is not None:
            raise BrokerError(self._fatal)
        # What was not delivered is why nothing more could be sent, and may be reported after that.
        if (why := self._broken or self._unsent) is not None:
            raise RolledBackError(why)

    def commit(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        """Commits everything that was sent, and the offsets of the inputs that it was sent for, or nothing of it.

        At least one offset, by which Kafka knows whether this process still has its place in the group. A
        `RolledBackError` if the transaction can only be aborted, a `BrokerError` if its outcome is not known.
        """
        left = self._flush()
        self.poll()
        if left:
            self._raise_cause()
            raise RolledBackError(f"{left} records were not delivered within {self.timeout:.0f} s")
        positions = list(offsets)
        self._step(lambda seconds: self._producer.send_offsets_to_transaction(positions, group, seconds), self.timeout)
        self._step(self._producer.commit_transaction, self.timeout)
        self._begin()

    def abort(self) -> None:
        if self._fatal is not None:
            raise BrokerError(self._fatal)
        try:
            self._step(self._producer.abort_transaction, self.timeout)
        except RolledBackError as error:
            raise BrokerError(
                f"{self._component} cannot abort its transaction: {error}; restart the process"
            ) from error
        self._broken = self._unsent = None
        self._begin()

    def close(self) -> None:
        """Aborts what is open, so that no reader waits until it times out; a failure is only logged."""
        try:
            with bounded(_CLEANING_SECONDS + _HANG_SECONDS, f"abort_transaction() of {self._component}"):
                self._producer.abort_transaction(min(_CLEANING_SECONDS, self.timeout))
        except KafkaException as error:
            if self.is_used:
                left_open = "%s leaves a transaction open, which times out after %.0f s: %s"
                logger.warning(left_open, self._component, self.timeout, error.args[0].str())

    def send(self, *record: *Sending) -> None:
        """Sends tuples; only that they were not even taken is reported, since what fails later undoes everything."""
        refused = self.produce(*record[:-1])
        if refused is not None:
            record[-1](refused, None)

    def send_reported(self, *record: *Sending) -> None:
        """Sends an ack batch or a dead letter, which is reported at once."""
        record[-1](self.produce(*record[:-1]), None)

    def flush_acks(self, _seconds: float) -> int:
        """Everything was reported when it was sent."""
        return 0

    def produce(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> KafkaError | None:
        """Adds a record to the transaction; waits while librdkafka's queue is full.

        Returns why the record alone is refused, too large for instance; None if it was taken, or the transaction is
        broken anyway, which `poll` raises.
        """
        self._records += 1
        while True:
            try:
                self._producer.produce(topic, value, key, partition, None, None, 0, headers)
                return None
            except BufferError:
                self._serve(lambda: self._producer.poll(_ROOM_SECONDS))
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                cause = ended_by(self._producer.poll, reason)
                if reason.code() != KafkaError._STATE and cause is None:
                    return reason
                # Not raised here, where a bolt's execute would be blamed for it.
                if cause is not None:
                    self._fatal = self._fatal or self._ended(cause)
                elif self._unsent is None:
                    self._unsent = f"a record for {topic}[{partition}] could not be sent: {reason.str()}"
                return None

    def _flush(self) -> int:
        """Returns how many records are not delivered; does not wait for those behind one that was refused.

        librdkafka holds them back until the transaction is aborted, and the broker aborts it when it times out.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            left = self._serve(lambda: self._producer.flush(min(_FLUSH_SECONDS, self.timeout)))
            ended = self._broken is not None or self._fatal is not None
            if not left or ended or time.monotonic() >= deadline:
                return left

    def _serve(self, call: Callable[[], int]) -> int:
        count, reason = served(call)
        if reason is not None:
            self._fatal = self._ended(reason)
        return count

    def _raise_cause(self) -> None:
        """Raises what ended the producer, where the client has lost that: to begin again is refused, with why."""
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.fatal() or reason.code() in _REPLACED:
                self._fatal = self._ended(reason)
                raise BrokerError(self._fatal) from error

    def _begin(self) -> None:
        self._records = 0
        self._producer.begin_transaction()

    def _step(self, call: Callable[[float], None], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                with bounded(left + _HANG_SECONDS, f"a step of the transaction of {self._component}"):
                    call(left)
                return
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                self._check_allowed(reason)
                if reason.txn_requires_abort() and not reason.fatal():
                    raise RolledBackError(reason.str()) from error
                if reason.fatal() or reason.code() in _REPLACED:
                    self._fatal = self._ended(reason)
                    raise BrokerError(self._fatal) from error
                if not reason.retriable() or time.monotonic() >= deadline:
                    raise BrokerError(
                        f"{self._component} does not know how its transaction went ({reason.str()}): restart the "
                        "process, and it continues from what is committed"
                    ) from error

    def _check_allowed(self, reason: KafkaError) -> None:
        if reason.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            prefix = transactional_prefix(self._topology, self._component)
            raise AccessError(f"transactional-id {prefix} may not be used by this user: {remedy(self._component)}")

    def _ended(self, reason: KafkaError) -> str:
        if reason.code() in _REPLACED:
            return (
                f"{self._component} was fenced ({reason.str()}): another process has its "
                f"transactional id, or the transaction was open for more than {self.timeout:.0f} s, as an execute took "
                "so long or the process stood still; restart it, and it continues from what is committed. If it is "
                "execute that needs the time, raise transaction.timeout.ms"
            )
        return f"the producer cannot continue: {reason.str()}; restart the process"

    def _on_undelivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None or self._broken is not None or error.code() in _PURGED:
            return
        topic, partition = message.topic(), message.partition()
        if error.code() in _REPLACED:
            self._fatal = self._fatal or self._ended(error)
        elif is_refused(error):
            # Doing it again would end like this.
            self._fatal = str(DeliveryError("a record", topic, partition, error))
        self._broken = f"a record for {topic}[{partition}] was not delivered: {error.str()}"

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = self._ended(error)
        else:
            logger.warning("Kafka: %s", error.str())
