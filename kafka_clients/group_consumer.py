"""A consumer in a consumer group: exceptions of its callbacks, commits, the state of its brokers, and its end."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.client_settings import INSTANCE, new_client
from kafka_clients.librdkafka_bugs import HANG_S, BrokerMonitor, bounded
from kafka_clients.repeated_lines import get_logger

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
_LEAVE_S: Final = 3.0
Rebalance = Callable[[list[TopicPartition]], None]
"""Called with the partitions that are assigned or revoked, while the consumer is polled or closed."""


class GroupConsumer:
    """Base of consumers in a group; `name` is what it reads, for logs, `instance` the name of our static member."""

    _KEPT: ClassVar[tuple[type[Exception], ...]] = (KafkaException,)  # exceptions of callbacks that are raised later
    _RECOVERABLE: ClassVar[tuple[type[Exception], ...]] = ()  # of these, the ones that do not end the process

    def __init__(self, settings: Mapping[str, Any], name: str, instance: str | None = None) -> None:
        self._name = name
        self._logger = get_logger(type(self).__module__)
        # Offset and metadata of the last commit of each partition, unless one has failed since.
        self._last_commits: dict[tuple[str, int], tuple[int, str | None]] = {}
        self._raised: Exception | None = None
        self._monitor = BrokerMonitor()
        # A dynamic member leaves when it is closed; a user who has set another instance wants its place to be kept.
        self._leaves = instance is not None and settings[INSTANCE] == instance
        self._consumer = new_client(Consumer, {**settings, **self._monitor.settings, "on_commit": self._answered})

    @property
    def lost(self) -> bool:
        """Whether it has lost all brokers for good, see `kafka_clients.librdkafka_bugs`."""
        return self._monitor.lost

    def leave(self) -> None:
        """Leaves the group at once if it is our static member, whose place `close` keeps until its session ends.

        Partitions that are still held are reported as revoked. Waits a few seconds at most: if no broker answers, the
        place is kept. To be closed next.
        """
        if not self._leaves:
            return
        deadline = time.monotonic() + _LEAVE_S
        with suppress(KafkaException), bounded(HANG_S, f"unsubscribe() of the consumer of {self._name}"):
            self._consumer.unsubscribe()
            # The client forgets its member id with the request to leave, which follows after the callbacks.
            while self._consumer.memberid() and time.monotonic() < deadline:
                self._consumer.poll(_PAUSE_S)

    def close(self) -> None:
        """Ends the consumer; a dynamic member leaves the group. Partitions still held are reported as revoked."""
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
                # Several callbacks may be called before the loop can see it: an error that ends the process wins.
                if self._raised is None or isinstance(self._raised, self._RECOVERABLE):
                    self._raised = error

        return guarded

    def _raise_kept(self) -> None:
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised

    def serve(self) -> None:
        """Handles the answers to commits, for a consumer that reads nothing."""
        self._consumer.poll(0)

    def commit_changed(self, offsets: Iterable[TopicPartition], *, again: bool = False) -> None:
        """Commits in the background what differs from the last commit, or all `again`; the next has what has failed."""
        changed = [each for each in offsets if again or self._last_commits.get(_place(each)) != _commit(each)]
        if changed:
            self._last_commits.update((_place(each), _commit(each)) for each in changed)
            self.begin_commit(changed)

    def begin_commit(self, offsets: list[TopicPartition]) -> None:
        """Commits in the background; `on_commit` has the answer."""
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._answered(error.args[0], offsets)

    def commit_and_wait(self, offsets: list[TopicPartition], seconds: float) -> bool:
        """Commits, and returns whether it is known that all are committed; a failure is logged.

        While other processes join or leave, a commit may carry the group's last generation instead of its new one. The
        partitions are still ours then, since a cooperative group moves none that was not revoked: once the client has
        the new generation, the same commit is accepted.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                with bounded(HANG_S, f"commit() for {self._name}"):
                    error = first_error(self._consumer.commit(offsets=offsets, asynchronous=False) or ())
            except KafkaException as raised:
                error = raised.args[0]
            if error is None or error.code() not in _PASSING or time.monotonic() >= deadline:
                self._answered(error, ())
                if error is None:
                    self._last_commits.update((_place(each), _commit(each)) for each in offsets)
                return error is None
            time.sleep(_PAUSE_S)

    def _answered(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        failure = error or first_error(partitions)
        if failure is not None and failure.code() != KafkaError._NO_OFFSET:
            level = logging.INFO if failure.code() in REGROUPING else logging.WARNING
            self._logger.log(level, "offsets of %s were not committed yet: %s", self._name, failure.str())
            self._last_commits.clear()


def _place(each: TopicPartition) -> tuple[str, int]:
    return each.topic, each.partition


def _commit(each: TopicPartition) -> tuple[int, str | None]:
    return each.offset, each.metadata


def first_error(partitions: Iterable[TopicPartition]) -> KafkaError | None:
    return next((each.error for each in partitions if each.error is not None), None)
