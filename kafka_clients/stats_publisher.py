"""Sends the statistics of a process to `{topology}.stats` once a second.

Nothing here waits, but for the last record a second at most, and the process continues if no broker takes them.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, TopicDescription

from kafka_clients.access import remedy
from kafka_clients.client_settings import for_any
from kafka_clients.repeated_lines import get_logger
from kafka_clients.topic_watch import describe_topics, topic_id_of
from tuple_tree.names import stats_topic
from tuple_tree.process_stats import LARGEST_ERROR, Kind, StatsRecord

PUBLISH_SECONDS: Final = 1.0  # between two records of a process
LAST_SECONDS: Final = 1.0  # how long the last record of a process may take to be sent
_ASK_SECONDS: Final = 10.0
logger = get_logger(__name__)

_PRODUCER: Final[dict[str, str | int | float | bool]] = {
    # The next record holds all counts again: none is worth being sent twice, or being kept for long.
    "acks": 1,
    "enable.idempotence": False,
    "message.timeout.ms": 5_000,
    "linger.ms": 0,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 1_000,
    # Errors of brokers are logged by the clients that need them.
    "log_level": 0,
}


def producer_settings(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a producer for stats: of the librdkafka properties given, only how to reach the brokers."""
    return {**for_any(kafka), **_PRODUCER}


class StatsPublisher:
    """Publishes the statistics of one process; not thread-safe.

    Nothing is sent before a broker has described the topic, because on many clusters a producer would create it. `name`
    is that of a component, or `acker`; the producer is made with `producer_settings`, and may be shared.
    """

    def __init__(
        self,
        topology: str,
        kind: Kind,
        name: str,
        producer: Producer,
        admin: AdminClient,
        now: float,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._wall_ms = wall_ms
        self._topic = stats_topic(topology)
        self._role = name
        self._process = StatsRecord(kind, name, socket.gethostname(), os.getpid(), secrets.token_hex(8), 0)
        self._producer = producer
        self._admin = admin
        self._began = self._next = self._ask_at = now
        self._asked: Future[TopicDescription] | None = None
        self._exists = False
        self._has_warned = False

    def look(self, now: float, stats: Callable[[], Mapping[str, Any]]) -> None:
        """Publishes the counts that `stats` returns, an object for JSON, if it is time to."""
        if now < self._next:
            return
        # After a pause there is one record to send, not one for each second of it.
        self._next = now + PUBLISH_SECONDS
        if self._exists or self._check_topic(now):
            self._send(now, stats(), ended=False)
        self._producer.poll(0)

    def end(self, now: float, stats: Mapping[str, Any], why: str = "") -> None:
        """Publishes the last record, with the error that ends the process if there is one.

        Waits a second at most for the topic's description, and for the delivery.
        """
        if not (self._exists or self._check_topic(now)) and self._asked is not None:
            wait([self._asked], LAST_SECONDS)
        if self._exists or self._check_topic(now):
            self._send(now, stats, ended=True, why=why)
            self._producer.flush(LAST_SECONDS)

    def _check_topic(self, now: float) -> bool:
        if self._asked is None:
            if now >= self._ask_at:
                self._ask_at = now + _ASK_SECONDS
                self._asked = describe_topics(self._admin, [self._topic])[self._topic]
        elif self._asked.done():
            topic_id, self._asked = topic_id_of(self._asked), None
            self._exists = bool(topic_id)
            if topic_id is None:
                self._warn("does not exist: create it with acker topics create MODULE:TOPOLOGY")
            elif not topic_id:
                self._warn(
                    f"is not described: no broker answers, or this user lacks Describe; then {remedy(self._role)}"
                )
        return self._exists

    def _send(self, now: float, stats: Mapping[str, Any], *, ended: bool, why: str = "") -> None:
        record = replace(
            self._process,
            uptime_ms=int((now - self._began) * 1000),
            sent_ms=self._wall_ms(),
            ended=ended,
            ended_by=why[:LARGEST_ERROR],
            stats=stats,
        )
        try:
            self._producer.produce(self._topic, record.to_json(), record.key, on_delivery=self._on_delivery)
        except BufferError:
            return
        except KafkaException as error:
            self._warn(f"cannot be written ({error})")

    def _on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            is_refused = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            what_to_do = remedy(self._role) if is_refused else "it is tried again every second"
            self._warn(f"cannot be written ({error.str()}): {what_to_do}")

    def _warn(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning("acker top and the dashboard will not show this process: topic %s %s", self._topic, problem)
