"""The sink of a process on Kafka that works in transactions: one producer for tuples, ack batches and dead letters.

A transaction is open from the first record on. Each record counts as delivered when it is sent: if one is not
delivered, its transaction ends, and none of its records is.

A producer whose transaction can neither be committed nor aborted is replaced by another one with the same transactional
id, in the same process: so its tasks stay, without a rebalance. `init_transactions` of the new one fences the
old one, and ends its transaction, before anything is read again.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.librdkafka_bugs import bounded, within
from kafka_clients.producer import FENCED, PURGED, DeliveredAt, ServedProducer
from kafka_clients.repeated_lines import get_logger
from spout_sdk.errors import AccessError, BrokerError, DeliveryError, RolledBackError, is_refused
from spout_sdk.kafka.kafka_settings import TRANSACTION_MS, KafkaSettings, transactional_settings
from spout_sdk.records import Headers, Sending
from tuple_tree.names import dead_letters_topic, transactional_id, transactional_prefix

logger = get_logger("spout_sdk.kafka")

_FLUSH_SECONDS: Final = 0.1
_CLEANING_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 1.0
_HANG_SECONDS: Final = 10.0
"""How much longer than its timeout a call may take until it counts as hanging."""
_OFFSETS_SECONDS: Final = 3.0
"""How long to wait for the offsets: that call ignores its timeout, and may hang after a coordinator was unavailable."""
_OUTAGE_SECONDS: Final = 60.0
"""How long a process waits for brokers that it has reached before; a restart would take longer."""
_MOST_HANGING: Final = 10
"""How many producers may hang before their process ends; each keeps its threads."""
_CUT_OFF: Final = "no broker could be reached for a while"


class _Transactions:
    """The transactions of one producer; the next is open as soon as one has ended.

    A `RolledBackError` of a method means that the open transaction cannot be committed, a `BrokerError` that the
    process has to end.

    Attributes:
        ended: why the producer cannot continue, and another has to replace it.
        hangs: whether that is because a call does not return.
        is_used: whether the open transaction has records.
        was_cut_off: whether no broker could be reached since `start`.
    """

    def __init__(self, settings: Mapping[str, Any], topology: str, component: str, timeout: float) -> None:
        self._component = component
        self._prefix = transactional_prefix(topology, component)
        self._known = dead_letters_topic(topology)  # a topic that each topology has
        self._timeout = timeout
        self._refused: str | None = None
        self.ended: str | None = None
        self.hangs = False
        self._broken: str | None = None
        self._unsent: str | None = None
        self.is_used = False
        self.was_cut_off = False
        callbacks = {"error_cb": self._on_error, "on_delivery": self._on_undelivered}
        self._producer = ServedProducer({**settings, **callbacks}, lambda reason: self._end(self._reason(reason)))
        self._client = self._producer.client

    def start(self, seconds: float) -> None:
        """Fences the last producer with this transactional id, and ends its transaction; waits `seconds` at most."""
        with suppress(KafkaException), bounded(_HANG_SECONDS, f"list_topics() of {self._component}"):
            # Without a connection, the client asks for the coordinator of its transactions half a second later.
            self._client.list_topics(self._known, timeout=min(seconds, _CONNECT_SECONDS))
        self._step(self._client.init_transactions, seconds)
        self.poll()
        self.was_cut_off = False
        self._begin()

    def poll(self) -> None:
        """Serves delivery reports; the transaction ends if all brokers are gone."""
        self._producer.poll()
        if self.was_cut_off and self.is_used:
            self._end(_CUT_OFF)
        if self._refused is not None:
            raise BrokerError(self._refused)
        # An undelivered record, the cause of failed sends, may be reported after them.
        if (why := self.ended or self._broken or self._unsent) is not None:
            raise RolledBackError(why)

    def commit(self, offsets: list[TopicPartition], group: Any) -> None:
        left = self._flush()
        self.poll()
        if left:
            self._raise_cause()
            raise self._end(f"{left} records were not delivered within {self._timeout:.0f} s")
        self._send_offsets(offsets, group)
        self._step(self._client.commit_transaction, self._timeout)
        self._begin()

    def abort(self) -> None:
        if self._refused is not None:
            raise BrokerError(self._refused)
        if self.ended is not None:
            raise RolledBackError(self.ended)
        self._step(self._client.abort_transaction, self._timeout)
        self._broken = self._unsent = None
        self._begin()

    def close(self) -> None:
        """Aborts the open transaction; a failure is only logged."""
        try:
            with bounded(_CLEANING_SECONDS + _HANG_SECONDS, f"abort_transaction() of {self._component}"):
                self._client.abort_transaction(min(_CLEANING_SECONDS, self._timeout))
        except KafkaException as error:
            if self.is_used:
                left_open = "%s leaves a transaction open, which times out after %.0f s: %s"
                logger.warning(left_open, self._component, self._timeout, error.args[0].str())

    def retire(self) -> None:
        """Ends the client, whose callbacks are no longer served, in the background."""
        clients = [self._producer, self._client]
        del self._producer, self._client
        threading.Thread(target=clients.clear, name="retired-producer", daemon=True).start()

    def produce(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> KafkaError | None:
        """Adds a record to the transaction; waits while librdkafka's queue is full.

        Returns why this record is refused, because it is too large for instance; None if it was queued, or if the
        transaction is broken, which `poll` raises.
        """
        self.is_used = True
        reason = self._producer.produce(topic, partition, key, value, headers)
        if reason is None or reason.code() != KafkaError._STATE:
            return reason
        # Not raised here, where it would count as an exception of the bolt's execute.
        if self._unsent is None:
            self._unsent = f"a record for {topic}[{partition}] could not be sent: {reason.str()}"
        return None

    def _flush(self) -> int:
        """Returns how many records are not delivered; does not wait for records that follow a refused one.

        librdkafka holds them back until the transaction is aborted, and the broker aborts it when it times out.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            left = self._producer.flush(min(_FLUSH_SECONDS, self._timeout))
            failed = (self._refused or self.ended or self._broken) is not None
            if not left or failed or time.monotonic() >= deadline:
                return left

    def _raise_cause(self) -> None:
        """Raises the fatal error of the producer, if it was not reported: `begin_transaction` raises it again."""
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.fatal() or reason.code() in FENCED:
                raise self._end(self._reason(reason)) from error

    def _begin(self) -> None:
        self.is_used = False
        self._client.begin_transaction()

    def _send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        seconds, send = min(_OFFSETS_SECONDS, self._timeout), self._client.send_offsets_to_transaction

        def attempt(left: float) -> None:
            try:
                within(left + _FLUSH_SECONDS, lambda: send(offsets, group, left))
            except TimeoutError as error:
                self.hangs = True
                raise self._end(f"the offsets of its inputs were not taken within {seconds:.0f} s") from error

        self._step(attempt, seconds)

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
                if reason.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise AccessError(
                        f"transactional-id {self._prefix} may not be used by this user: {remedy(self._component)}"
                    ) from error
                if reason.txn_requires_abort() and not reason.fatal():
                    raise RolledBackError(reason.str()) from error
                if reason.fatal() or reason.code() in FENCED:
                    raise self._end(self._reason(reason)) from error
                if not reason.retriable() or time.monotonic() >= deadline:
                    unknown = f"{self._component} does not know the result of its transaction ({reason.str()})"
                    raise self._end(unknown) from error

    def _end(self, why: str) -> RolledBackError:
        self.ended = self.ended or why
        return RolledBackError(self.ended)

    def _reason(self, reason: KafkaError) -> str:
        if reason.code() in FENCED:
            return (
                f"{self._component} was fenced ({reason.str()}): another process has its "
                f"transactional id, or the transaction was open for more than {self._timeout:.0f} s, because an "
                "execute took too long, the process was suspended, or the brokers were unavailable. If execute needs "
                "the time, raise transaction.timeout.ms"
            )
        return f"the producer cannot continue: {reason.str()}"

    def _on_undelivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None or self._broken is not None or error.code() in PURGED:
            return
        topic, partition = message.topic(), message.partition()
        undelivered = f"a record for {topic}[{partition}] was not delivered: {error.str()}"
        if error.code() in FENCED:
            self._end(self._reason(error))
        elif error.code() == KafkaError._MSG_TIMED_OUT:
            # The transaction has timed out as well: to abort it would be refused.
            self._end(undelivered)
        elif is_refused(error):
            # A retry would fail in the same way.
            self._refused = str(DeliveryError("a record", topic, partition, error))
        self._broken = undelivered

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._end(self._reason(error))
            return
        self.was_cut_off = self.was_cut_off or error.code() == KafkaError._ALL_BROKERS_DOWN
        logger.warning("Kafka: %s", error.str())


class TransactionalSink:
    """The transactions of a process; only for the thread that made it."""

    produce: Callable[..., KafkaError | None]

    def __init__(self, kafka: KafkaSettings, topology: str, component: str, slot: str) -> None:
        self._topology, self._component = topology, component
        self._settings = transactional_settings(kafka, transactional_id(topology, component, slot))
        self.timeout = float(self._settings.get("transaction.timeout.ms", TRANSACTION_MS)) / 1000
        self._hanging = 0
        self._start(3 * self.timeout)

    @property
    def is_used(self) -> bool:
        return self._current.is_used

    def poll(self) -> None:
        """Serves delivery reports; `RolledBackError` if the transaction can only be aborted."""
        self._current.poll()

    def refresh(self) -> None:
        """Replaces a producer that was cut off from all brokers, between two transactions.

        It may have lost the coordinator of the group without noticing, and would hang at its next commit.
        """
        if self._current.was_cut_off and not self.is_used:
            self._replace(_CUT_OFF)

    def commit(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        """Commits everything that was sent, and the offsets of the inputs that it was sent for, or nothing of it.

        At least one offset is needed: with it Kafka checks that this process still has its place in the group. Raises
        `RolledBackError` if the transaction is not committed, or not known to be; `abort` finds that out.
        """
        self._current.commit(list(offsets), group)

    def abort(self) -> None:
        """Aborts the open transaction, if it is not committed; one that cannot be aborted ends with its producer."""
        current = self._current
        if current.was_cut_off:
            self._replace(current.ended or _CUT_OFF)
            return
        try:
            current.abort()
        except RolledBackError as error:
            self._replace(str(error))

    def close(self) -> None:
        """Aborts the open transaction, so that no reader waits for its timeout; a failure is only logged."""
        self._current.close()

    def send(self, *record: *Sending) -> None:
        """Sends tuples; reports only a record that is refused at once, as a later failure aborts the transaction."""
        refused = self.produce(*record[:-1])
        if refused is not None:
            record[-1](refused, None)

    def send_reported(self, *record: *Sending) -> None:
        """Sends an ack batch or a dead letter, which is reported at once."""
        record[-1](self.produce(*record[:-1]), None)

    def send_record(self, *record: *Sending) -> None:
        """Sends a record that a bolt writes; it is reported at once."""
        record[-1](self.produce(*record[:-1]), None)

    def send_records(
        self,
        topic: str,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        headers: Sequence[Headers] | None,
        reported: DeliveredAt,
    ) -> None:
        """Sends records that a bolt writes; they are reported at once."""
        for at, value in enumerate(values):
            each = [] if headers is None else headers[at]
            reported(at, self.produce(topic, -1, None if keys is None else keys[at], value, each), None)

    def flush_acks(self, _seconds: float) -> int:
        """Everything was reported when it was sent."""
        return 0

    def wait_reports(self, _seconds: float) -> bool:
        """Does not wait: everything was reported when it was sent."""
        return False

    def send_lingering(self) -> None:
        """Does nothing: the commit sends lingering records."""

    def in_flight(self) -> int:
        """Returns 0: no flush waits for deliveries, because later records are part of the same transaction."""
        return 0

    def is_congested(self) -> bool:
        """False: what is sent lingers, and leaves with the commit."""
        return False

    def _replace(self, why: str) -> None:
        logger.warning("%s replaces its transactional producer: %s", self._component, why)
        self._hanging += self._current.hangs
        if self._hanging >= _MOST_HANGING:
            raise BrokerError(f"{self._hanging} producers of {self._component} hang: {why}; restart the process")
        self._current.retire()
        self._start(_OUTAGE_SECONDS)

    def _start(self, seconds: float) -> None:
        self._current = _Transactions(self._settings, self._topology, self._component, self.timeout)
        self.produce = self._current.produce
        try:
            self._current.start(seconds)
        except RolledBackError as error:
            raise BrokerError(f"{error}; restart the process, and it continues from what is committed") from error
