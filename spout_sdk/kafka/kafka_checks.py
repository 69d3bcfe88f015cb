"""Checks before a component starts.

Kafka answers, authentication succeeds, the component's topics match the manifest, and its user has the ACLs that it
needs. The user may lack a DESCRIBE ACL for other topics.
"""

from collections.abc import Mapping
from typing import Final

from kafka_clients.access import Operation, component_role, remedy, shortfall, targets_of
from kafka_clients.catalogue import Catalogue
from spout_sdk.api.topology import Topology
from spout_sdk.errors import TopicsError
from spout_sdk.kafka.kafka_settings import KafkaSettings, admin_settings
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.topics import topic_specs

ANSWER_SECONDS: Final = 10.0

_USED: Final = (Operation.READ, Operation.WRITE)

Uses = Mapping[str, tuple[Operation, ...]]
"""The topics that a component reads or writes, and the ACLs that it needs."""


def topics_of(topology: Topology, component: str) -> Uses:
    """The topics of a component and its chained bolts, including those of `KafkaSpout`s and `KafkaBolt`s."""
    sources = topology.kafka_sources.get(component, ())
    role = component_role(
        topology.manifest, component, sources, targets_of(topology.manifest, component, topology.kafka_targets)
    )
    # `acker.topologies` is for commands; spouts and bolts have no use for it.
    return {
        topic: tuple(each for each in operations if each in _USED)
        for topic, operations in role.needed_topics.items()
        if topic != TOPOLOGIES_TOPIC
    }


def check_topics(kafka: KafkaSettings, topology: Topology, component: str, uses: Uses) -> None:
    """Checks the topics of a component.

    Raises an `AccessError` if the broker refuses this user, a `BrokerUnreachableError` if no broker answers within 10
    seconds, and a `TopicsError` if a topic is missing, has another number of partitions, or may not be used.
    """
    partitions = {spec.name: spec.partitions for spec in topic_specs(topology.manifest)}
    settings = {**admin_settings(kafka), "log_level": 6}
    catalogue = Catalogue(settings, ANSWER_SECONDS, first_s=ANSWER_SECONDS)
    existing, allowed = catalogue.topics(), catalogue.allowed(uses)
    for topic, needed in uses.items():
        if lacking := shortfall(needed, allowed[topic]):
            raise TopicsError(topic, f"{lacking}: {remedy(component)}")
        found, wanted = existing.get(topic), partitions.get(topic)
        if found is None and wanted is None:
            raise TopicsError(topic, f"does not exist, and {_user(topology, component, topic)} it: create it")
        if found is not None and wanted not in (None, found):
            raise TopicsError(
                topic,
                f"has {found} partitions, but the topology needs {wanted}: "
                "the number of tasks or ack_partitions changed; delete the topic, or change it back",
            )
    for topic in uses:
        if topic not in existing:
            raise TopicsError.missing(topic)


def _user(topology: Topology, component: str, topic: str) -> str:
    """The component that uses a topic outside of the topology, and how, for instance `'publish' writes to`."""
    names = (component, *(bolt.name for bolt in topology.manifest.chained_to(component)))
    writer = next((name for name in names if topology.kafka_targets.get(name) == topic), None)
    outcomes = getattr(topology.manifest.component(component), "outcomes", None)
    if outcomes is not None and outcomes.topic == topic:
        return f"{component!r} writes its outcomes to"
    return f"{component!r} reads" if writer is None else f"{writer!r} writes to"
