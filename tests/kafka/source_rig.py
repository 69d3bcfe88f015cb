"""A topology whose spout reads topics of the test."""

from collections.abc import Sequence

from confluent_kafka.admin import NewTopic

from spout_sdk import Topology, load_topology
from tests.kafka.sdk_rig import Cluster, progress, write
from tests.topics import create_topics
from tests.waiting import eventually
from tuple_tree.names import component_group

MODULE = "tests.kafka.source_topologies"


class Source(Cluster):
    """The topics of a topology, which may be a function of `source_topologies`, and the topics that its spout reads."""

    def __init__(self, bootstrap_servers: str, topology: str | Topology, topics: dict[str, int]) -> None:
        self.reference = f"{MODULE}:{topology}"
        loaded = load_topology(self.reference) if isinstance(topology, str) else topology
        super().__init__(bootstrap_servers, loaded.manifest)
        self.topics = topics
        create_topics(self.bootstrap, [NewTopic(name, n, 1) for name, n in topics.items()])
        self.create_topics()

    @property
    def group(self) -> str:
        return component_group(self.manifest.topology, "lines")

    def feed(self, values: Sequence[str], topic: str | None = None) -> None:
        """Writes values round the partitions of a topic, the first one unless named."""
        name = topic or next(iter(self.topics))
        write(self.bootstrap, name, values, self.topics[name])

    def lag(self) -> list[int]:
        """The lag of the group in each partition."""
        found = [progress(self.bootstrap, self.group, topic) for topic in self.topics]
        return [end - committed for of_topic in found for committed, end in of_topic.values()]

    def await_all_committed(self, deadline_s: float = 90.0) -> None:
        eventually(lambda: not any(self.lag()), "the group's offset at the end of all partitions", deadline_s)
