"""A topology whose messages are answered: its topics, and its processes."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from spout_sdk import TopologyRunner
from tests.kafka.sdk_rig import Cluster, Use, acking
from tests.waiting import eventually

MODULE = "tests.kafka.client_topologies"


def ready(use: Use, topology: str) -> tuple[Cluster, str]:
    """A topology with its topics, and the source topic."""
    cluster = use(topology, MODULE)
    source = f"{cluster.manifest.topology}-orders"
    admin = AdminClient(cluster.bootstrap)
    wanted = [NewTopic(source, 2, 1), NewTopic(f"{source}.outcomes", 1, 1)]
    for created in admin.create_topics(wanted).values():
        created.result(60)

    def described() -> bool:
        asked = admin.describe_topics(TopicCollection([each.topic for each in wanted]))
        return all(answer.exception() is None for answer in asked.values())

    eventually(described, "both topics")
    return cluster, source


@contextmanager
def running(cluster: Cluster, topology: str) -> Iterator[TopologyRunner]:
    with acking(cluster), TopologyRunner(f"{MODULE}:{topology}", cluster.kafka) as runner:
        yield runner
        runner.stop()
