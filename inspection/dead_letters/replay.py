"""Puts dead letters back where they lay, each of them once.

A letter's record and the note that it was put back are written in one transaction, the note into the topic of the dead
letters: both are there, or none. All replays of a topology have the same transactional id, so one that begins puts an
end to one that still runs: what that had not committed is undone, and what it had committed is noted. Only then are the
notes read, to their very end, so nothing can be put back twice, however many replay at a time and wherever they die.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from inspection.dead_letters.errors import DeadLettersError
from inspection.dead_letters.letter import DeadLetter
from inspection.dead_letters.putting_back import restored_headers
from kafka_clients.catalogue import CONTACT_S, KafkaSettings
from kafka_clients.client_logs import client_logger
from kafka_clients.client_settings import for_consumer, for_transactions
from kafka_clients.watermarks import watermarks
from spout_sdk.kafka.delivery_reports import ended_by
from tuple_tree.dead_letters import replay_marker
from tuple_tree.names import CATALOGUE_GROUP, dead_letters_topic, transactional_id

# What goes wrong is told by an error; librdkafka's own words are for those who configure logging.
_CLIENT_LOG: Final = client_logger("inspection")
_CLIENT_LOG.addHandler(logging.NullHandler())

TRANSACTION_S: Final = 10.0
"""How long a transaction may be open. One that a killed replay leaves holds back the bolt's readers for so long, unless
another replay ends it before."""
_BATCH: Final = 100
"""Letters of one transaction at most."""
_BATCH_BYTES: Final = 4_000_000
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.1
_STEP_S: Final = 1.0
_UNDONE: Final = "the last letters were not put back"
_REPLACED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_TXN_STATE}
)
_PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


def replay_id(topology: str) -> str:
    """The transactional id of all replays of a topology; no component can be called `acker`."""
    return transactional_id(topology, "acker", "dead-letters")


@dataclass(frozen=True, slots=True)
class Replayed:
    """A letter that was put back.

    Attributes:
        letter: which.
        position: the offset that its record has now, in the topic and partition where it lay.
    """

    letter: DeadLetter
    position: int


class Replayer:
    """Puts letters back. To begin one ends another of the same topology that still runs.

    Args:
        kafka: librdkafka properties.
        topology: its name.

    Attributes:
        noted: what was noted before it began lies before this offset of the dead letters.

    Raises:
        DeadLettersError: if no transaction can be begun.
    """

    def __init__(self, kafka: KafkaSettings, topology: str) -> None:
        self._topology = topology
        self._topic = dead_letters_topic(topology)
        settings: dict[str, Any] = {
            "linger.ms": 0,
            "logger": _CLIENT_LOG,
            "message.max.bytes": 100_000_000,
            **for_transactions(kafka),
            # A broker refuses a batch as a whole: alone, a record is refused for itself.
            "batch.num.messages": 1,
            "acks": "all",
            "enable.idempotence": True,
            "transactional.id": replay_id(topology),
            "transaction.timeout.ms": round(TRANSACTION_S * 1_000),
            "message.timeout.ms": round(TRANSACTION_S * 1_000),
        }
        self._producer = Producer(settings)
        self._step(self._producer.init_transactions, "no replay could be begun")
        self.noted = self._end(kafka)

    def __enter__(self) -> "Replayer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Undoes what is not committed, so that nobody has to wait for it."""
        try:
            self._producer.abort_transaction(CONTACT_S)
        except KafkaException:
            # There is none, or it is another's to end.
            return

    def replay(self, letters: Iterable[DeadLetter], *, keep_anchors: bool = False) -> Iterator[Replayed]:
        """Puts letters back, some at a time; what is returned is committed.

        Args:
            letters: that can be put back, and were not before, as the log says up to `noted`.
            keep_anchors: whether tuples keep their anchors.

        Raises:
            DeadLettersError: if another replay has begun, or a record is refused; what was not returned by then was
                not put back, unless the message says that this is not known.
        """
        todo = iter(letters)
        while batch := list(_batch(todo)):
            yield from self._put_back(batch, keep_anchors)

    def _put_back(self, batch: list[DeadLetter], keep_anchors: bool) -> list[Replayed]:
        positions: dict[int, int] = {}
        failures: list[tuple[DeadLetter, KafkaError]] = []
        refused: KafkaException | None = None
        try:
            self._producer.begin_transaction()
            try:
                for letter in batch:
                    self._send(letter, keep_anchors, positions, failures)
            except KafkaException as error:
                cause = ended_by(self._producer.poll, error.args[0])
                if cause is not None:
                    raise self._ended(cause, _UNDONE) from error
                # Once a record is refused, nothing more can be sent; the reports know which one it was.
                refused = error
            self._deliver()
        except KafkaException as error:
            raise self._ended(error.args[0], _UNDONE) from error
        self._check(batch, failures)
        if refused is not None:
            raise self._ended(refused.args[0], _UNDONE) from refused
        self._commit()
        return [Replayed(letter, positions[letter.offset]) for letter in batch]

    def _deliver(self) -> None:
        """Waits for the delivery reports, which do not take longer than a transaction may.

        Not by `flush`: after a fatal error, which the client raises, that goes on to call for reports, and Python ends
        this with a `SystemError`.
        """
        deadline = time.monotonic() + 2 * TRANSACTION_S
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(_POLL_S)

    def _check(self, batch: list[DeadLetter], failures: list[tuple[DeadLetter, KafkaError]]) -> None:
        """Makes sure that everything was delivered; else the transaction is undone."""
        for _letter, reason in failures:
            if reason.fatal() or reason.code() in _REPLACED:
                raise self._ended(reason, _UNDONE)
        # Once one is refused, the others of the transaction are thrown away.
        told = [(letter, reason) for letter, reason in failures if reason.code() not in _PURGED] or failures
        if not told:
            return
        self._step(self._producer.abort_transaction)
        letter, reason = told[0]
        raise DeadLettersError(
            f"dead letter {letter.offset} was refused by {letter.topic} ({reason.str()}), so {batch[0].offset} to "
            f"{batch[-1].offset} were not put back. Leave that one out, or see to its topic, and repeat the command"
        )

    def _send(
        self,
        letter: DeadLetter,
        keep_anchors: bool,
        positions: dict[int, int],
        failures: list[tuple[DeadLetter, KafkaError]],
    ) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                positions[letter.offset] = message.offset()
            else:
                failures.append((letter, error))

        try:
            self._producer.produce(
                letter.topic,
                letter.value,
                letter.key,
                letter.partition,
                delivered,
                headers=list(restored_headers(letter, self._topology, keep_anchors=keep_anchors)),
            )
        except KafkaException as error:
            # Of this record, where metadata says so already; a transaction that has failed takes none.
            if error.args[0].code() != KafkaError._STATE:
                failures.append((letter, error.args[0]))
            raise
        self._producer.produce(self._topic, partition=0, headers=list(replay_marker(letter.offset)))

    def _commit(self) -> None:
        self._step(self._producer.commit_transaction)

    def _step(self, call: Callable[[float], Any], failed: str = "it is not known whether all was put back") -> None:
        """Goes through a step of the transaction, again where Kafka says so; Ctrl-C is heard in between."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                call(_STEP_S)
                return
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable() or time.monotonic() >= deadline:
                    raise self._ended(reason, failed) from error

    def _end(self, kafka: KafkaSettings) -> int:
        """The end of the dead letters, what is not committed included."""
        settings: dict[str, Any] = {
            "log_level": 0,
            **for_consumer(kafka),
            "group.id": CATALOGUE_GROUP,
            "isolation.level": "read_uncommitted",
        }
        consumer = Consumer(settings)
        try:
            return watermarks(consumer, TopicPartition(self._topic, 0), CONTACT_S)[1]
        except KafkaException as error:
            raise self._ended(error.args[0], "no replay could be begun") from error
        finally:
            consumer.close()

    def _ended(self, reason: KafkaError, failed: str) -> DeadLettersError:
        reason = ended_by(self._producer.poll, reason) or reason
        if reason.code() in _REPLACED:
            return DeadLettersError(
                f"another replay of {self._topology} has begun and put an end to this one, or this one stood still for "
                f"more than {TRANSACTION_S:g} s ({reason.str()}): wait for the other, and repeat the command"
            )
        if reason.code() in (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ):
            return DeadLettersError(
                f"this user may not replay ({reason.str()}): allow Write for the transactional id "
                f"{replay_id(self._topology)}, for {self._topic}, and for the topics where the letters lay"
            )
        return DeadLettersError(f"{failed} ({reason.str()}): repeat the command, which puts back what was not")


def _batch(letters: Iterator[DeadLetter]) -> Iterator[DeadLetter]:
    size = 0
    for letter in islice(letters, _BATCH):
        size += len(letter.value or b"")
        yield letter
        if size >= _BATCH_BYTES:
            return
