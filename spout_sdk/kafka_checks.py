"""What is checked before a component starts: that Kafka answers, and that the topics are as the manifest says."""

from typing import Final

from confluent_kafka import KafkaException

from spout_sdk.errors import BrokerUnreachableError, TopicsError
from spout_sdk.kafka_settings import KafkaSettings
from spout_sdk.kafka_sink import KafkaSink
from tuple_tree.manifest import Manifest
from tuple_tree.names import TOPOLOGIES_TOPIC
from tuple_tree.topics import topic_specs

ANSWER_SECONDS: Final = 10.0


def check_topics(sink: KafkaSink, kafka: KafkaSettings, manifest: Manifest) -> None:
    """Checks the topics of a topology.

    Raises:
        BrokerUnreachableError: if no broker answers within 10 seconds.
        TopicsError: if a topic is missing or has another number of partitions.
    """
    try:
        present = sink.metadata(ANSWER_SECONDS).topics
    except KafkaException as error:
        raise BrokerUnreachableError(
            f"no Kafka broker answered at {kafka.get('bootstrap.servers')} within {ANSWER_SECONDS:.0f} s "
            f"({error.args[0].str()}): start one, or set bootstrap.servers (ACKER_KAFKA__BOOTSTRAP_SERVERS)"
        ) from error
    missing = []
    for spec in topic_specs(manifest):
        if spec.name == TOPOLOGIES_TOPIC:
            continue  # spouts and bolts have no use for it
        if spec.name not in present:
            missing.append(spec.name)
        elif len(present[spec.name].partitions) != spec.partitions:
            raise TopicsError(
                f"topic {spec.name} has {len(present[spec.name].partitions)} partitions, but the topology needs "
                f"{spec.partitions}: the number of tasks or ack_partitions changed; delete the topic, or change it back"
            )
    if missing:
        raise TopicsError(
            f"topology {manifest.topology!r} has no topic {', '.join(missing)}: "
            "create them with `acker topics create MODULE:TOPOLOGY`"
        )
