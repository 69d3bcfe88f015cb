"""A consumer in a consumer group: exceptions of its callbacks, commits, the state of its brokers, and its end."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_clients.client_settings import INSTANCE, new_client
from kafka_clients.errors import GONE, REFUSED, BrokerError, access_refused
from kafka_clients.librdkafka_bugs import HANG_SECONDS, LOST, STATISTICS_MS, BrokerMonitor, bounded
from kafka_clients.repeated_lines import get_logger
from tuple_tree.commit_metadata import LARGEST_METADATA

logger = get_logger(__name__)

FINAL: Final = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL, KafkaError._AUTHENTICATION, *REFUSED})
"""Errors that waiting does not cure, beside those of a topic that is gone."""

_REBALANCE: Final = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS})
REGROUPING: Final = _REBALANCE | {KafkaError.UNKNOWN_MEMBER_ID, KafkaError._ASSIGNMENT_LOST}
"""Errors of commits while members join or leave; the partition may have another owner, which continues from that."""
_PASSING: Final = _REBALANCE | {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}
_PAUSE_SECONDS: Final = 0.05
_LEAVE_SECONDS: Final = 3.0
_WAKE_SECONDS: Final = 1.0
Rebalance = Callable[[list[TopicPartition]], None]
"""Called with the partitions that are assigned or revoked, while the consumer is polled or closed."""


class GroupConsumer:
    """A consumer with its errors, its commits and the state of its brokers; for one thread.

    It is a member of its group once it subscribes. What a callback of the group raises is raised by the next `read`: an
    exception that crosses librdkafka's callbacks loses its type and its place.

    Args:
        name: the topic that it reads, or a description, for logs and errors.
        instance: name of our static member of the group.
        is_new_instance: whether no process had that name before.
        role: the role whose ACLs an error names.
        on_error: called with what came in place of a record; returns whether it was handled.
        on_commit: called with the answer to a commit in the background.
        recoverable: exceptions of callbacks that do not end the process; another one replaces them.
        statistics_ms: milliseconds after which it is known anew how many records are unread.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        name: str,
        instance: str | None = None,
        *,
        is_new_instance: bool = False,
        role: str | None = None,
        on_error: Callable[[Message, KafkaError], bool] = lambda _message, _error: False,
        on_commit: Callable[[KafkaError | None, Sequence[TopicPartition]], None] = lambda _error, _partitions: None,
        recoverable: tuple[type[Exception], ...] = (),
        statistics_ms: int = STATISTICS_MS,
    ) -> None:
        self._name = name
        self._group = str(settings.get("group.id"))
        self._role = role
        self._on_error = on_error
        self._on_commit = on_commit
        self._recoverable = recoverable
        # Offset and metadata of the last commit of each partition, unless one has failed since.
        self._last_commits: dict[tuple[str, int], tuple[int, str | None]] = {}
        self._raised: Exception | None = None
        self._monitor = BrokerMonitor(statistics_ms)
        # A dynamic member leaves when it is closed; a user who has set another instance wants its place to be kept.
        self._joins_twice = INSTANCE in settings and not (is_new_instance and settings[INSTANCE] == instance)
        self._leaves = instance is not None and settings[INSTANCE] == instance
        self._ignores_rebalances = False  # whether it leaves before its first join is answered: it holds no partition
        self.client = new_client(Consumer, {**settings, **self._monitor.settings, "on_commit": self._answered})

    metadata_room = LARGEST_METADATA
    """How many bytes the metadata of a commit may have: half of what the broker has refused."""

    @property
    def lost(self) -> bool:
        """Whether it has lost all brokers for good, see `kafka_clients.librdkafka_bugs`."""
        return self._monitor.lost

    @property
    def unread(self) -> int:
        """Records that wait to be read, as far as was known when the client last reported."""
        return sum(self._monitor.unread.values())

    def subscribe(self, topic: str, on_assign: Rebalance, on_revoke: Rebalance, on_lost: Rebalance) -> None:
        """Joins the group; the callbacks are called while the consumer is read or closed.

        A static member joins twice if it may have a predecessor. In a cooperative rebalance, a member revokes
        partitions and then joins again. If it fails between the two, the broker gives its assignment to the successor
        without a rebalance, and the revoked partitions have no owner until the next rebalance.
        """
        joins_again = self._joins_twice

        def assign(partitions: list[TopicPartition]) -> None:
            nonlocal joins_again
            if joins_again:
                joins_again = False
                # During a rebalance, subscribe() makes librdkafka join again when the rebalance ends.
                self.client.subscribe([topic], **callbacks)
            on_assign(partitions)
            self._wake_fetchers()

        given = {"on_assign": assign, "on_revoke": on_revoke, "on_lost": on_lost}
        callbacks = {name: self._guarded(each) for name, each in given.items()}
        self.client.subscribe([topic], **callbacks)

    def _wake_fetchers(self) -> None:
        """Has a successor read its partitions at once.

        librdkafka pauses them during its second rebalance, and looks for partitions that it may fetch again only once a
        second, or when it has something else to ask their leader.
        """
        if not self._joins_twice:
            return
        with suppress(KafkaException), bounded(HANG_SECONDS, f"offsets_for_times() of {self._name}"):
            held = [TopicPartition(each.topic, each.partition, OFFSET_END) for each in self.client.assignment()]
            if held:
                self.client.offsets_for_times(held, timeout=_WAKE_SECONDS)

    def read(self, limit: int, seconds: float = 0.0) -> list[Message]:
        """The records that are available now, `limit` at most; waits `seconds` for the first.

        Raises what a callback raised, and a `BrokerError` for an error that waiting does not cure; others are logged.
        """
        try:
            # Not consume(), which would wait out its time even when there is a record.
            first = self.client.poll(seconds) if seconds else None
            messages = [] if first is None else [first]
            if not seconds or (messages and limit > 1):
                messages += self.client.consume(limit - len(messages), 0)
        except KafkaException as error:
            raise self.failure(error.args[0]) from error
        if (raised := self._raised) is not None:
            self._raised = None
            if isinstance(raised, KafkaException):
                raise self.failure(raised.args[0]) from raised
            raise raised
        if self.lost:
            raise BrokerError(f"reading {self._name} cannot continue: {LOST}")
        for message in messages:
            if message.error() is not None:
                return [message for message in messages if self._is_record(message)]
        return messages

    def failure(self, error: KafkaError, topic: str | None = None) -> BrokerError:
        topic = topic or self._name
        return access_refused(error, topic, self._group, self._role) or BrokerError(
            f"reading {topic} cannot continue: {error.str()}; check that it exists, and the brokers. A "
            "restart continues from what is committed"
        )

    def raise_later(self, error: Exception) -> None:
        """Keeps an exception of a callback for the next `read`."""
        # Several callbacks may be called before: an error that ends the process wins.
        if self._raised is None or isinstance(self._raised, self._recoverable):
            self._raised = error

    def leave(self) -> None:
        """Leaves the group at once if it is our static member, whose place `close` keeps until its session ends.

        Partitions that are still held are reported as revoked. Waits a few seconds at most: if no broker answers, the
        place is kept. To be closed next.
        """
        if not self._leaves:
            return
        deadline = time.monotonic() + _LEAVE_SECONDS
        with suppress(KafkaException), bounded(HANG_SECONDS, f"unsubscribe() of the consumer of {self._name}"):
            # The client has no member id until its join is answered. It would not send a request to leave, and the
            # broker would make it a member, for as long as a session lasts.
            self._ignores_rebalances = not self.client.memberid()
            while not self.client.memberid() and time.monotonic() < deadline:
                self.client.poll(_PAUSE_SECONDS)
            self.client.unsubscribe()
            # The client forgets its member id with the request to leave, which follows after the callbacks.
            while self.client.memberid() and time.monotonic() < deadline:
                self.client.poll(_PAUSE_SECONDS)

    def close(self, seconds: float = HANG_SECONDS) -> None:
        """Ends the consumer; a dynamic member leaves the group. Partitions still held are reported as revoked.

        If that takes longer than `seconds`, the process ends.
        """
        with bounded(seconds, f"close() of the consumer of {self._name}"):
            self.client.close()
        if self._raised is not None:
            logger.warning("while leaving %s: %s", self._name, self._raised)

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if not self._on_error(message, error):
            topic = message.topic() or self._name
            if error.fatal() or error.code() in FINAL or error.code() in GONE:
                raise self.failure(error, topic)
            logger.warning("reading %s[%s]: %s", topic, message.partition(), error.str())
        return False

    def _guarded(self, callback: Rebalance) -> Callable[[Consumer, list[TopicPartition]], None]:
        def guarded(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if self._ignores_rebalances:
                return
            try:
                callback(partitions)
            except Exception as error:  # noqa: BLE001 - raised by `read`
                self.raise_later(error)

        return guarded

    def serve(self) -> None:
        """Handles the answers to commits, for a consumer that reads nothing."""
        self.client.poll(0)

    def commit_changed(self, offsets: Iterable[TopicPartition], *, again: bool = False) -> None:
        """Commits in the background what differs from the last commit, or all `again`; the next has what has failed."""
        changed = [each for each in offsets if again or self._last_commits.get(_place(each)) != _commit(each)]
        if changed:
            self._last_commits.update((_place(each), _commit(each)) for each in changed)
            self.begin_commit(changed)

    def begin_commit(self, offsets: list[TopicPartition]) -> None:
        """Commits in the background; `on_commit` has the answer."""
        try:
            self.client.commit(offsets=offsets, asynchronous=True)
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
                with bounded(HANG_SECONDS, f"commit() for {self._name}"):
                    error = first_error(self.client.commit(offsets=offsets, asynchronous=False) or ())
            except KafkaException as raised:
                error = raised.args[0]
            if error is None or error.code() not in _PASSING or time.monotonic() >= deadline:
                self._answered(error, (), offsets)
                if error is None:
                    self._last_commits.update((_place(each), _commit(each)) for each in offsets)
                return error is None
            time.sleep(_PAUSE_SECONDS)

    def forget_commits(self) -> None:
        """Lets `commit_changed` commit everything, as others may have committed."""
        self._last_commits.clear()

    def _answered(
        self,
        error: KafkaError | None,
        partitions: Sequence[TopicPartition],
        sent: Sequence[TopicPartition] | None = None,
    ) -> None:
        """Handles the answer to a commit: of `sent`, or of what was committed last in the background."""
        failure = error or first_error(partitions)
        self._on_commit(failure, partitions)
        if failure is not None and failure.code() != KafkaError._NO_OFFSET:
            level = logging.INFO if failure.code() in REGROUPING else logging.WARNING
            logger.log(level, "offsets of %s were not committed yet: %s", self._name, failure.str())
            if failure.code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
                texts = self._last_commits.values() if sent is None else map(_commit, sent)
                self.metadata_refused(len(metadata or "") for _, metadata in texts)
            self.forget_commits()

    def metadata_refused(self, sizes: Iterable[int]) -> None:
        """The broker takes less metadata: so the next commit has less of what is done past its offset.

        `sizes` are those of the metadata that were refused.
        """
        if not (size := max(sizes, default=0)):
            return  # of another commit, after whose answer the next are smaller already
        if self.metadata_room == LARGEST_METADATA:
            text = (
                "the broker refuses the metadata of commits for %s (OFFSET_METADATA_TOO_LARGE): they are made smaller, "
                "and more of what is done is done again after a restart; set offset.metadata.max.bytes of the brokers "
                "to %d"
            )
            logger.error(text, self._name, LARGEST_METADATA)
        self.metadata_room = min(self.metadata_room, size) // 2


def _place(each: TopicPartition) -> tuple[str, int]:
    return each.topic, each.partition


def _commit(each: TopicPartition) -> tuple[int, str | None]:
    return each.offset, each.metadata


def first_error(partitions: Iterable[TopicPartition]) -> KafkaError | None:
    return next((each.error for each in partitions if each.error is not None), None)
