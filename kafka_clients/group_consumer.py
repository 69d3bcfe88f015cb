"""A consumer in a consumer group: exceptions of its callbacks, commits, the state of its brokers, and its end."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.client_settings import new_client
from kafka_clients.librdkafka_bugs import HANG_S, BrokerMonitor, bounded

FENCED: Final = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL})
"""Errors of a consumer that cannot continue, though another one in its place can."""
FINAL: Final = FENCED | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
}
"""Errors that waiting does not cure. Whether a topic that is gone is one of them depends on who reads it."""

_REBALANCE: Final = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS})
REGROUPING: Final = _REBALANCE | {KafkaError.UNKNOWN_MEMBER_ID, KafkaError._ASSIGNMENT_LOST}
"""Errors of commits while members join or leave; the partition may have another owner, which continues from that."""
_PASSING: Final = _REBALANCE | {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}
_PAUSE_S: Final = 0.05
Rebalance = Callable[[list[TopicPartition]], None]
"""Called with the partitions that are assigned or revoked, while the consumer is polled or closed."""


class GroupConsumer:
    """Base of consumers in a group; `name` is what it reads, for logs.

    `on_uncommitted` is called when a commit in the background has failed, so that the next includes what it covered.
    """

    _KEPT: ClassVar[tuple[type[Exception], ...]] = (KafkaException,)  # exceptions of callbacks that are raised later

    def __init__(
        self, settings: Mapping[str, Any], name: str, on_uncommitted: Callable[[], None] = lambda: None
    ) -> None:
        self._name = name
        self._logger = logging.getLogger(type(self).__module__)
        self._on_uncommitted = on_uncommitted
        self._raised: Exception | None = None
        self._monitor = BrokerMonitor()
        self._consumer = new_client(Consumer, {**settings, **self._monitor.settings, "on_commit": self._answered})

    @property
    def lost(self) -> bool:
        """Whether it has lost all brokers for good, see `kafka_clients.librdkafka_bugs`."""
        return self._monitor.lost

    def close(self) -> None:
        """Leaves the group; partitions that are still held are reported as revoked."""
        with bounded(HANG_S, f"close() of the consumer of {self._name}"):
            self._consumer.close()
        if self._raised is not None:
            self._logger.warning("while leaving %s: %s", self._name, self._raised)

    def _subscribe(self, topic: str, on_assign: Rebalance, on_revoke: Rebalance, on_lost: Rebalance) -> None:
        self._consumer.subscribe(
            [topic],
            on_assign=self._guarded(on_assign),
            on_revoke=self._guarded(on_revoke),
            on_lost=self._guarded(on_lost),
        )

    def _guarded(self, callback: Rebalance) -> Callable[[Consumer, list[TopicPartition]], None]:
        """Keeps an exception for the loop: one that crosses librdkafka's callbacks loses its type and its place."""

        def guarded(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            try:
                callback(partitions)
            except self._KEPT as error:
                self._raised = error

        return guarded

    def _raise_kept(self) -> None:
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised

    def _begin_commit(self, client: Consumer, offsets: list[TopicPartition]) -> None:
        """Commits through a client in the background; its `on_commit` has the answer."""
        try:
            client.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._answered(error.args[0], offsets)

    def _commit_and_wait(self, client: Consumer, offsets: list[TopicPartition], seconds: float) -> bool:
        """Commits through a client, and returns whether it is known that all are committed; a failure is logged.

        While other processes join or leave, a commit may carry the group's last generation instead of its new one. The
        partitions are still ours then, since a cooperative group moves none that was not revoked: once the client has
        the new generation, the same commit is accepted.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                with bounded(HANG_S, f"commit() for {self._name}"):
                    error = first_error(client.commit(offsets=offsets, asynchronous=False) or ())
            except KafkaException as raised:
                error = raised.args[0]
            if error is None or error.code() not in _PASSING or time.monotonic() >= deadline:
                self._answered(error, ())
                return error is None
            time.sleep(_PAUSE_S)

    def _answered(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        failure = error or first_error(partitions)
        if failure is not None and failure.code() != KafkaError._NO_OFFSET:
            level = logging.INFO if failure.code() in REGROUPING else logging.WARNING
            self._logger.log(level, "offsets of %s were not committed yet: %s", self._name, failure.str())
            self._on_uncommitted()


def first_error(partitions: Iterable[TopicPartition]) -> KafkaError | None:
    return next((each.error for each in partitions if each.error is not None), None)
