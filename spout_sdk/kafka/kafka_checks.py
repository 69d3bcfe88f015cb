"""What is checked before a component starts, and while it runs.

Kafka answers, authentication succeeds, and the component's topics are as the manifest has them, with the ACLs that it
needs. Its user may lack a DESCRIBE ACL for other topics. While it runs, its topics are watched.
"""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, TopicDescription

from kafka_clients import errors
from kafka_clients.access import Operation, component_role, remedy, shortfall
from kafka_clients.catalogue import Catalogue
from kafka_clients.librdkafka_bugs import forgettable
from spout_sdk.errors import AccessError, BrokerUnreachableError, TopicsError
from spout_sdk.kafka.kafka_settings import KafkaSettings, admin_settings
from spout_sdk.topologies.topology import Topology
from tuple_tree.manifest import topic_specs
from tuple_tree.names import TOPOLOGIES_TOPIC

ANSWER_SECONDS: Final = 10.0

_USED: Final = (Operation.READ, Operation.WRITE)


Uses = Mapping[str, tuple[Operation, ...]]
"""The topics that a component reads or writes, and the ACLs that it needs."""


def topics_of(topology: Topology, component: str) -> Uses:
    """The topics of a component, those that a `KafkaSpout` reads and a `KafkaBolt` writes to included."""
    sources, target = topology.kafka_sources.get(component, ()), topology.kafka_targets.get(component)
    # `acker.topologies` is for commands; spouts and bolts have no use for it.
    return {
        topic: tuple(each for each in operations if each in _USED)
        for topic, operations in component_role(topology.manifest, component, sources, target).needed_topics.items()
        if topic != TOPOLOGIES_TOPIC
    }


def check_topics(kafka: KafkaSettings, topology: Topology, component: str, uses: Uses) -> None:
    """Checks the topics of a component.

    Raises an `AccessError` if the broker refuses this user, a `BrokerUnreachableError` if no broker answers within 10
    seconds, and a `TopicsError` if a topic is missing, has another number of partitions, or may not be used.
    """
    partitions = {spec.name: spec.partitions for spec in topic_specs(topology.manifest)}
    missing = []
    named = [name for name in partitions if name in uses] + [name for name in uses if name not in partitions]
    for topic, answer in _described(kafka, named).items():
        if isinstance(answer, KafkaError):
            if answer.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                if topic not in partitions:
                    does = "writes to" if topic == topology.kafka_targets.get(component) else "reads"
                    raise TopicsError(f"{component!r} {does} topic {topic}, which does not exist: create it")
                missing.append(topic)
                continue
            raise TopicsError(f"topic {topic} {shortfall(uses[topic], ())}: {remedy(component)}")
        operations = answer.authorized_operations
        allowed = None if operations is None else [each.name for each in operations]
        if lacking := shortfall(uses[topic], allowed):
            raise TopicsError(f"topic {topic} {lacking}: {remedy(component)}")
        if len(answer.partitions) != partitions.get(topic, len(answer.partitions)):
            raise TopicsError(
                f"topic {topic} has {len(answer.partitions)} partitions, but the topology needs {partitions[topic]}: "
                "the number of tasks or ack_partitions changed; delete the topic, or change it back"
            )
    if missing:
        raise TopicsError(
            f"topology {topology.name!r} has no topic {', '.join(missing)}: "
            "create them with `acker topics create MODULE:TOPOLOGY`"
        )


def watching_client(kafka: KafkaSettings) -> AdminClient:
    """A client for questions that are asked while a component runs."""
    return forgettable(AdminClient)({**admin_settings(kafka), "log_level": 2})


def _described(kafka: KafkaSettings, topics: list[str]) -> dict[str, TopicDescription | KafkaError]:
    if not topics:
        return {}
    try:
        return Catalogue(
            {**admin_settings(kafka), "log_level": 6}, contact_s=ANSWER_SECONDS, first_s=ANSWER_SECONDS
        ).described(topics)
    except errors.AccessError as refused:
        raise AccessError(str(refused)) from refused
    except errors.BrokerUnreachableError as unreachable:
        raise BrokerUnreachableError(str(unreachable)) from unreachable
