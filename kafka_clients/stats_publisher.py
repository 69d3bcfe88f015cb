"""Saying once a second in `{topology}.stats` what a process has done, at next to no cost and with no consequences.

Nothing here waits, but for the last record a second at most, and whether a broker takes them is of no matter to the
process. No client is known here: who publishes brings its own.
"""

import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol

from kafka_clients.access import remedy
from kafka_clients.client_settings import for_any
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import Kind, StatsRecord

PUBLISH_SECONDS: Final = 1.0
"""Between two records of a process."""
LAST_SECONDS: Final = 1.0
"""How long the last record of a process may take to be sent."""
_ASK_SECONDS: Final = 10.0
_TOPIC_AUTHORIZATION_FAILED: Final = 29
"""Kafka's code."""

_log = logging.getLogger(__name__)

_PRODUCER: Final[dict[str, str | int | float | bool]] = {
    # The next record says it all again: nothing is worth being sent twice, or being kept for long.
    "acks": 1,
    "enable.idempotence": False,
    "message.timeout.ms": 5_000,
    "linger.ms": 0,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 1_000,
    # What is wrong with the brokers is said by those who need them.
    "log_level": 0,
}


class Producer(Protocol):
    """What a confluent-kafka producer is here."""

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        """Hands a record over; raises BufferError if there are too many already."""

    def poll(self, timeout: float) -> int:
        """Calls back for what was delivered."""

    def flush(self, timeout: float) -> int:
        """Waits until all is delivered."""


def producer_settings(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a producer for stats.

    Args:
        kafka: librdkafka properties; those of how to reach the brokers are used.
    """
    return {**for_any(kafka), **_PRODUCER}


class StatsPublisher:
    """Publishes what one process says of itself; not for several threads.

    Nothing is sent before a broker has said that the topic is there, because a producer would make it on many clusters.

    Args:
        topology: whose process it is.
        kind: what it is.
        name: of its component; `acker` for an acker worker.
        producer: sends the records; it may be shared.
        ask: asks a broker about the topic, without waiting for the answer.
        identity: reads the answer: None if there is no such topic, "" if nothing is known.
        refusal: what the producer raises that cannot send a record.
        now: seconds, of a clock that only rises.
    """

    def __init__(
        self,
        topology: str,
        kind: Kind,
        name: str,
        producer: Producer,
        ask: Callable[[str], Mapping[str, Future[Any]]],
        identity: Callable[[Future[Any]], str | None],
        refusal: type[Exception],
        now: float,
    ) -> None:
        self._topic = stats_topic(topology)
        self._role = name
        self._who = StatsRecord(kind, name, socket.gethostname(), os.getpid(), secrets.token_hex(8), 0)
        self._producer = producer
        self._ask = ask
        self._identity = identity
        self._refusal = refusal
        self._began = self._next = self._ask_at = now
        self._asked: Future[Any] | None = None
        self._is_there = False
        self._said = False

    def look(self, now: float, stats: Callable[[], Mapping[str, Any]]) -> None:
        """Publishes if it is time to.

        Args:
            now: seconds, of the same clock.
            stats: returns the counts of the process, as an object for JSON.
        """
        if now < self._next:
            return
        # After a pause there is one record to send, not one for each second of it.
        self._next = now + PUBLISH_SECONDS
        if self._is_there or self._found(now):
            self._send(now, stats(), ended=False)
        self._producer.poll(0)

    def end(self, now: float, stats: Mapping[str, Any]) -> None:
        """Publishes the last record, and waits a second at most until it is sent."""
        if self._is_there or self._found(now):
            self._send(now, stats, ended=True)
            self._producer.flush(LAST_SECONDS)

    def _found(self, now: float) -> bool:
        """Whether the topic is there, as far as a broker has said so."""
        if self._asked is None:
            if now >= self._ask_at:
                self._ask_at = now + _ASK_SECONDS
                self._asked = self._ask(self._topic)[self._topic]
        elif self._asked.done():
            identity, self._asked = self._identity(self._asked), None
            self._is_there = bool(identity)
            if identity is None:
                self._say("does not exist: create it with acker topics create MODULE:TOPOLOGY")
            elif not identity:
                self._say(
                    f"is not described: no broker answers, or this user lacks Describe; then {remedy(self._role)}"
                )
        return self._is_there

    def _send(self, now: float, stats: Mapping[str, Any], *, ended: bool) -> None:
        who = self._who
        record = StatsRecord(
            who.kind, who.name, who.host, who.pid, who.run, int((now - self._began) * 1000), ended, stats
        )
        try:
            self._producer.produce(self._topic, record.to_json(), record.key, on_delivery=self._on_delivery)
        except BufferError:
            return
        except self._refusal as error:
            self._say(f"cannot be written ({error})")

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is not None:
            is_refused = error.code() == _TOPIC_AUTHORIZATION_FAILED
            what_to_do = remedy(self._role) if is_refused else "it is tried again every second"
            self._say(f"cannot be written ({error.str()}): {what_to_do}")

    def _say(self, what: str) -> None:
        if not self._said:
            self._said = True
            _log.warning("acker top and the dashboard will not show this process: topic %s %s", self._topic, what)
