"""What consumer groups have committed.

Asked with a consumer of each group that never joins it. The admin client has a request for it that needs no partitions,
but aborts the process where the group's coordinator goes away meanwhile (ADR 18): it is for commands that ask once.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from inspection.record_scan import Place
from kafka_clients.catalogue import CONTACT_S, KafkaSettings
from kafka_clients.client_settings import for_consumer
from kafka_clients.errors import BrokerUnreachableError
from kafka_clients.forgotten_clients import forgettable

NO_GROUP: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)
"""How brokers say that there is no such group."""
Commits = dict[str, dict[Place, TopicPartition]]
"""Group → what it has committed, offset and metadata; without the groups that may not be asked."""

_ANSWER_S: Final = 1.0
_REFUSED: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


class GroupCommits:
    """Asks for the committed offsets of known partitions; for one thread.

    Args:
        kafka: librdkafka properties.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._settings = {**for_consumer(kafka), "enable.auto.commit": False, "log_level": 0}
        self._consumers: dict[str, Consumer] = {}

    def of(self, places: Mapping[str, Iterable[Place]]) -> Commits:
        """The commits of groups.

        Args:
            places: group → the partitions that it reads; a group that does not exist has committed nothing.

        Raises:
            BrokerUnreachableError: if there is no answer in time.
        """
        self._consumers = {group: consumer for group, consumer in self._consumers.items() if group in places}
        found: Commits = {}
        for group, of_group in places.items():
            asked = [TopicPartition(*place) for place in of_group]
            answers, error = self._ask(self._consumer(group), asked) if asked else ([], None)
            if error is None:
                found[group] = {(each.topic, each.partition): each for each in answers if each.offset >= 0}
            elif error.code() not in _REFUSED:
                raise _unanswered(group, error)
        return found

    def _ask(self, consumer: Consumer, asked: list[TopicPartition]) -> tuple[list[TopicPartition], KafkaError | None]:
        """The answers, or why there are none: a group that may not be used shows only in what the consumer reads."""
        end = time.monotonic() + CONTACT_S
        while True:
            try:
                answers = consumer.committed(asked, timeout=_ANSWER_S)
            except KafkaException as raised:
                error = raised.args[0]
            else:
                return answers, next((each.error for each in answers if each.error is not None), None)
            said = consumer.poll(0)
            refused = None if said is None else said.error()
            if refused is not None and refused.code() in _REFUSED:
                return [], refused
            if time.monotonic() >= end:
                return [], error

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            self._consumers[group] = forgettable(Consumer)({**self._settings, "group.id": group})
        return self._consumers[group]


def commits_of(admin: AdminClient, groups: Iterable[str]) -> Commits:
    """The commits of groups of which it is not known what they read; for commands that ask once.

    Args:
        admin: asks.
        groups: which; one that does not exist has committed nothing.

    Raises:
        BrokerUnreachableError: if there is no answer in time.
    """
    # Of one group a request, but all at once.
    asked = [
        answer
        for group in groups
        for answer in admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=CONTACT_S
        ).items()
    ]
    found: Commits = {}
    for group, answer in asked:
        try:
            partitions = answer.result().topic_partitions or []
        except KafkaException as error:
            code = error.args[0].code()
            if code in _REFUSED:
                continue
            if code not in NO_GROUP:
                raise _unanswered(group, error.args[0]) from error
            partitions = []
        found[group] = {(each.topic, each.partition): each for each in partitions if each.offset >= 0}
    return found


def _unanswered(group: str, error: KafkaError) -> BrokerUnreachableError:
    return BrokerUnreachableError(
        f"the brokers do not say what group {group} has committed ({error.str()}): try again once they are well"
    )
