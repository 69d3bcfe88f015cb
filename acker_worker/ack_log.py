"""The ack log of a topology as a worker reads it: a member of the consumer group, and the meaning of Kafka's errors."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from acker_worker.errors import AckerWorkerError
from acker_worker.progress import Progress
from kafka_clients.access import ACKER, remedy
from kafka_clients.catalogue import KafkaSettings
from kafka_clients.client_settings import client_logger, for_group
from kafka_clients.errors import GONE, AccessError, ClusterError, TopicError
from kafka_clients.group_consumer import FENCED, FINAL, GroupConsumer, Rebalance, first_error
from kafka_clients.librdkafka_bugs import HANG_S, BrokerMonitor, bounded
from kafka_clients.log_reader import watermarks
from tuple_tree.names import acker_group, acks_topic

_log = logging.getLogger(__name__)
CONTACT_S: Final = 5.0  # how long a broker may take to answer, in seconds
ANSWER_S: Final = 30.0  # how long a commit may take while brokers answer, in seconds
_STUCK_CLOSE_S: Final = 1.0  # for a consumer that has lost a commit
_POLL_S: Final = 0.02
_POLL_RECORDS: Final = 500
Reached = Mapping[int, Progress]  # partition of the ack log → up to where its notices are delivered


class AckLogReader(GroupConsumer):
    """The consumer in the group, and one that asks for the ends of partitions.

    `on_committed` is called with what was committed, within `poll` and `close`.
    """

    _KEPT = (ClusterError, KafkaException)

    def __init__(
        self, topology: str, kafka: KafkaSettings, on_committed: Callable[[Reached], None], clock: Callable[[], float]
    ) -> None:
        self.topic = acks_topic(topology)
        self._group = acker_group(topology)
        settings = {
            **for_group(kafka, self._group),
            "enable.partition.eof": True,
            "logger": client_logger("acker_worker"),
        }
        # A consumer that cannot be closed keeps its heartbeats: this is how long its group waits for it. librdkafka
        # rejects an interval below the session.
        longest = max(int(settings.get("max.poll.interval.ms", 45_000)), int(settings["session.timeout.ms"]))
        settings["max.poll.interval.ms"] = longest
        super().__init__(settings, self.topic)
        # An open transaction holds a reader of committed records back, and its idea of the end with it.
        self._watermarks_monitor = BrokerMonitor()
        self._watermarks = Consumer(
            {**settings, **self._watermarks_monitor.settings, "isolation.level": "read_uncommitted"}
        )
        self._on_committed = on_committed
        self._clock = clock
        self._asked: dict[frozenset[tuple[int, int]], Reached] = {}
        self._asked_at = 0.0

    def join(self, on_assign: Rebalance, on_revoke: Rebalance, on_lost: Rebalance) -> None:
        """Joins the group; `on_assign` has to call `start`, and the others `release`."""
        self._subscribe(self.topic, on_assign, on_revoke, on_lost)

    def start(self, positions: list[TopicPartition]) -> None:
        self._consumer.incremental_assign(positions)

    def release(self, partitions: list[TopicPartition]) -> None:
        self._consumer.incremental_unassign(partitions)

    def poll(self) -> list[Message]:
        """The records that have come, without waiting for more. Raises what a callback of `join` raised."""
        first = self._consumer.poll(_POLL_S)
        messages = [] if first is None else [first, *self._consumer.consume(_POLL_RECORDS, 0)]
        self._raise_kept()
        return messages

    def committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The group's commits. Raises `KafkaException` if no broker answers in time, as do the next two."""
        return self._consumer.committed(partitions, timeout=CONTACT_S)

    def watermarks(self, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last committed record."""
        return watermarks(self._consumer, TopicPartition(self.topic, partition), CONTACT_S)

    def end(self, partition: int) -> int:
        """The offset after the last record of a partition, whether its transaction is over or not."""
        self._watermarks.poll(0)  # for its statistics: it is assigned nothing
        return watermarks(self._watermarks, TopicPartition(self.topic, partition), CONTACT_S)[1]

    @property
    def committing(self) -> bool:
        return bool(self._asked)

    @property
    def lost(self) -> bool:
        """Whether one of the consumers has lost all brokers for good, see `kafka_clients.librdkafka_bugs`."""
        return self._monitor.lost or self._watermarks_monitor.lost

    @property
    def unanswered_s(self) -> float:
        """Seconds since the commit began that is not answered yet; 0 if there is none."""
        return self._clock() - self._asked_at if self._asked else 0.0

    def commit(self, reached: Reached) -> None:
        """Begins to commit; the answer, which comes once there is a broker, is read by `poll` or `close`."""
        self._asked[frozenset((partition, progress.offset) for partition, progress in reached.items())] = reached
        self._asked_at = self._clock()
        offsets = [
            TopicPartition(self.topic, partition, progress.offset, progress.metadata())
            for partition, progress in reached.items()
        ]
        self._begin_commit(self._consumer, offsets)

    def _answered(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        reached = self._asked.pop(frozenset((each.partition, each.offset) for each in partitions), None)
        refused = error or first_error(partitions)
        if refused is None:
            self._on_committed(reached or {})
        elif refused.code() in GONE:
            self._raised = gone(self.topic, f"is gone: {refused.str()}")
        else:
            super()._answered(refused, partitions)

    def check(self, error: KafkaError, partition: int | None = None) -> None:
        """Raises an error that came in place of a record; one that passes by itself is logged."""
        if error.code() in FENCED:
            raise AckerWorkerError(
                f"reading {self.topic} cannot go on: {error.str()}; a restart goes on from its commit"
            )
        if error.fatal() or error.code() in FINAL:
            where = self.topic if partition is None or partition < 0 else f"{self.topic}[{partition}]"
            self.check_allowed(error, where)
            raise TopicError(where, f"cannot be read any more: {error.str()}. Check that it may be read")
        if error.code() in GONE:
            raise gone(self.topic, f"is gone: {error.str()}")
        _log.warning("%s: %s", self.topic, error.str())

    def check_allowed(self, error: KafkaError, where: str) -> None:
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


def gone(topic: str, how: str) -> TopicError:
    return TopicError(
        topic,
        f"{how}: its open trees have no ledger any more. If that was a mistake, stop the topology, run acker topics "
        "create MODULE:TOPOLOGY, and start it again: what was not acked has to be emitted again",
    )
