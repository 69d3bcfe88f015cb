"""What consumer groups have committed."""

from collections.abc import Iterable
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from acker_worker.catalogue import CONTACT_S
from acker_worker.errors import BrokerUnreachableError
from inspection.record_scan import Place

NO_GROUP: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID)
"""How brokers say that there is no such group."""
_REFUSED: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def commits_of(admin: AdminClient, groups: Iterable[str]) -> dict[str, dict[Place, TopicPartition]]:
    """Group → what it has committed, offset and metadata; without the groups that may not be asked.

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
    found: dict[str, dict[Place, TopicPartition]] = {}
    for group, answer in asked:
        try:
            partitions = answer.result().topic_partitions or []
        except KafkaException as error:
            code = error.args[0].code()
            if code in _REFUSED:
                continue
            if code not in NO_GROUP:
                raise BrokerUnreachableError(
                    f"the brokers do not say what group {group} has committed ({error.args[0].str()}): try again once "
                    "they are well"
                ) from error
            partitions = []
        found[group] = {(each.topic, each.partition): each for each in partitions if each.offset >= 0}
    return found
