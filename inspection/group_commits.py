"""Committed offsets of consumer groups.

Read with a consumer for each group, which never joins it. The admin client has a request that needs no partitions, but
aborts the process where the group's coordinator goes away meanwhile (ADR 18): it is for commands that run once.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_clients.catalogue import CONTACT_S, KafkaSettings
from kafka_clients.client_settings import for_consumer
from kafka_clients.errors import REFUSED
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.log_reader import Place, unanswered

NO_GROUP: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)
"""Codes of the errors that mean that the group does not exist."""
Commits = dict[str, dict[Place, TopicPartition]]
"""Group → its committed offsets, with metadata; without the groups that this user may not describe."""

_ANSWER_S: Final = 1.0


class GroupCommits:
    """Reads the committed offsets of known partitions; for one thread."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._settings = {**for_consumer(kafka), "enable.auto.commit": False, "log_level": 0}
        self._consumers: dict[str, Consumer] = {}

    def of(self, places: Mapping[str, Iterable[Place]]) -> Commits:
        """The commits of groups, by the partitions that they read. Raises `BrokerUnreachableError`."""
        self._consumers = {group: consumer for group, consumer in self._consumers.items() if group in places}
        found: Commits = {}
        for group, of_group in places.items():
            wanted = [TopicPartition(*place) for place in of_group]
            answers, error = self._committed(group, wanted) if wanted else ([], None)
            if error is None:
                found[group] = _by_place(answers)
            elif error.code() not in REFUSED:
                raise unanswered(error, f"for the committed offsets of group {group} ")
        return found

    def _committed(self, group: str, wanted: list[TopicPartition]) -> tuple[list[TopicPartition], KafkaError | None]:
        """The answers, or an error; that of a missing ACL of the group is raised only by `poll`."""
        if group not in self._consumers:
            self._consumers[group] = forgettable(Consumer)({**self._settings, "group.id": group})
        consumer, deadline = self._consumers[group], time.monotonic() + CONTACT_S
        while True:
            try:
                answers = consumer.committed(wanted, timeout=_ANSWER_S)
            except KafkaException as raised:
                error = raised.args[0]
            else:
                return answers, next((each.error for each in answers if each.error is not None), None)
            polled = consumer.poll(0)
            refused = None if polled is None else polled.error()
            if refused is not None and refused.code() in REFUSED:
                return [], refused
            if time.monotonic() >= deadline:
                return [], error


def commits_of(admin: AdminClient, groups: Iterable[str]) -> Commits:
    """The commits of groups whose partitions are not known; for commands that run once.

    Raises `BrokerUnreachableError`.
    """
    # One group a request, but all at once.
    requests = [
        request
        for group in groups
        for request in admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=CONTACT_S
        ).items()
    ]
    found: Commits = {}
    for group, answer in requests:
        try:
            found[group] = _by_place(answer.result().topic_partitions or [])
        except KafkaException as error:
            if error.args[0].code() in NO_GROUP:
                found[group] = {}
            elif error.args[0].code() not in REFUSED:
                raise unanswered(error.args[0], f"for the committed offsets of group {group} ") from error
    return found


def _by_place(commits: Iterable[TopicPartition]) -> dict[Place, TopicPartition]:
    return {(each.topic, each.partition): each for each in commits if each.offset >= 0}
