"""Topics that tests create by themselves."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import eventually
from tuple_tree.names import TOPOLOGIES_TOPIC


def create_topics(kafka: Mapping[str, Any], topics: Iterable[NewTopic]) -> None:
    """Creates topics, and waits until the broker describes them: it answers the creation a moment before."""
    admin, wanted = AdminClient(dict(kafka)), list(topics)
    if not wanted:
        return
    for topic, future in admin.create_topics(wanted).items():
        try:
            future.result(60)
        except KafkaException as error:
            # The one topic that all topologies share: another test may have created it at this moment.
            if topic != TOPOLOGIES_TOPIC or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    names = TopicCollection([each.topic for each in wanted])

    def described() -> bool:
        try:
            return all(future.result(60) for future in admin.describe_topics(names).values())
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False

    eventually(described, "the topics to be described")
