"""Replays dead letters: writes them to their original topics, each once; see ADR 15.

A letter's record and the note of its replay, in the topic of the dead letters, are written in one transaction. All
replays of a topology have the same transactional id, so a new one fences an earlier one: what that had not committed is
aborted, and what it had committed is noted. Only then are the notes read, to their end.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from inspection.dead_letters import DeadLetter
from inspection.errors import DeadLettersError
from kafka_clients.catalogue import CONTACT_SECONDS, KafkaSettings
from kafka_clients.client_settings import for_transactions
from kafka_clients.errors import REFUSED
from kafka_clients.log_reader import LogReader
from kafka_clients.producer import FENCED, PURGED, ended_by
from kafka_clients.repeated_lines import client_logger
from tuple_tree.anchors import OF_TUPLES
from tuple_tree.headers import replay_marker
from tuple_tree.names import (
    CHAIN_OF,
    TOPOLOGIES_TOPIC,
    acks_topic,
    dead_letters_topic,
    notices_topic,
    transactional_id,
    tuples_topic,
)

# Errors are raised; librdkafka's own log lines need a logging configuration.
_CLIENT_LOG: Final = client_logger("inspection")
_CLIENT_LOG.addHandler(logging.NullHandler())

TRANSACTION_SECONDS: Final = 10.0
"""How long a transaction may be open. That of a killed replay blocks the bolt's readers until then, unless another
replay aborts it."""
_BATCH: Final = 100  # letters of one transaction at most
_BATCH_BYTES: Final = 4_000_000
_PATIENCE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_STEP_SECONDS: Final = 1.0
_UNDONE: Final = "the last letters were not replayed"


def replay_id(topology: str) -> str:
    """The transactional id of all replays of a topology; no component can have the name `acker`."""
    return transactional_id(topology, "acker", "dead-letters")


Replayed = tuple[DeadLetter, int]  # and the offset that its record has now, in its original topic and partition


class Replayer:
    """Replays letters; fences another one of the same topology that still runs.

    `noted` is the end of the dead letters when it began: earlier replays have their notes before this offset.
    """

    def __init__(self, kafka: KafkaSettings, topology: str) -> None:
        self._topology = topology
        self._topic = dead_letters_topic(topology)
        settings: dict[str, Any] = {
            "linger.ms": 0,
            "logger": _CLIENT_LOG,
            "message.max.bytes": 100_000_000,
            **for_transactions(kafka),
            # A broker refuses a batch as a whole.
            "batch.num.messages": 1,
            "acks": "all",
            "enable.idempotence": True,
            "transactional.id": replay_id(topology),
            "transaction.timeout.ms": round(TRANSACTION_SECONDS * 1_000),
            "message.timeout.ms": round(TRANSACTION_SECONDS * 1_000),
        }
        self._producer = Producer(settings)
        # Of the open transaction: offset of a letter → offset of its record; and the letters that were refused.
        self._positions: dict[int, int] = {}
        self._failures: list[tuple[DeadLetter, KafkaError]] = []
        self._step(self._producer.init_transactions, "no replay could be begun")
        with LogReader(kafka, isolation="read_uncommitted") as reader:
            place = (self._topic, 0)
            self.noted = reader.offset_ranges([place])[place].stop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # So that no reader has to wait for it. There may be none, or it may be fenced.
        with suppress(KafkaException):
            self._producer.abort_transaction(CONTACT_SECONDS)

    def replay(self, letters: Iterable[DeadLetter]) -> Iterator[Replayed]:
        """Replays letters, a transaction at a time; what is returned is committed."""
        todo = iter(letters)
        while batch := list(_batch(todo)):
            yield from self._replay(batch)

    def _replay(self, batch: list[DeadLetter]) -> list[Replayed]:
        self._positions.clear()
        self._failures.clear()
        refused: KafkaException | None = None
        try:
            self._producer.begin_transaction()
            try:
                for letter in batch:
                    self._send(letter)
            except KafkaException as error:
                cause = ended_by(self._producer.poll, error.args[0])
                if cause is not None:
                    raise self._ended(cause, _UNDONE) from error
                # Once a record is refused, nothing more can be sent; the delivery reports have the record.
                refused = error
            self._deliver()
        except KafkaException as error:
            raise self._ended(error.args[0], _UNDONE) from error
        self._check(batch)
        if refused is not None:
            raise self._ended(refused.args[0], _UNDONE) from refused
        self._commit()
        return [(letter, self._positions[letter.offset]) for letter in batch]

    def _deliver(self) -> None:
        # Not by `flush`: after a fatal error, which the client raises, that continues to call for reports, and Python
        # ends this with a `SystemError`. Reports do not take longer than a transaction may.
        deadline = time.monotonic() + 2 * TRANSACTION_SECONDS
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(_POLL_SECONDS)

    def _check(self, batch: list[DeadLetter]) -> None:
        for _letter, reason in self._failures:
            if reason.fatal() or reason.code() in FENCED:
                raise self._ended(reason, _UNDONE)
        if not self._failures:
            return
        self._step(self._producer.abort_transaction)
        # If one is refused, the others of the transaction are purged.
        failures = [each for each in self._failures if each[1].code() not in PURGED] or self._failures
        letter, reason = failures[0]
        raise DeadLettersError(
            f"dead letter {letter.offset} was refused by {letter.topic} ({reason.str()}), so {batch[0].offset} to "
            f"{batch[-1].offset} were not replayed. Leave that one out, or fix its topic, and repeat the command"
        )

    def _send(self, letter: DeadLetter) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self._positions[letter.offset] = message.offset()
            else:
                self._failures.append((letter, error))

        # Without the anchors of a tuple: their trees have ended, or were replayed under new roots. If the dead letter
        # was acked and a tree is still open, a second ack would cancel the first, and the tree would time out.
        is_tuple = letter.topic.startswith(tuples_topic(self._topology, ""))
        # And without the identities: their message may be done, and a state would leave the tuple out.
        left_out = OF_TUPLES if is_tuple else ()
        headers: list[Any] = [header for header in letter.headers if header[0] not in left_out]
        try:
            self._producer.produce(
                *(letter.topic, letter.value, letter.key, letter.partition, delivered), headers=headers
            )
        except KafkaException as error:
            # Metadata may show already that this record is refused; a transaction that has failed takes none.
            if error.args[0].code() != KafkaError._STATE:
                self._failures.append((letter, error.args[0]))
            raise
        self._producer.produce(self._topic, partition=0, headers=list(replay_marker(letter.offset)))

    def _commit(self) -> None:
        self._step(self._producer.commit_transaction)

    def _step(self, call: Callable[[float], Any], failed: str = "it is not known whether all were replayed") -> None:
        """Retries where the error is retriable; Ctrl-C interrupts in between."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                call(_STEP_SECONDS)
                return
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable() or time.monotonic() >= deadline:
                    raise self._ended(reason, failed) from error

    def _ended(self, reason: KafkaError, failed: str) -> DeadLettersError:
        reason = ended_by(self._producer.poll, reason) or reason
        if reason.code() in FENCED:
            return DeadLettersError(
                f"another replay of {self._topology} has begun and fenced this one, or this one was stopped for more "
                f"than {TRANSACTION_SECONDS:g} s ({reason.str()}): wait for the other, and repeat the command"
            )
        if reason.code() in (*REFUSED, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
            return DeadLettersError(
                f"this user may not replay ({reason.str()}): allow Write for the transactional id "
                f"{replay_id(self._topology)}, for {self._topic}, and for the original topics of the letters"
            )
        return DeadLettersError(f"{failed} ({reason.str()}): repeat the command, which replays the others")


def _batch(letters: Iterator[DeadLetter]) -> Iterator[DeadLetter]:
    size = 0
    for letter in islice(letters, _BATCH):
        size += len(letter.value or b"")
        yield letter
        if size >= _BATCH_BYTES:
            return


def why_not(letter: DeadLetter, topology: str, partitions: Mapping[str, int], allowed: Collection[str] = ()) -> str:
    """Why a dead letter cannot be replayed, and what to do; empty if it can."""
    topic = letter.topic
    if not topic or letter.partition < 0:
        return "its headers lack the original topic and partition, so it cannot be replayed"
    if topic.startswith(CHAIN_OF):
        head = topic.removeprefix(CHAIN_OF)
        return (
            f"bolt {letter.component} is chained to {head}, and has no inbox to which the dead letter could be "
            "written: send the message to the source topic again"
        )
    if topic == acks_topic(topology):
        return "it is of the ack log, and the trees of an old ack batch have ended: the spouts have replayed them"
    if topic.startswith(notices_topic(topology, "")):
        return "it is a notice, and its trees have ended: the spouts have failed them as lost"
    if letter.value is None:
        return f"its value was not kept, or it had none: see {letter.place}"
    if not topic.startswith(tuples_topic(topology, "")):
        if topic.startswith((f"{topology}.", "__")) or topic == TOPOLOGIES_TOPIC:
            return f"its headers name {topic}, where only components of the topology write"
        # Any writer of dead letters can set the header, so a topic outside is written only if the user names it.
        if topic not in allowed:
            return f"it is from outside of the topology: name the topic to write there, --topic {topic}"
    if topic not in partitions:
        return f"topic {topic} does not exist any more"
    if letter.partition >= partitions[topic]:
        return f"topic {topic} has only {partitions[topic]} partitions: it is from {letter.partition}"
    return ""
