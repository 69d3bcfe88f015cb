"""The committed offsets of groups, read with a consumer for each group, which never joins it.

The admin client has a request for them that aborts the process where the group's coordinator goes away meanwhile:
see ADR 18.
"""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_clients.background import Background, answer_of
from kafka_clients.catalogue import CONTACT_SECONDS, KafkaSettings
from kafka_clients.client_settings import for_consumer, new_client
from kafka_clients.errors import REFUSED
from kafka_clients.librdkafka_bugs import forgettable
from kafka_clients.log_reader import Place, unanswered

_ANSWER_SECONDS: Final = 1.0

Commits = dict[str, dict[Place, TopicPartition]]
"""Group → its committed offsets, with metadata; without the groups that this user may not describe."""

_Answer = tuple[list[TopicPartition], KafkaError | None]


class GroupCommits:
    """Reads the committed offsets of known partitions; for one thread.

    Attributes:
        refused: the groups that this user was not allowed to describe in the last call.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._settings = {**for_consumer(kafka), "enable.auto.commit": False, "log_level": 0}
        self._background = new_client(Background, {**kafka})
        self._consumers: dict[str, Consumer] = {}
        self.refused: set[str] = set()

    def of(self, places: Mapping[str, Iterable[Place]]) -> Commits:
        """The commits of groups, by the partitions that they read. Raises `BrokerUnreachableError`."""
        found: Commits = {}
        self.refused = set()
        for group, (answers, error) in self._answers({group: [*of_group] for group, of_group in places.items()}):
            if error is None:
                found[group] = by_place(answers)
            elif error.code() in REFUSED:
                self.refused.add(group)
            else:
                raise unanswered(error, f"for the committed offsets of group {group} ")
        return found

    def _answers(self, places: Mapping[str, list[Place]]) -> list[tuple[str, _Answer]]:
        """The answer for each group; of several at once, as the first one of each waits for a connection."""
        calls = {group: partial(self._committed, group, of_group) for group, of_group in places.items()}
        if len(calls) == 1:
            return [(group, call()) for group, call in calls.items()]
        begun = [(group, self._background.begin(call, f"commits of {group}")) for group, call in calls.items()]
        return [(group, answer_of(answer)) for group, answer in begun]

    def _committed(self, group: str, places: list[Place]) -> _Answer:
        """The answers, or an error; that of a missing ACL of the group is raised only by `poll`."""
        if not places:
            return [], None
        wanted = [TopicPartition(*place) for place in places]
        if group not in self._consumers:
            self._consumers[group] = new_client(forgettable(Consumer), {**self._settings, "group.id": group})
        consumer, deadline = self._consumers[group], time.monotonic() + CONTACT_SECONDS
        while True:
            try:
                answers = consumer.committed(wanted, timeout=_ANSWER_SECONDS)
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


def by_place(commits: Iterable[TopicPartition]) -> dict[Place, TopicPartition]:
    """The offsets of a group by topic and partition; without partitions that it has not committed."""
    return {(each.topic, each.partition): each for each in commits if each.offset >= 0}
