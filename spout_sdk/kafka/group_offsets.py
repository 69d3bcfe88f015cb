"""The offsets of a spout's group on its source topics.

The members of the group read the notices, and a commit of somebody who is no member is refused while it has members.
So the reader of the notices commits for the source as well; then the group's generation also keeps out a process that
was taken for dead and still runs. Where trees are not followed there are no notices and no members, and the consumer
that reads the source commits.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.access import remedy
from kafka_clients.bounded_calls import HANG_S, bounded
from spout_sdk.errors import AccessError, BrokerError
from spout_sdk.kafka_spout.source import Commit, SourcePartition

logger = logging.getLogger("spout_sdk.kafka_spout")

ANSWER_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05
_PASSING: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)


class GroupOffsets:
    """Reads and commits offsets of a group through a consumer of it."""

    def __init__(self, consumer: Consumer, group: str) -> None:
        self._consumer = consumer
        self._group = group

    def committed(self, of: Sequence[SourcePartition]) -> dict[SourcePartition, Commit]:
        asked = [TopicPartition(*at) for at in of]
        try:
            answers = self._consumer.committed(asked, timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        found = {}
        for answer in answers:
            if answer.error is not None:
                raise self._refused(answer.error)
            if answer.offset >= 0:
                found[SourcePartition(answer.topic, answer.partition)] = Commit.read(answer.offset, answer.metadata)
        return found

    def commit(self, commits: Mapping[SourcePartition, Commit]) -> None:
        """Commits in the background; the consumer's `on_commit` hears how it went."""
        if commits:
            self._consumer.commit(offsets=_positions(commits), asynchronous=True)

    def commit_now(self, commits: Mapping[SourcePartition, Commit]) -> bool:
        """Commits and waits for it.

        While processes join or leave, a commit may carry the group's last generation; the same one is accepted once the
        client has heard of the new one, unless the partition is somebody else's by then.
        """
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                with bounded(HANG_S, f"commit() for group {self._group}"):
                    answers = self._consumer.commit(offsets=_positions(commits), asynchronous=False) or ()
                error = next((answer.error for answer in answers if answer.error is not None), None)
            except KafkaException as raised:
                error = raised.args[0]
            if error is None:
                return True
            if error.code() not in _PASSING or time.monotonic() >= deadline:
                logger.warning("offsets of group %s were not committed: %s", self._group, error.str())
                return False
            time.sleep(_PAUSE_SECONDS)

    def _refused(self, error: KafkaError) -> BrokerError:
        if error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            return AccessError(f"the offsets of group {self._group} may not be read by this user: {remedy()}")
        return BrokerError(f"the offsets of group {self._group} cannot be read: {error.str()}; check the brokers")


def _positions(commits: Mapping[SourcePartition, Commit]) -> list[TopicPartition]:
    return [TopicPartition(*at, commit.offset, commit.metadata) for at, commit in commits.items()]
