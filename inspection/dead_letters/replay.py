"""Writes dead letters back to their topics, each of them once.

A letter's record and the note that it was put back are written in one transaction, the note into the topic of the dead
letters: both are there, or none. All replays of a topology have the same transactional id, so one that begins puts an
end to one that still runs: what that had not committed is undone, and what it had committed is noted. Only then are the
notes read, to their very end, so nothing can be put back twice, however many replay at a time and wherever they die.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from inspection.dead_letters.letter import DeadLetter, Header
from inspection.errors import DeadLettersError
from kafka_clients.catalogue import CONTACT_S, KafkaSettings
from kafka_clients.client_logs import client_logger
from kafka_clients.client_settings import for_transactions
from kafka_clients.log_reader import LogReader
from spout_sdk.kafka.delivery_reports import ended_by
from tuple_tree.anchors import ANCHOR_COUNTS_HEADER, ANCHORS_HEADER
from tuple_tree.dead_letters import replay_marker
from tuple_tree.names import (
    TOPOLOGIES_TOPIC,
    acks_topic,
    dead_letters_topic,
    notices_topic,
    transactional_id,
    tuples_topic,
)

# Errors are raised; librdkafka's own log lines are for those who configure logging.
_CLIENT_LOG: Final = client_logger("inspection")
_CLIENT_LOG.addHandler(logging.NullHandler())

TRANSACTION_S: Final = 10.0
"""How long a transaction may be open. One that a killed replay leaves holds back the bolt's readers for so long, unless
another replay ends it before."""
_BATCH: Final = 100  # letters of one transaction at most
_BATCH_BYTES: Final = 4_000_000
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.1
_STEP_S: Final = 1.0
_UNDONE: Final = "the last letters were not put back"
_REPLACED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_TXN_STATE}
)
_REFUSED: Final = (
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_INTERNAL_PREFIX: Final = "__"
_PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


def replay_id(topology: str) -> str:
    """The transactional id of all replays of a topology; no component can be called `acker`."""
    return transactional_id(topology, "acker", "dead-letters")


@dataclass(frozen=True, slots=True)
class Replayed:
    """A letter that was put back."""

    letter: DeadLetter  # which
    position: int  # the offset that its record has now, in its original topic and partition


class Replayer:
    """Puts letters back. To begin one ends another of the same topology that still runs.

    Attributes:
        noted: the end of the dead letters when it began: what was replayed before has its note before this offset.
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
        # Of the open transaction: offset of a letter → offset of its record; and the letters that were refused.
        self._positions: dict[int, int] = {}
        self._failures: list[tuple[DeadLetter, KafkaError]] = []
        self._step(self._producer.init_transactions, "no replay could be begun")
        with LogReader(kafka, isolation="read_uncommitted") as reader:
            place = (self._topic, 0)
            self.noted = reader.stretches([place])[place].end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Aborts the open transaction, so that no reader has to wait for it."""
        try:
            self._producer.abort_transaction(CONTACT_S)
        except KafkaException:
            # There is none, or it is another's to end.
            return

    def replay(self, letters: Iterable[DeadLetter], *, keep_anchors: bool = False) -> Iterator[Replayed]:
        """Puts letters back, some at a time; what is returned is committed."""
        todo = iter(letters)
        while batch := list(_batch(todo)):
            yield from self._put_back(batch, keep_anchors)

    def _put_back(self, batch: list[DeadLetter], keep_anchors: bool) -> list[Replayed]:
        self._positions.clear()
        self._failures.clear()
        refused: KafkaException | None = None
        try:
            self._producer.begin_transaction()
            try:
                for letter in batch:
                    self._send(letter, keep_anchors)
            except KafkaException as error:
                cause = ended_by(self._producer.poll, error.args[0])
                if cause is not None:
                    raise self._ended(cause, _UNDONE) from error
                # Once a record is refused, nothing more can be sent; the reports know which one it was.
                refused = error
            self._deliver()
        except KafkaException as error:
            raise self._ended(error.args[0], _UNDONE) from error
        self._check(batch)
        if refused is not None:
            raise self._ended(refused.args[0], _UNDONE) from refused
        self._commit()
        return [Replayed(letter, self._positions[letter.offset]) for letter in batch]

    def _deliver(self) -> None:
        """Waits for the delivery reports, which do not take longer than a transaction may.

        Not by `flush`: after a fatal error, which the client raises, that goes on to call for reports, and Python ends
        this with a `SystemError`.
        """
        deadline = time.monotonic() + 2 * TRANSACTION_S
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(_POLL_S)

    def _check(self, batch: list[DeadLetter]) -> None:
        for _letter, reason in self._failures:
            if reason.fatal() or reason.code() in _REPLACED:
                raise self._ended(reason, _UNDONE)
        if not self._failures:
            return
        self._step(self._producer.abort_transaction)
        # Once one is refused, the others of the transaction are purged.
        failures = [each for each in self._failures if each[1].code() not in _PURGED] or self._failures
        letter, reason = failures[0]
        raise DeadLettersError(
            f"dead letter {letter.offset} was refused by {letter.topic} ({reason.str()}), so {batch[0].offset} to "
            f"{batch[-1].offset} were not put back. Leave that one out, or see to its topic, and repeat the command"
        )

    def _send(self, letter: DeadLetter, keep_anchors: bool) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self._positions[letter.offset] = message.offset()
            else:
                self._failures.append((letter, error))

        try:
            self._producer.produce(
                *(letter.topic, letter.value, letter.key, letter.partition, delivered),
                headers=list(restored_headers(letter, self._topology, keep_anchors=keep_anchors)),
            )
        except KafkaException as error:
            # Metadata may show already that this record is refused; a transaction that has failed takes none.
            if error.args[0].code() != KafkaError._STATE:
                self._failures.append((letter, error.args[0]))
            raise
        self._producer.produce(self._topic, partition=0, headers=list(replay_marker(letter.offset)))

    def _commit(self) -> None:
        self._step(self._producer.commit_transaction)

    def _step(self, call: Callable[[float], Any], failed: str = "it is not known whether all was put back") -> None:
        """Goes through a step of the transaction, again where the error is retriable; Ctrl-C interrupts in between."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                call(_STEP_S)
                return
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable() or time.monotonic() >= deadline:
                    raise self._ended(reason, failed) from error

    def _ended(self, reason: KafkaError, failed: str) -> DeadLettersError:
        reason = ended_by(self._producer.poll, reason) or reason
        if reason.code() in _REPLACED:
            return DeadLettersError(
                f"another replay of {self._topology} has begun and put an end to this one, or this one stood still for "
                f"more than {TRANSACTION_S:g} s ({reason.str()}): wait for the other, and repeat the command"
            )
        if reason.code() in _REFUSED:
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


def why_not(letter: DeadLetter, topology: str, partitions: Mapping[str, int], allowed: Collection[str] = ()) -> str:
    """Why a dead letter cannot be put back, and what to do; empty if it can."""
    topic = letter.topic
    if not topic or letter.partition < 0:
        return "its headers lack the original topic and partition, so it cannot be replayed"
    if topic == acks_topic(topology):
        return (
            "it lay in the ack log or tells of it, and the trees of an old ack batch have ended: the spouts have "
            "replayed them"
        )
    if topic.startswith(notices_topic(topology, "")):
        return "it is a notice, and the trees that it tells of have ended: the spouts have given up on them"
    if letter.value is None:
        return f"its value was not kept, or it had none: see {letter.place}"
    if not topic.startswith(tuples_topic(topology, "")):
        if topic.startswith((f"{topology}.", _INTERNAL_PREFIX)) or topic == TOPOLOGIES_TOPIC:
            return f"it says that it lay in {topic}, where only components of the topology write"
        # Any writer of dead letters can set the header, so a topic outside is written only if the user names it.
        if topic not in allowed:
            return f"it lay outside of the topology: name the topic to write there, --topic {topic}"
    if topic not in partitions:
        return f"topic {topic} does not exist any more"
    if letter.partition >= partitions[topic]:
        return f"topic {topic} has only {partitions[topic]} partitions: it lay in {letter.partition}"
    return ""


def restored_headers(letter: DeadLetter, topology: str, *, keep_anchors: bool = False) -> list[Header]:
    """The headers that a record gets when it is put back: its own, for a tuple without its anchors.

    The trees of its anchors have ended, or were replayed under new roots, so no acker waits for its ack. Were one still
    open that the dead letter was acked for, a second ack would cancel the first, and the tree would time out.
    """
    if keep_anchors or not letter.topic.startswith(tuples_topic(topology, "")):
        return list(letter.headers)
    return [header for header in letter.headers if header[0] not in (ANCHORS_HEADER, ANCHOR_COUNTS_HEADER)]
