"""Topics that tests create by themselves."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import eventually


def create_topics(kafka: Mapping[str, Any], topics: Iterable[NewTopic]) -> None:
    """Creates topics, and waits until the broker describes them: it answers the creation a moment before."""
    admin, wanted = AdminClient(dict(kafka)), list(topics)
    if not wanted:
        return
    for future in admin.create_topics(wanted).values():
        future.result(60)
    names = TopicCollection([each.topic for each in wanted])

    def described() -> bool:
        try:
            return all(future.result(60) for future in admin.describe_topics(names).values())
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False

    eventually(described, "the topics to be described")
