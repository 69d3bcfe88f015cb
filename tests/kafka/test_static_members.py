"""Static members of a group: `group.instance.id` among the Kafka settings."""

import uuid

from spout_sdk import BasicBolt, BasicCollector, ComponentRunner, Spout, TopologyBuilder, Tuple, declare
from tests.kafka.sdk_rig import Cluster, Threaded
from tests.waiting import eventually

LONG_SESSION_MS = 200_000


class Silent(Spout):
    streams = (declare({"number": int}),)

    def next_tuple(self) -> None:
        """Emits nothing."""


class Ignore(BasicBolt):
    def execute(self, tuple_: Tuple, collector: BasicCollector) -> None:
        """Does nothing."""


def test_a_successor_gets_the_tasks_immediately_and_fences_its_predecessor(bootstrap_servers: str) -> None:
    """Within a session that is longer than the test, so that no timeout can have moved them."""
    builder = TopologyBuilder(f"static-{uuid.uuid4().hex[:8]}")
    builder.set_spout("numbers", Silent)
    builder.set_bolt("ignore", Ignore, tasks=2).shuffle_grouping("numbers")
    topology = builder.build()
    cluster = Cluster(bootstrap_servers, topology.manifest)
    cluster.create_topics()
    kafka = {**cluster.kafka, "session.timeout.ms": LONG_SESSION_MS, "group.instance.id": "one"}
    first, second = (ComponentRunner(topology, "ignore", kafka) for _ in range(2))
    predecessor = Threaded(first)
    eventually(lambda: len(first.stats.tasks) == 2, "the tasks of the first")
    successor = Threaded(second)
    eventually(lambda: len(second.stats.tasks) == 2, "the tasks of the second")
    assert "Static consumer fenced by other consumer with same group.instance.id" in predecessor.last_words()
    successor.stop()
    successor.join()
