"""What the demo leaves on a cluster that is not its own: nothing but the record that says that it is gone."""

import contextlib
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from acker_cli.settings import KafkaProperties
from tuple_tree.client_settings import for_admin, for_producer
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC, acker_group, component_group
from tuple_tree.topics import topic_specs

_SECONDS: Final = 10.0


def remove_topology(kafka: KafkaProperties, manifest: Manifest) -> list[str]:
    """Deletes topics, consumer groups and manifest of a topology.

    Returns:
        What could not be deleted.
    """
    topology = manifest.topology
    producer = Producer({**for_producer(kafka), "log_level": 0})
    producer.produce(TOPOLOGIES_TOPIC, key=topology.encode(), value=None, partition=0)
    left = [f"{topology} in {TOPOLOGIES_TOPIC}"] if producer.flush(_SECONDS) else []
    admin = AdminClient({**for_admin(kafka), "log_level": 0})
    topics = [spec.name for spec in topic_specs(manifest) if spec.name != TOPOLOGIES_TOPIC]
    for name, deleted in admin.delete_topics(topics, operation_timeout=_SECONDS).items():
        try:
            deleted.result()
        except KafkaException:
            left.append(name)
    groups = [acker_group(topology), *(component_group(topology, part.name) for part in manifest.components)]
    for emptied in admin.delete_consumer_groups(groups, request_timeout=_SECONDS).values():
        # A group that never came to be cannot be deleted, and Kafka forgets an empty one by itself.
        with contextlib.suppress(KafkaException):
            emptied.result()
    return left
