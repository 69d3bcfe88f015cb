"""The ack log of a topology as a worker reads it: a member of the consumer group, and the meaning of Kafka's errors."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from acker_worker.errors import AckerWorkerError
from acker_worker.progress import Progress
from kafka_clients.access import ACKER, remedy
from kafka_clients.bounded_calls import HANG_S, bounded
from kafka_clients.broker_monitor import BrokerMonitor
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.client_logs import client_logger
from kafka_clients.client_settings import for_consumer
from kafka_clients.contact import GONE
from kafka_clients.errors import AccessError, ClusterError, TopicError
from kafka_clients.watermarks import watermarks
from tuple_tree.names import acker_group, acks_topic

_log = logging.getLogger(__name__)

CONTACT_S: Final = 5.0  # how long a broker may take to answer, in seconds
ANSWER_S: Final = 30.0  # how long a commit may take while brokers answer, in seconds
_STUCK_CLOSE_S: Final = 1.0  # for a consumer that has lost a commit
_POLL_S: Final = 0.02
_POLL_RECORDS: Final = 500

_CONSUMER: Final[dict[str, str | int | float | bool]] = {
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 2_000,
    # A consumer that cannot be closed keeps its heartbeats: this is how long its group waits for it.
    "max.poll.interval.ms": 45_000,
    # A consumer whose queue is full would otherwise rest for a second before it fetches again.
    "fetch.queue.backoff.ms": 50,
}
# The worker depends on these, so no user's settings change them.
_FIXED: Final[dict[str, str | int | float | bool]] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky",
}
# Another member owns the partition now, and goes on from the last commit.
_FENCED: Final = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._ASSIGNMENT_LOST,
)
_HOPELESS: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
)

Reached = Mapping[int, Progress]  # partition of the ack log → up to where its notices are delivered
Rebalance = Callable[[list[TopicPartition]], None]
"""Called with the partitions that are assigned or revoked, within `AckLogReader.poll` and `AckLogReader.close`."""


class AckLogReader:
    """Two consumers: one in the group, and one that asks for the ends of partitions.

    Args:
        topology: whose log.
        kafka: librdkafka properties.
        on_committed: called with what was committed, within `poll` and `close`.
        clock: seconds, rising.
    """

    def __init__(
        self,
        topology: str,
        kafka: KafkaSettings,
        on_committed: Callable[[Reached], None],
        clock: Callable[[], float],
    ) -> None:
        self.topic = acks_topic(topology)
        self._group = acker_group(topology)
        group = {**_CONSUMER, **for_consumer(kafka), **_FIXED, "group.id": self._group}
        # librdkafka rejects an interval below the session.
        group["max.poll.interval.ms"] = max(int(group["max.poll.interval.ms"]), int(group["session.timeout.ms"]))
        self._monitors = (BrokerMonitor(), BrokerMonitor())
        in_group, asking = (monitor.settings for monitor in self._monitors)
        self._consumer = Consumer(
            {**group, **in_group, "on_commit": self._answered, "logger": client_logger("acker_worker")}
        )
        # An open transaction holds a reader of committed records back, and its idea of the end with it.
        self._watermarks = Consumer(
            {**group, **asking, "isolation.level": "read_uncommitted", "logger": client_logger("acker_worker")}
        )
        self._on_committed = on_committed
        self._clock = clock
        self._asked: dict[frozenset[tuple[int, int]], Reached] = {}
        self._asked_at = 0.0
        self._raised: Exception | None = None

    def join(self, on_assign: Rebalance, on_revoke: Rebalance, on_lost: Rebalance) -> None:
        """Joins the group.

        `on_assign` has to call `start`, `on_revoke` and `on_lost` `release`; `on_revoke` may commit before that.
        """
        self._consumer.subscribe(
            [self.topic],
            on_assign=self._guarded(on_assign),
            on_revoke=self._guarded(on_revoke),
            on_lost=self._guarded(on_lost),
        )

    def start(self, positions: list[TopicPartition]) -> None:
        self._consumer.incremental_assign(positions)

    def release(self, partitions: list[TopicPartition]) -> None:
        self._consumer.incremental_unassign(partitions)

    def poll(self) -> list[Message]:
        """The records that have come, without waiting for more. Raises what a callback of `join` raised."""
        first = self._consumer.poll(_POLL_S)
        messages = [] if first is None else [first, *self._consumer.consume(_POLL_RECORDS, 0)]
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        return messages

    def committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The group's commits. Raises `KafkaException` if no broker answers in time, as do the next two."""
        return self._consumer.committed(partitions, timeout=CONTACT_S)

    def watermarks(self, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last committed record."""
        return self._bounds(self._consumer, partition)

    def end(self, partition: int) -> int:
        """The offset after the last record of a partition, whether its transaction is over or not."""
        self._watermarks.poll(0)  # for its statistics: it is assigned nothing
        return self._bounds(self._watermarks, partition)[1]

    def _bounds(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        return watermarks(consumer, TopicPartition(self.topic, partition), CONTACT_S)

    @property
    def committing(self) -> bool:
        """Whether a commit is not answered yet."""
        return bool(self._asked)

    @property
    def lost(self) -> bool:
        """Whether one of the consumers has lost all brokers for good, see `kafka_clients.broker_monitor`."""
        return any(monitor.lost for monitor in self._monitors)

    @property
    def unanswered_s(self) -> float:
        """Seconds since the commit began that is not answered yet; 0 if there is none."""
        return self._clock() - self._asked_at if self._asked else 0.0

    def commit(self, reached: Reached) -> None:
        """Begins to commit; the answer comes within `poll` or `close`.

        It is not waited for: librdkafka keeps a commit for as long as there is no broker.
        """
        self._asked[_offsets(reached)] = reached
        self._asked_at = self._clock()
        offsets = [
            TopicPartition(self.topic, partition, progress.offset, progress.metadata())
            for partition, progress in reached.items()
        ]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._answered(error.args[0], offsets)

    def _answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        reached = self._asked.pop(frozenset((each.partition, each.offset) for each in partitions), None)
        refused = error or next((each.error for each in partitions if each.error), None)
        if refused is None:
            self._on_committed(reached or {})
            return
        if refused.code() in GONE:
            self._raised = gone(self.topic, f"is gone: {refused.str()}")
            return
        _log.log(
            logging.INFO if refused.code() in _FENCED else logging.WARNING,
            "%s: commit of %d partitions refused, will be made up for: %s",
            *(self.topic, len(partitions), refused.str()),
        )

    def check(self, error: KafkaError, partition: int | None = None) -> None:
        """Raises an error that came in place of a record; one that passes by itself is logged."""
        if error.code() in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL):
            raise AckerWorkerError(
                f"reading {self.topic} cannot go on: {error.str()}; a restart goes on from its commit"
            )
        if error.fatal() or error.code() in _HOPELESS:
            where = self.topic if partition is None or partition < 0 else f"{self.topic}[{partition}]"
            self.check_allowed(error, where)
            raise TopicError(where, f"cannot be read any more: {error.str()}. Check that it may be read")
        if error.code() in GONE:
            raise gone(self.topic, f"is gone: {error.str()}")
        _log.warning("%s: %s", self.topic, error.str())

    def check_allowed(self, error: KafkaError, where: str) -> None:
        """Raises the error of a missing ACL, if it is one."""
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise AccessError(f"group {self._group} may not be joined by this user: {remedy(ACKER)}")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise TopicError(where, f"may not be read by this user: {remedy(ACKER)}")

    def close(self) -> None:
        """Leaves the group.

        A consumer that has lost a commit would wait for its answer for ever, and stay a member: the process ends then.
        """
        is_stuck = self.unanswered_s > ANSWER_S or (self.lost and self.committing)
        with bounded(_STUCK_CLOSE_S if is_stuck else HANG_S, f"close() of the consumer of {self.topic}"):
            self._watermarks.close()
            self._consumer.close()

    def _guarded(self, callback: Rebalance) -> Callable[[Consumer, list[TopicPartition]], None]:
        """Keeps an exception for the loop: one that crosses librdkafka's callbacks loses its type and its place."""

        def guarded(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            try:
                callback(partitions)
            except (ClusterError, KafkaException) as error:
                self._raised = error

        return guarded


def gone(topic: str, how: str) -> TopicError:
    return TopicError(
        topic,
        f"{how}: its open trees have no ledger any more. If that was a mistake, stop the topology, run acker topics "
        "create MODULE:TOPOLOGY, and start it again: what was not acked has to be emitted again",
    )


def _offsets(reached: Reached) -> frozenset[tuple[int, int]]:
    return frozenset((partition, progress.offset) for partition, progress in reached.items())
